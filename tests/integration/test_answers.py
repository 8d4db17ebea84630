"""A task's output in an answer: readable, bounded, and complete in a file."""

import json
import stat
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import Demo, Serve
from tests.support.processes import until

WRITE = """
    import os
    from quickie import task

    @task
    def write():
        for chunk in {chunks!r}:
            os.write(1, chunk)
"""


def written(demo: Demo, *chunks: bytes) -> dict[str, Any]:
    """Return the answer of a task that writes `chunks`, each with its own call."""
    answer: dict[str, Any] = demo(WRITE.format(chunks=chunks)).run("write").data
    assert answer["exit_code"] == 0
    return answer


def kept(answer: dict[str, Any], stream: str = "stdout") -> bytes:
    """Return the complete output that the answer points to."""
    return Path(answer["truncated"][stream]["file"]).read_bytes()


def size(answer: dict[str, Any]) -> int:
    """Return the bytes of an answer, as JSON."""
    return len(json.dumps(answer, ensure_ascii=False).encode())


# Text


@pytest.mark.parametrize(
    ("chunks", "text"),
    [
        ([b"plain\n"], "plain\n"),
        ([b"no end"], "no end"),
        ([b"dos\r\nlines\r", b"\nall\r\n"], "dos\nlines\nall\n"),
        ([b"caf\xc3", b"\xa9 \xf0\x9f", b"\x8e", b"\x89\n"], "café 🎉\n"),
        ([b"latin caf\xe9\n"], "latin caf\ufffd\n"),
        ([b"\xed\xa0\x80\n"], "\ufffd\ufffd\ufffd\n"),
        ([b"cut \xe2\x82"], "cut \ufffd"),
        ([b"a\0b\n"], "ab\n"),
        ([b"\xff\xfe\xfd"], "\ufffd\ufffd\ufffd"),
        ([b"\xef\xbb\xbfmark\n"], "\ufeffmark\n"),
    ],
    ids=repr,
)
def test_bytes_become_text(demo: Demo, chunks: list[bytes], text: str) -> None:
    assert written(demo, *chunks)["stdout"] == text


@pytest.mark.parametrize(
    "chunks",
    [
        [b"\x1b[1;31mred\x1b[0m\n"],
        [b"\x1b[1;3", b"1mred\x1b", b"[0m\n"],
        [b"\x1b[38;2;1;2;3mred\x1b[39m\n"],
        [b"\x1b]8;;https://example.org\x1b\\red\x1b]8;;\x1b\\\n"],
        [b"\x1b]8;;https://exam", b"ple.org\x1b", b"\\red\x1b]8;;\x07\n"],
        [b"\x1b]0;a title\x07red\n"],
        [b"\x1b[2J\x1b[H\x1b[?25lred\x1b[?25h\x1b(B\x1b=\n"],
        [b"re\x07d\x0e\x0f\n"],
        [b"blue\b\b\b\bred \b\n"],
        [b"working 10%\rworking 99%\rred\n"],
        [b"\x1b[32mwait\x1b[0m\r\x1b[Kred\n"],
        [b"\x1bP1$r0m\x1b\\red\n"],
    ],
    ids=repr,
)
def test_output_reads_as_on_a_terminal(demo: Demo, chunks: list[bytes]) -> None:
    assert written(demo, *chunks)["stdout"].rstrip(" ") in ("red\n", "red \n")


def test_a_progress_bar_is_reduced_to_its_last_state(demo: Demo) -> None:
    bar = [b"\r%3d%% [%s]" % (n, (b"#" * (n // 2)).ljust(50)) for n in range(101)] * 30
    answer = written(demo, b"".join(bar), b"\ndone\n")
    assert answer == {"exit_code": 0, "stdout": f"100% [{'#' * 50}]\ndone\n", "stderr": ""}


@pytest.mark.long
def test_tasks_print_utf_8_in_every_locale(serve: Serve) -> None:
    client = serve(
        """
        import subprocess, sys
        from quickie import task

        @task
        def say():
            print("é 🎉")
            subprocess.run([sys.executable, "-c", "print('é 🎉')"])
        """,
        environ={"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"},
    )
    assert client.run("say").data["stdout"] == "é 🎉\né 🎉\n"


def test_a_task_may_choose_another_encoding(demo: Demo) -> None:
    client = demo("""
        import sys
        from quickie import task

        @task
        def say():
            sys.stdout.reconfigure(encoding="latin-1")
            print("café")
    """)
    assert client.run("say").data["stdout"] == "caf\ufffd\n"


def test_a_lone_surrogate_does_not_break_the_answer(demo: Demo) -> None:
    client = demo(r"""
        import sys
        from quickie import task

        @task
        def say():
            sys.stdout.reconfigure(errors="surrogatepass")
            print("\ud800")
    """)
    assert "\ufffd" in client.run("say").data["stdout"]


# Bounds


def test_long_output_keeps_its_beginning_and_its_end(demo: Demo) -> None:
    lines = [f"line {number}" for number in range(20_000)]
    whole = "\n".join(lines) + "\n"
    answer = written(demo, whole.encode())
    shown = answer["stdout"].splitlines()
    gap = next(position for position, line in enumerate(shown) if line not in lines)
    assert shown[:gap] == lines[:gap]
    assert shown[gap + 1 :] == lines[-len(shown) + gap + 1 :]
    assert 35_000 < size(answer) <= 40_000
    left_out = len(whole) - (len(answer["stdout"]) - len(shown[gap]) - 1)
    assert f"{left_out:,}" in shown[gap], "the line between says how much is missing"
    assert answer["truncated"] == {
        "stdout": {"characters": len(whole), "bytes": len(whole), "file": answer["truncated"]["stdout"]["file"]}
    }
    assert kept(answer) == whole.encode()
    assert answer["truncated"]["stdout"]["file"] in shown[gap]


def test_complete_outputs_are_private(demo: Demo) -> None:
    file = Path(written(demo, b"x\n" * 100_000)["truncated"]["stdout"]["file"])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_the_answer_names_no_file_of_output_that_fits(demo: Demo) -> None:
    assert set(written(demo, b"x" * 39_000, b"\x1b[1mbold\x1b[0m\n")) == {"exit_code", "stdout", "stderr"}
    assert "truncated" in written(demo, b"x" * 41_000)


def test_the_bound_can_be_chosen(serve: Serve) -> None:
    client = serve(WRITE.format(chunks=[b"0123456789" * 20_000]), "--max-output", "4000")
    answer = client.run("write").data
    text = answer["stdout"]
    assert size(answer) <= 4000
    assert text.startswith("0123456789" * 50)
    assert text.endswith("0123456789" * 50)


@pytest.mark.parametrize("piece", ["x", "│", '"\\\n', "🎉", "line\n", "\t"], ids=repr)
def test_no_answer_exceeds_the_bound(demo: Demo, piece: str) -> None:
    """Bytes of JSON count: a quote takes two, a box-drawing character three."""
    client = demo(f"""
        import sys
        from quickie import task

        @task
        def flood():
            text = {piece!r} * 60_000
            print(text)
            print(text, file=sys.stderr)
            sys.exit(3)
    """)
    answer = client.run("flood").data
    assert 30_000 < size(answer) <= 40_000
    assert abs(len(answer["stdout"]) - len(answer["stderr"])) < 2_000


@pytest.mark.parametrize("loud", ["stdout", "stderr"])
def test_a_quiet_stream_lends_its_share(demo: Demo, loud: str) -> None:
    client = demo(f"""
        import sys
        from quickie import task

        @task
        def talk():
            print("out")
            print("err", file=sys.stderr)
            print("x" * 100_000, file=sys.{loud})
    """)
    answer = client.run("talk").data
    assert len(answer[loud]) > 35_000
    assert size(answer) <= 40_000
    assert set(answer["truncated"]) == {loud}


def test_a_failed_run_shows_the_failure_in_the_middle(demo: Demo) -> None:
    client = demo("""
        import sys
        from quickie import Arg, task

        @task(args=[Arg("code", type=int)])
        def check(code):
            for number in range(1, 20_001):
                print("E   AssertionError: assert 401 == 200" if number == 2003 else f"line {number}")
                if number % 100 == 0:
                    print(f"connection error {number}")
            sys.exit(code)
    """)
    answer = client.run("check", "1").data
    assert "\n2023: E   AssertionError: assert 401 == 200\n" in answer["stdout"]
    assert answer["stdout"].count(": connection error") == 1, "repeated shapes appear once"
    assert answer["stdout"].startswith("line 1\n")
    assert answer["stdout"].endswith("line 20000\nconnection error 20000\n")
    assert size(answer) <= 40_000
    assert "AssertionError" not in client.run("check", "0").data["stdout"]


def test_the_output_after_a_timeout_is_bounded_too(demo: Demo) -> None:
    client = demo("""
        import time
        from quickie import task

        @task
        def flood():
            while True:
                print("x" * 1000)
    """)
    refusal = client.call("run_task", task_name="flood", timeout=1.5).refusal
    assert 30_000 < len(json.dumps(refusal, ensure_ascii=False).encode()) <= 40_000
    assert "left out" in refusal


# Amounts


def test_ten_megabytes_without_a_newline(demo: Demo) -> None:
    answer = written(demo, b"0123456789" * 1_000_000)
    assert answer["truncated"]["stdout"]["characters"] == 10_000_000
    assert answer["stdout"].startswith("0123456789")
    assert answer["stdout"].endswith("0123456789")
    assert kept(answer) == b"0123456789" * 1_000_000


@pytest.mark.long
def test_a_million_short_lines(demo: Demo) -> None:
    client = demo("""
        import sys
        from quickie import task

        @task
        def count():
            sys.stdout.writelines(f"{number}\\n" for number in range(1_000_000))
    """)
    answer = client.call("run_task", task_name="count", timeout=120).data
    assert answer["stdout"].startswith("0\n1\n2\n")
    assert answer["stdout"].endswith("\n999998\n999999\n")
    assert kept(answer) == b"".join(b"%d\n" % number for number in range(1_000_000))


@pytest.mark.long
def test_memory_stays_bounded(serve: Serve) -> None:
    client = serve("""
        import os
        from quickie import task

        @task
        def little():
            os.write(1, b"x" * 100_000)

        @task
        def much():
            chunk = (b"0123456789" * 10 + b"\\n") * 10_000
            for _ in range(100):
                os.write(1, chunk)
                os.write(2, chunk.replace(b"\\n", b" ") + b"\\r")
    """)
    server = psutil.Process(client.pid)
    client.run("little")
    before = server.memory_info().rss
    call = client.start("run_task", task_name="much", timeout=300)
    peak = before

    def watch() -> bool:
        nonlocal peak
        peak = max(peak, server.memory_info().rss)
        return call.answered

    until(watch, 200, "200 megabytes to be read")
    answer = call.wait().data
    assert answer["truncated"]["stdout"]["bytes"] == 101_000_000
    assert set(answer["truncated"]) == {"stdout", "stderr"}, "the last state of the redrawn line is a megabyte"
    assert peak - before < 60_000_000, "the server keeps output in memory"
    for stream in ("stdout", "stderr"):
        Path(answer["truncated"][stream]["file"]).unlink()

"""What is logged where, in a process of its own."""

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import CommandLine
from tests.support.environment import scrubbed

SCRIPT = """
import logging, os, sys
from pathlib import Path
from qk_mcp.cli.ui.log import configure_log

verbose, quiet, file = sys.argv[1:]
configure_log(int(verbose), int(quiet), Path(file) if file else None)
ours, theirs = logging.getLogger("qk_mcp.server.server"), logging.getLogger("library")
for level in ("debug", "info", "warning", "error"):
    getattr(ours, level)("ours: %s", level)
    getattr(theirs, level)("theirs: %s", level)
try:
    1 / 0
except ZeroDivisionError:
    ours.exception("a %s", "bug")
ours.warning("odd \\x1b[31m\\ud800\\n2000-01-01 fake record")
ours.warning("wrong %d", "arguments")
os._exit(0)  # Python itself would tell of a stderr that it cannot flush, by its exit code
"""


def _log(directory: Path, verbose: int = 0, quiet: int = 0, file: Path | str = "", closing: str = "") -> str:
    command = ["/bin/sh", "-c", f'exec "$@" {closing}', "sh", sys.executable, "-c", SCRIPT]
    done = subprocess.run(
        [*command, str(verbose), str(quiet), str(file)],
        env=scrubbed(directory / "home"),
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "")
    return done.stderr


@pytest.mark.parametrize(
    ("verbose", "quiet", "ours", "theirs"),
    [
        (0, 0, ["warning", "error"], ["warning", "error"]),
        (1, 0, ["info", "warning", "error"], ["warning", "error"]),
        (2, 0, ["debug", "info", "warning", "error"], ["warning", "error"]),
        (9, 0, ["debug", "info", "warning", "error"], ["warning", "error"]),
        (0, 1, ["error"], ["error"]),
        (1, 1, ["warning", "error"], ["warning", "error"]),
        (0, 2, [], []),
        (0, 9, [], []),
    ],
)
def test_stderr_shows_as_much_as_the_options_ask_for(
    tmp_path: Path, verbose: int, quiet: int, ours: list[str], theirs: list[str]
) -> None:
    text = _log(tmp_path, verbose, quiet)
    assert re.findall(r"^(\w+): ours: \1$", text, re.MULTILINE) == ours
    assert re.findall(r"^(\w+): theirs: \1$", text, re.MULTILINE) == theirs
    assert ("error: a bug" in text) == (quiet < 2)
    assert ("Traceback" in text) == (verbose >= 2)
    assert "\x1b" not in text
    assert "Logging error" not in text


def test_a_log_file_has_all_our_messages_and_is_private(tmp_path: Path) -> None:
    file = tmp_path / "qk.log"
    _log(tmp_path, quiet=2, file=file)
    text = file.read_text(encoding="utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    record = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \d+ (\w+) qk_mcp\.server\.server: (.*)$"
    assert re.findall(record, text, re.MULTILINE) == [
        ("DEBUG", "ours: debug"),
        ("INFO", "ours: info"),
        ("WARNING", "ours: warning"),
        ("ERROR", "ours: error"),
        ("ERROR", "a bug"),
        ("WARNING", "odd \ufffd"),
    ]
    assert "\n    ZeroDivisionError: division by zero\n" in text
    assert "\n    2000-01-01 fake record\n" in text
    file.chmod(0o640)
    _log(tmp_path, quiet=2, file="~/../qk.log")
    assert file.read_text(encoding="utf-8").startswith(text)
    assert file.read_text(encoding="utf-8").count("ours: info") == 2
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.parametrize("closing", ["2>&-", "2>/dev/full"])
def test_a_stderr_that_cannot_be_written_does_no_harm(tmp_path: Path, closing: str) -> None:
    assert _log(tmp_path, 2, 0, tmp_path / "qk.log", closing) == ""
    assert "ours: error" in (tmp_path / "qk.log").read_text()


def test_an_unwritable_log_file_is_reported_at_once(qk_mcp: CommandLine) -> None:
    (qk_mcp.home / "file").touch()
    for path, why in {
        qk_mcp.home: "Is a directory",
        qk_mcp.home / "file" / "x.log": "Not a directory",
        qk_mcp.home / "none" / "x.log": "No such file or directory",
    }.items():
        outcome = qk_mcp("--project", "a:/x", "--log-file", path)
        assert (outcome.code, outcome.stdout) == (2, "")
        assert outcome.stderr == (
            f"error: cannot write the log file {path}\n  {why}.\nhint: name a file that you may write with --log-file\n"
        )

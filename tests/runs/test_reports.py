"""`qk_mcp.runs.reports`: the tests of a run, from the JUnit files that it writes."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from qk_mcp.runs.reports import read_reports
from tests.conftest import Serve

REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="1" skipped="1" tests="4">
<testcase classname="tests.test_a" name="test_ok" time="0.001" />
<testcase classname="tests.test_a" name="test_bad"><failure message="assert 401 == 200">code</failure></testcase>
<testcase file="tests/test_a.py" line="7" name="test_worse"><error>ValueError: &lt;x&gt;</error></testcase>
<testcase classname="tests.test_a" name="test_not_yet"><skipped message="later" /></testcase>
</testsuite></testsuites>
"""


@pytest.mark.long
def test_an_answer_has_the_tests_of_new_reports(serve: Serve, project: Callable[..., Path], tmp_path: Path) -> None:
    root = project(
        f"""
        from pathlib import Path
        from quickie import task

        @task
        def check():
            Path("build").mkdir(exist_ok=True)
            Path("build/junit-unit.xml").write_text({REPORT!r})

        @task
        def nothing(): ...
        """
    )
    config = tmp_path / "config.toml"
    config.write_text(f"[projects.demo]\npath = {str(root)!r}\nreports = ['build/junit*.xml']\n")
    client = serve(None, "--config", str(config))
    assert "tests" not in client.run("nothing").data
    assert client.run("check").data["tests"] == {
        "passed": 1,
        "failed": 1,
        "errors": 1,
        "skipped": 1,
        "failures": [
            {"name": "test_bad", "where": "tests.test_a", "message": "assert 401 == 200"},
            {"name": "test_worse", "where": "tests/test_a.py:7", "message": "ValueError: <x>"},
        ],
    }
    past = time.time() - 60
    os.utime(root / "build" / "junit-unit.xml", (past, past))
    assert "tests" not in client.run("nothing").data, "the report of an earlier run does not count"


def test_entity_declarations_are_refused(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>'
    (tmp_path / "junit.xml").write_text(bomb)
    reports = read_reports(tmp_path, ["*.xml"], 0, room=10_000)
    assert reports.answer() is None
    assert "it declares entities" in reports.problems[0]


def test_large_broken_and_odd_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(b" " * ((10 << 20) + 1))
    (tmp_path / "b.xml").write_text("<testsuite>")
    (tmp_path / "c.xml").mkdir()
    os.mkfifo(tmp_path / "d.xml")
    reports = read_reports(tmp_path, ["*.xml"], 0, room=10_000)
    assert reports.answer() is None
    assert len(reports.problems) == 2


def test_failures_are_bounded(tmp_path: Path) -> None:
    case = '<testcase name="{}"><failure message="{}"/></testcase>'
    text = "".join(case.format(number, "x" * 100_000) for number in range(50))
    (tmp_path / "junit.xml").write_text(f"<testsuite>{text}</testsuite>")
    answer = read_reports(tmp_path, ["*.xml"], 0, room=100_000).answer()
    assert answer is not None
    assert (answer["failed"], len(answer["failures"])) == (50, 20)
    assert max(len(each["message"]) for each in answer["failures"]) == 300
    assert len((read_reports(tmp_path, ["*.xml"], 0, room=2_000).answer() or {})["failures"]) == 5

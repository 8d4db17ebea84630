"""An unfinished report still yields the tasks it names."""

import json
from pathlib import Path

from qk_mcp.tasks.report import read_report

_NAMES = {"names": [["build", "b"], ["check"], ["deploy"]]}


def _report(tmp_path: Path, *lines: object, cut: str = "") -> Path:
    file = tmp_path / "report"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + cut)
    return file


def test_a_whole_report_is_sorted(tmp_path: Path) -> None:
    lines = [{"python": "3.13"}, {"task": {"name": "b"}}, {"task": {"name": "a"}}, {"problems": [], "trace": {}}]
    report = read_report(_report(tmp_path, *lines), "")
    assert report == {"python": "3.13", "tasks": [{"name": "a"}, {"name": "b"}], "problems": [], "trace": {}}


def test_a_task_that_ends_the_guest_hides_no_other(tmp_path: Path) -> None:
    lines = [_NAMES, {"at": {"task": "build"}}, {"task": {"name": "build"}}, {"at": {"task": "check"}}]
    report = read_report(_report(tmp_path, *lines, cut='{"task": {"na'), "took longer than 3 s")
    assert report
    assert [task["name"] for task in report["tasks"]] == ["build", "check", "deploy"]
    build, check, deploy = report["tasks"]
    assert "error" not in build
    assert check["error"]["message"] == "describing it took longer than 3 s"
    assert deploy["error"]["message"] == "not described because describing the task 'check' took longer than 3 s"


def test_a_namespace_that_ends_the_guest_hides_no_task(tmp_path: Path) -> None:
    report = read_report(_report(tmp_path, _NAMES, {"at": {"namespace": "slow"}}), "was killed")
    assert report
    assert report["tasks"][0]["aliases"] == ["b"]
    assert "listing the namespace 'slow' was killed" in report["tasks"][0]["error"]["message"]
    [problem] = report["problems"]
    assert problem["name"] == "slow"


def test_a_file_without_task_names_is_no_report(tmp_path: Path) -> None:
    assert read_report(tmp_path / "none", "") is None
    assert read_report(_report(tmp_path, {"python": "3.13"}), "") is None
    assert read_report(_report(tmp_path, [1], "x", {"names": 5, "at": 7}), "") is None

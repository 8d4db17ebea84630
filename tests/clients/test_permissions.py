"""Permissions in a client's settings: only our lines change, and they go without a trace."""

import json
from pathlib import Path

import pytest

from qk_mcp.clients.known import find_client
from qk_mcp.clients.permissions import allow_tools, forbid_tools, permission_changes, settings_file
from qk_mcp.errors import ClientFileKept, ClientFileUnreadable

CLAUDE = find_client("claude-code")
SETTINGS = """{
  "model": "opus", // mine
  "permissions": {
    "allow": [
      "Bash(git status:*)"
    ],
    "deny": ["mcp__qk-mcp__run_task"]
  }
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.json"


def test_only_the_new_rules_are_added_and_their_removal_leaves_the_old_text(file: Path) -> None:
    file.write_text(SETTINGS)
    changes = permission_changes(CLAUDE, file, "qk-mcp", ["list_tasks", "lint"])
    assert [line for line in changes.splitlines() if line.startswith("+ ")] == [
        '+      "Bash(git status:*)",',
        '+      "mcp__qk-mcp__list_tasks",',
        '+      "mcp__qk-mcp__lint"',
    ]
    assert file.read_text() == SETTINGS, "showing writes nothing"
    allow_tools(CLAUDE, file, "qk-mcp", ["list_tasks", "lint"])
    assert '"deny": ["mcp__qk-mcp__run_task"]' in file.read_text()
    assert permission_changes(CLAUDE, file, "qk-mcp", ["list_tasks", "lint"]) == ""
    assert forbid_tools(CLAUDE, file, "qk-mcp")
    assert file.read_text() == SETTINGS
    assert not forbid_tools(CLAUDE, file, "qk-mcp")


@pytest.mark.parametrize("text", ["{}", '{"permissions": {}}', '{"permissions": {"allow": []}}\n', '{\n  "a": 1\n}\n'])
def test_a_file_without_rules_gets_its_old_text_back(file: Path, text: str) -> None:
    file.write_text(text)
    allow_tools(CLAUDE, file, "qk-mcp", ["list_tasks"])
    assert json.loads(file.read_text())["permissions"]["allow"] == ["mcp__qk-mcp__list_tasks"]
    assert forbid_tools(CLAUDE, file, "qk-mcp")
    assert file.read_text() == text


def test_a_file_of_ours_is_private_and_goes_again(tmp_path: Path) -> None:
    file = tmp_path / "new" / "settings.json"
    assert not forbid_tools(CLAUDE, file, "qk-mcp")
    allow_tools(CLAUDE, file, "qk-mcp", ["list_tasks"])
    assert file.stat().st_mode & 0o077 == 0
    assert forbid_tools(CLAUDE, file, "qk-mcp")
    assert not file.exists()


def test_rules_of_other_servers_stay(file: Path) -> None:
    rules = ["mcp__qk-mcp-2__list_tasks", "mcp__qk-mcp", "Read"]
    file.write_text(json.dumps({"permissions": {"allow": [*rules, "mcp__qk-mcp__old"]}}))
    assert forbid_tools(CLAUDE, file, "qk-mcp")
    assert json.loads(file.read_text()) == {"permissions": {"allow": rules}}


@pytest.mark.parametrize("text", ['{"permissions": []}', '{"permissions": {"allow": "all"}}', "{broken", "[]"])
def test_settings_that_only_a_person_should_edit_are_kept(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(ClientFileKept, match="mcp__qk-mcp__list_tasks"):
        allow_tools(CLAUDE, file, "qk-mcp", ["list_tasks"])
    assert file.read_text() == text


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClientFileUnreadable, match="directory"):
        permission_changes(CLAUDE, tmp_path, "qk-mcp", ["list_tasks"])


def test_the_directory_of_the_settings_can_be_moved() -> None:
    assert settings_file({"HOME": "/h"}) == Path("/h/.claude/settings.json")
    assert settings_file({"HOME": "/h", "CLAUDE_CONFIG_DIR": "/c"}) == Path("/c/settings.json")

"""What can be checked in the documents: links, names of files and commands, examples."""

import importlib.util
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts.exceptions import CycloptsError, MissingArgumentError

from qk_mcp.cli.app import app
from qk_mcp.cli.commands.run import shield_task
from qk_mcp.guest import __main__ as guest
from qk_mcp.projects import config
from qk_mcp.runs.record import append_run
from tests import reference
from tests.runs.test_record import made
from tests.support.cli import CommandLine
from tests.support.environment import BARE_PATH, PROGRAM, scrubbed
from tests.support.projects import make_project
from tests.support.serving import serving

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob(".github/**/*.md"), *ROOT.glob(".github/**/*.yml")]
)
IDS = [str(document.relative_to(ROOT)) for document in DOCUMENTS]

each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=IDS)


def block(document: str, heading: str) -> str:
    """Return the first code block after the text `heading`."""
    text = (ROOT / document).read_text(encoding="utf-8").partition(heading)[2]
    blocks: list[str] = re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return blocks[0]


def code(document: Path) -> Iterator[str]:
    """The code of a document: blocks, and spans between backticks."""
    text = document.read_text(encoding="utf-8")
    fenced = r"^```\w*\n(.*?)^```$"
    yield from re.findall(fenced, text, re.MULTILINE | re.DOTALL)
    yield from re.findall(r"`([^`\n]+)`", re.sub(fenced, "", text, flags=re.MULTILINE | re.DOTALL))


def anchors(document: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a document."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_document
def test_links_lead_to_files_and_headings(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = [*re.findall(r"\]\(([^)\s]+)\)", text), *re.findall(r"^\[[\w-]+\]: (\S+)$", text, re.MULTILINE)]
    ours = r"https://(raw.githubusercontent|github).com/qk-mcp/qk-mcp/(blob/)?main/"
    local = [re.sub(ours, f"{ROOT}/", link).partition("#") for link in links]
    files = [(document.parent / name if name else document, anchor) for name, _, anchor in local if "://" not in name]

    assert [str(file) for file, _ in files if not file.exists()] == []
    assert [f"{file}#{anchor}" for file, anchor in files if anchor and anchor not in anchors(file)] == []


@each_document
def test_named_files_exist(document: Path) -> None:
    """Paths from the root, or from `qk_mcp/`; a path with NAME, x or * is a placeholder."""
    path = re.compile(r"(?<![\w/.~-])((?:qk_mcp|tests|docs|\.github|\.ci|completions|[a-z]+(?=/\w+\.py))/[\w./*-]*)")
    named = {found for text in code(document) for found in path.findall(text)}
    concrete = [name for name in named if not re.search(r"NAME|\*|\bx/|/x\b", name)]

    assert [name for name in concrete if not (ROOT / name).exists() and not (ROOT / "qk_mcp" / name).exists()] == []


@each_document
def test_named_commands_exist(document: Path) -> None:
    text = "\n".join(code(document))

    for command in re.findall(r"qk-mcp ((?:--)?[a-z][a-z-]*)", text):
        assert command in app, f"qk-mcp {command}"
    for command in re.findall(r"qk-mcp projects ([a-z]+)", text):
        assert command in app["projects"], f"qk-mcp projects {command}"
    for module in re.findall(r"python3? -m ((?:qk_mcp|tests)[\w.]*)", text):
        assert importlib.util.find_spec(module), f"python -m {module}"


def test_named_tasks_exist() -> None:
    source = (ROOT / "_qk" / "__init__.py").read_text(encoding="utf-8")
    tasks = {*re.findall(r"^def (\w+)", source, re.MULTILINE), *re.findall(r'name="(\w+)"', source)}
    named = {
        name
        for document in ("CONTRIBUTING.md", "AGENTS.md", ".github/pull_request_template.md")
        for text in code(ROOT / document)
        for name in re.findall(r"\bqk ([a-z]+)", text)
    }

    assert named
    assert named <= tasks


@pytest.mark.parametrize("document", reference.DOCUMENTS, ids=lambda document: document.name)
def test_generated_parts_are_fresh(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert reference.updated(text) == text, "run `qk reference`"


def test_reference_names_each_key_of_the_config() -> None:
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8").partition("## Config")[2]
    assert re.findall(r"^\| `(\w+)` \|", text.partition("## Exit codes")[0], re.MULTILINE) == list(config._KEYS)


@pytest.mark.parametrize("document", ["README.md try", "README.md tests", "docs/performance.md benchmark"])
def test_a_command_stands_alone_after_a_mark(document: str) -> None:
    """`.ci/run` and who follows the README run them as they are."""
    file, mark = document.split()
    command = block(file, f"<!-- {mark} -->")

    assert len(command.splitlines()) == 1
    assert subprocess.run(["sh", "-n", "-c", command]).returncode == 0


def test_readme_is_short_and_its_questions_have_answers() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    questions = re.findall(r"\[[^]]+\?\]\[([\w-]+)\]", text)

    assert len(text.splitlines()) <= 150
    assert len(questions) == 10
    assert [name for name in re.findall(r"\]\[([\w-]+)\]", text) if f"\n[{name}]: https://" not in text] == []


def test_readme_leads_a_new_user_to_an_answer(tmp_path: Path) -> None:
    """Follow it: write the module, run the commands, start what they wrote for the client, make the call."""
    cart, programs = tmp_path / "cart", tmp_path / "bin"
    for directory in (cart / "_qk", cart / "tests", programs):
        directory.mkdir(parents=True)
    (cart / "_qk" / "__init__.py").write_text(block("README.md", "<!-- example -->"), encoding="utf-8")
    (cart / "tests" / "__init__.py").touch()
    (cart / "tests" / "test_cart.py").write_text(
        "import unittest\nclass Cart(unittest.TestCase):\n    def test_total(self):\n        self.assertEqual(20, 25)\n"
    )
    (programs / "qk-mcp").write_text(f'#!/bin/sh\nexec {PROGRAM} "$@"\n')
    (programs / "qk-mcp").chmod(0o755)
    home = tmp_path / "home"
    environ = scrubbed(home, PATH=f"{programs}:{BARE_PATH}")
    commands = block("README.md", "<!-- commands -->")

    done = subprocess.run(["sh", "-ec", commands], cwd=cart, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Run the tests; arguments go to unittest." in done.stdout
    entry = json.loads((home / ".claude.json").read_text())["mcpServers"]["qk-mcp"]
    call, answer = block("README.md", "<!-- answer -->").split("\n\n")
    arguments = json.loads(call)
    with serving(home, None, command=[entry["command"], *entry["args"]], cwd="/") as client:
        text = client.call("run_task", **arguments).frame["result"]["content"][0]["text"]
    position = 0
    for part in answer.strip().split("…"):
        assert part in text[position:], text
        position = text.index(part, position) + len(part)


@each_document
def test_shown_configs_are_valid(document: Path, tmp_path: Path) -> None:
    for number, text in enumerate(re.findall(r"^```toml\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)):
        if "[projects" in text:
            file = tmp_path / f"{number}.toml"
            file.write_text(text)
            file.chmod(0o600)
            found = config.read_config(file, {"HOME": str(tmp_path)})
            assert found.projects
            assert found.warnings == ()


PLACEHOLDERS = {
    "CLIENT": "cursor",
    "PROJECT": "shop",
    "NAME": "shop",
    "TASK": "test",
    "RUN": "r4d",
    "COMMAND": "run",
    "NAME:PATH": "shop:/x",
    "PATH": "/x",
    "FILE": "/x",
    "SECONDS": "3",
}


def shown_commands(document: Path) -> Iterator[list[str]]:
    """Yield the words of each `qk-mcp` command that is written out; a name in capitals gets a value."""
    for text in code(document):
        for line in text.splitlines():
            command = re.match(r"(?:\$ )?qk-mcp ([^#|>]*)", line.strip())
            if command is not None and not re.search(r"[\[…]| / |unix:", command[1]):
                yield [PLACEHOLDERS.get(word, word) for word in shlex.split(command[1])]


def check_words(words: list[str]) -> bool:
    """Return whether `words` are a complete command, which cyclopts must accept, and not the bare name of one."""
    if words[0].startswith("-") and words[0] not in app:
        words = ["serve", *words]
    if words[0] == "run":
        words = ["run", *shield_task(words[1:], app["run"])]
    try:
        app.parse_args(words, exit_on_error=False, print_error=False)
    except MissingArgumentError:
        assert re.fullmatch(r"[a-z -]+", " ".join(words)), words
        return False
    except CycloptsError as error:
        pytest.fail(f"{shlex.join(words)}: {error}")
    return True


NOT_TRIED = {
    "--http": "goes on until it is stopped; tests/integration/test_http.py starts it",
    "--watch": "goes on until it is stopped; test_inspect.py starts it",
    "--follow": "goes on until it is stopped; test_runs.py starts it",
    "--install-completion": "writes into the files of a shell; test_install_completion.py starts it",
    "--host": "connects to a machine; tests/integration/test_remote.py does it with an sshd",
    "--via": "starts docker; tests/integration/test_remote.py does it with sh",
}
"""Options that keep a command from being tried here, and why."""

FAILURES = {
    "runs stop r5e": "It is not running",
    "runs stop r4d": "It is not running",
    "uninstall claude-code": "none of its servers is qk-mcp",
}
"""Commands that fail in the home of this test, and what they say."""


@each_document
def test_shown_commands_are_valid(document: Path) -> None:
    for words in shown_commands(document):
        check_words(words)


@pytest.mark.long
@each_document
def test_shown_commands_do_what_they_should(document: Path, tmp_path: Path) -> None:
    """In a home with a project `shop`, whose rules and runs are those of the guide."""
    qk_mcp = CommandLine(tmp_path / "home")
    root = make_project(qk_mcp.home / "code" / "shop", "from quickie import task\n@task\ndef test(): print('tested')")
    qk_mcp.config.parent.mkdir(parents=True)
    qk_mcp.config.write_text(f'[projects.shop]\npath = "{root}"\nconfirm = ["test"]\n')
    qk_mcp.config.chmod(0o600)
    state = qk_mcp.home / ".local" / "state" / "qk-mcp"
    for run in ("r4d", "r5e"):
        append_run(state / "runs.jsonl", made(run, state="ended", exit_code=0, seconds=1.0, project="shop"))
    (state / "token").write_text("a-token-that-is-long-enough\n")
    (state / "token").chmod(0o600)
    for words in shown_commands(document):
        if not check_words(words) or NOT_TRIED.keys() & set(words):
            continue
        outcome = qk_mcp(*words, cwd=root)
        if outcome.stderr.startswith("error: which "):
            continue  # the name of a command, which wants more
        expected = FAILURES.get(shlex.join(words))
        assert "Traceback" not in outcome.stderr
        assert (outcome.code == 0) == (expected is None), (words, outcome)
        assert (expected or "") in outcome.stderr, words


def test_architecture_shows_what_the_sockets_carry(tmp_path: Path) -> None:
    """The example exchanges of the architecture document are those of a real guest."""
    (tmp_path / "_qk.py").write_text(block("docs/architecture.md", "## Protocols"), encoding="utf-8")
    control = block("docs/architecture.md", "### Control socket")
    requests = re.findall(r"^server → guest +(.*)$", control, re.MULTILINE)
    answers = re.findall(r"^guest +→ server +(.*)$", control, re.MULTILINE)
    words = re.findall(r"→ server +(.*)$", block("docs/architecture.md", "### Supervision socket"), re.MULTILINE)

    exchanges = [talk(tmp_path, request.replace("/home/me/app", str(tmp_path))) for request in requests]

    assert [answer for answer, _ in exchanges] == answers
    adopting = 1 if sys.platform == "linux" else 0
    spoken = [word for word in exchanges[0][1] if word.split()[0] != "placed"]  # not every system can
    assert [re.sub(r"child \d+ \d", f"child 19157 {adopting}", word) for word in spoken] == [
        re.sub(r"(child \d+) \d", rf"\1 {adopting}", word) for word in words
    ]


def talk(root: Path, request: str) -> tuple[str, list[str]]:
    """Start a guest, send one request; return what came back on the control and the supervision socket."""
    (control, its_control), (supervision, its_supervision) = socket.socketpair(), socket.socketpair()
    with control, supervision:
        with its_control, its_supervision:
            handed = [its_control.fileno(), its_supervision.fileno()]
            process = subprocess.Popen(
                [sys.executable, "-P", str(guest.__file__), *map(str, handed), "mark"],
                cwd=root,
                env=scrubbed(root),
                pass_fds=handed,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        json.loads(request)
        control.sendall(request.encode() + b"\n")
        with process, control.makefile() as events, supervision.makefile() as words:
            return events.read().strip(), words.read().splitlines()


def test_changelog_keeps_its_form() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (.*)$", changelog, re.MULTILINE)
    kinds = set(re.findall(r"^### (.*)$", changelog, re.MULTILINE))

    assert releases[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", release) for release in releases[1:])
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    names = [release.partition("]")[0] + "]:" for release in releases]
    assert [name for name in names if name not in changelog] == []


def test_ci_tries_each_declared_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    matrix = re.search(r"python: \[(.*)\]", workflow)

    assert matrix is not None
    assert re.findall(r"3\.\d+", matrix[1]) == declared
    assert os.access(ROOT / ".ci" / "run", os.X_OK)

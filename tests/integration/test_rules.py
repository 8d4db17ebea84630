"""The user's rules, through a real server: what is listed, what runs, and who is asked.

One server serves all tests that only try to get around a rule. A case there is one line.
"""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.client import LEGACY, MODERN, Client
from tests.support.git import commit_all, git, needs_git
from tests.support.person import YES, Asking
from tests.support.processes import until
from tests.support.projects import make_project
from tests.support.serving import serving

SHOP = """
    from quickie import Namespace, task
    import os, pathlib, sys, time

    def ran(name, *args):
        with open(pathlib.Path(os.environ["HOME"]) / "ran", "a") as log:
            print(name, *args, file=log)
        print("ran", name, *args)

    @task
    def test(): ran("test")

    @task(aliases=["ship", "Ausliefern", "café"])
    def deploy(env="dev"): ran("deploy", env)

    @task(name="deploy twice", aliases=["d2"])
    def twice(): ran("deploy twice")

    @task
    def migrate(): ran("migrate")

    @task
    def drop(): ran("drop")

    db = Namespace({"migrate": migrate, "drop": drop, "deep": Namespace({"wipe": drop}, path="deep")}, path="db")

    @task(aliases=["rel"], extra_args=True)
    def release(*args):
        '''Release it.'''
        ran("release", *args, sys.stdin.read())

    @task
    def slow(): time.sleep(60)
"""

RULES = """
    deny = ["deploy*", "db:*"]
    confirm = ["release*"]
    max_timeout = 5
"""


@contextmanager
def rules_server(
    home: Path, config: str, *options: str, kind: type[Client] = Client, cwd: Path | None = None, version: str = LEGACY
) -> Iterator[Any]:
    """Serve the projects of the user's own config."""
    write_config(home, config)
    with serving(home, None, *options, kind=kind, cwd=cwd, version=version) as client:
        yield client


def write_config(home: Path, text: str) -> Path:
    file = home / ".config" / "qk-mcp" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(line.strip() for line in text.splitlines()))
    file.chmod(0o600)
    return file


def what_ran(home: Path) -> list[str]:
    """Return the names and arguments of the tasks that have run, and forget them."""
    file = home / "ran"
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return lines


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Client]]:
    """A server with a `shop` of strict rules, a `twin` that is the same shop without rules, and another project."""
    home = tmp_path_factory.mktemp("rules") / "home"
    shop = make_project(home / "shop", SHOP)
    (home / "link").symlink_to(shop)
    make_project(home / "web", "from quickie import task\n@task\ndef deploy(): print('ran web')")
    commit_all(shop)
    git(shop, "worktree", "add", "-q", str(home / "feat"))
    config = f"""
        [projects]
        twin = "{home}/link"
        web = "{home}/web"
        [projects.shop]
        path = "{shop}"
        {RULES}
    """
    with rules_server(home, config) as client:
        yield home, client


@pytest.fixture
def shop(standing: tuple[Path, Client]) -> Client:
    """The shared server; nothing has run yet."""
    home, client = standing
    what_ran(home)
    return client


WAYS_IN = {
    "its name": {"task_name": "deploy", "project": "shop"},
    "an alias": {"task_name": "ship", "project": "shop"},
    "another alias": {"task_name": "Ausliefern", "project": "shop"},
    "another normal form": {"task_name": "cafe\u0301", "project": "shop"},
    "a name with a blank": {"task_name": "deploy twice", "project": "shop"},
    "the short alias of a longer name": {"task_name": "d2", "project": "shop"},
    "a namespace": {"task_name": "db:drop:drop", "project": "shop"},
    "a namespace in a namespace": {"task_name": "db:deep:deep:wipe:drop", "project": "shop"},
    "the name outside the namespace": {"task_name": "migrate", "project": "shop"},
    "with arguments": {"task_name": "deploy", "args": ["prod"], "project": "shop"},
    "another alias of the project": {"task_name": "deploy", "project": "twin"},
    "another alias of both": {"task_name": "ship", "project": "twin"},
    "a path": {"task_name": "deploy", "project": "HOME/shop"},
    "a path inside": {"task_name": "deploy", "project": "HOME/shop/_qk"},
    "a path by a link": {"task_name": "deploy", "project": "HOME/link/../shop/_qk/__init__.py"},
    "a URL": {"task_name": "deploy", "project": "file://HOME/shop"},
    "a worktree": {"task_name": "deploy", "project": "shop@feat"},
    "a worktree of the other alias": {"task_name": "deploy", "project": "twin@feat"},
    "a path in a worktree": {"task_name": "ship", "project": "HOME/feat/_qk"},
}
"""Arguments of `run_task` that lead to a denied task; HOME is replaced."""

NO_WAY_IN = {
    "another case": {"task_name": "DEPLOY", "project": "shop"},
    "a blank before": {"task_name": " deploy", "project": "shop"},
    "a blank after": {"task_name": "deploy ", "project": "shop"},
    "an invisible character": {"task_name": "de\u200bploy", "project": "shop"},
    "a wide character": {"task_name": "\uff44eploy", "project": "shop"},
    "the words of a command line": {"task_name": "test deploy", "project": "shop"},
    "a glob": {"task_name": "deplo?", "project": "shop"},
    "an option": {"task_name": "--deploy", "project": "shop"},
    "a project in another case": {"task_name": "deploy", "project": "SHOP"},
    "another config": {"task_name": "deploy", "project": "shop", "config": "/dev/null"},
}
"""Arguments that name no task of the project, or nothing at all."""


@pytest.mark.parametrize("arguments", WAYS_IN.values(), ids=WAYS_IN)
@needs_git
def test_a_denied_task_does_not_run(standing: tuple[Path, Client], shop: Client, arguments: dict[str, Any]) -> None:
    home, _ = standing
    arguments = arguments | {"project": arguments["project"].replace("HOME", str(home))}
    refusal = shop.call("run_task", **arguments).refusal
    assert f"{arguments['task_name']!r} is not allowed for agents in " in refusal
    assert 'deny = "' in refusal
    assert "config.toml" in refusal
    words = ["qk", arguments["task_name"], *arguments.get("args", [])]
    assert f"Ask the user to run: {shlex.join(words)}\n" in refusal
    assert what_ran(home) == []


@pytest.mark.parametrize("arguments", NO_WAY_IN.values(), ids=NO_WAY_IN)
@needs_git
def test_no_other_spelling_finds_a_denied_task(
    standing: tuple[Path, Client], shop: Client, arguments: dict[str, Any]
) -> None:
    answer = shop.call("run_task", **arguments)
    assert answer.is_error
    assert "'deploy'" not in answer.text.partition("named")[2]  # nor is it suggested
    assert what_ran(standing[0]) == []


@needs_git
def test_other_tasks_and_projects_are_free(standing: tuple[Path, Client], shop: Client) -> None:
    assert shop.run("test", project="shop").data["exit_code"] == 0
    assert shop.run("test", project="shop@feat").data["exit_code"] == 0
    assert shop.run("deploy", project="web").data["stdout"] == "ran web\n"
    assert what_ran(standing[0]) == ["test", "test"]


@needs_git
def test_a_denied_task_is_not_listed(shop: Client) -> None:
    for arguments in ({}, {"detail": "short"}, {"filter": "d*"}, {"project": "shop"}, {"project": "shop@feat"}):
        for entry in shop.call("list_tasks", **arguments).data:
            if entry["project"] != "web":
                names = {name for task in entry["tasks"] for name in (task["name"], *task.get("aliases", ()))}
                assert names <= {"test", "release", "rel", "slow"}
    [entry] = shop.call("list_tasks", project="shop", filter="deploy").data
    assert entry["tasks"] == []
    assert "deploy" not in entry["note"].partition("nearest")[2]


@needs_git
def test_a_longer_timeout_is_shortened_with_a_note(shop: Client) -> None:
    assert "5 s, the longest that the user allows" in shop.run("test", project="shop", timeout=6).data["note"]
    assert "note" not in shop.run("test", project="shop", timeout=5).data


def test_an_answer_names_the_rule_that_is_missing(tmp_path: Path) -> None:
    shop = make_project(tmp_path / "shop", SHOP)
    config = f'[projects.shop]\npath = "{shop}"\nallow = ["test", "lint*", "rel"]'
    with rules_server(tmp_path / "home", config) as client:
        [entry] = client.call("list_tasks").data
        assert [task["name"] for task in entry["tasks"]] == ["release", "test"]
        assert client.run("test").data["exit_code"] == 0
        refusal = client.run("deploy", "it's").refusal
        assert '(allow = ["test", "lint*", "rel"] in ' in refusal
        assert "does not include it" in refusal
        assert """Ask the user to run: qk deploy 'it'"'"'s'\n""" in refusal


@pytest.mark.parametrize("options", [["--deny", "dep*"], ["--allow", "test"], ["--confirm", "d*"]])
def test_options_tighten_the_rules_of_every_project(tmp_path: Path, options: list[str]) -> None:
    shop = make_project(tmp_path / "shop", SHOP)
    with serving(tmp_path / "home", {"shop": shop, "twin": shop}, *options) as client:
        for project in ("shop", "twin"):
            assert client.run("test", project=project).data["exit_code"] == 0
            assert "the server's command line" in client.run("ship", project=project).refusal
        config = tmp_path / "home" / "team.toml"
    config.write_text(f'[projects.shop]\npath = "{shop}"\nallow = ["*"]\ndeny = ["test"]')
    with serving(tmp_path / "home", None, "--config", str(config), *options) as client:
        assert "the server's command line" in client.run("deploy").refusal
        assert "team.toml" in client.run("test").refusal


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_a_person_is_asked(tmp_path: Path, version: str) -> None:
    home = tmp_path / "home"
    shop = make_project(home / "shop", SHOP)
    config = f'[projects.shop]\npath = "{shop}"\nconfirm = ["release*"]'
    with rules_server(home, config, kind=Asking, version=version) as client:
        answer = client.ask_and_run([YES], "rel", "a b", "\u202e", "\n", stdin="in")
        assert answer.data["stdout"].startswith("ran release a b ")
        [question] = client.questions
        assert question["requestedSchema"]["properties"].keys() == {"run"}
        assert question["requestedSchema"]["properties"]["run"]["type"] == "boolean"
        assert question["requestedSchema"]["required"] == ["run"]
        text = question["message"]
        assert "\n    qk rel 'a b' $'\\u202e' $'\\n'\n" in text
        for part in ("shop", "task: release (aliases: rel)", f"in: {shop}", "_qk/__init__.py:", "standard input: in\n"):
            assert part in text
        assert 'confirm = "release*" in ' in text
        assert what_ran(home)

        refusals = {
            "was not yes": {"action": "accept", "content": {"run": False}},
            "not yes": {"action": "accept", "content": {}},
            "was not": {"action": "accept", "content": {"run": "true"}},
            "some clients do so without showing it to anybody": {"action": "decline"},
            "closed without an answer": {"action": "cancel"},
        }
        for why, reply in refusals.items():
            refusal = client.ask_and_run([reply], "release", "x").refusal
            assert why in refusal
            assert "Ask the user to run: qk release x\n" in refusal
        assert len(client.questions) == 1 + len(refusals)  # each run is asked about
        assert client.ask_and_run([], "test").data["exit_code"] == 0
        assert what_ran(home) == ["test"]

        long = client.ask_and_run([YES], "release", "x" * 5000).refusal
        assert "too long to show" in long


def test_an_answer_is_for_the_arguments_that_were_shown(tmp_path: Path) -> None:
    """In the newer protocol the client repeats the call with the answer; a different call is asked about again."""
    home = tmp_path / "home"
    shop = make_project(home / "shop", SHOP)
    config = f'[projects.shop]\npath = "{shop}"\nconfirm = ["release*"]'
    with rules_server(home, config, kind=Asking, version=MODERN) as client:
        shown = {"task_name": "release", "args": ["staging"]}
        for other in (
            shown | {"args": ["prod"]},
            shown | {"task_name": "rel"},
            shown | {"stdin": "yes"},
        ):
            asked = client.call("run_task", **shown)
            answer = client.answer_question(asked, other, YES).wait()
            assert "error" in answer.frame or answer.result["resultType"] == "input_required"
        asked = client.call("run_task", **shown)
        assert client.answer_question(asked, shown, YES).wait().data["exit_code"] == 0
        again = client.answer_question(asked, shown, YES).wait()  # a yes is good for one run
        assert again.result["resultType"] == "input_required"
        forged = {"name": "run_task", "arguments": shown, "inputResponses": {"consent": YES}}
        assert client.request("tools/call", forged).wait().result["resultType"] == "input_required"
        asked = client.call("run_task", **shown)
        assert "gave no answer" in client.answer_question(asked, shown, None).wait().refusal
        assert what_ran(home) == ["release staging "]


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_a_client_that_cannot_ask_gets_a_refusal(tmp_path: Path, version: str) -> None:
    home = tmp_path / "home"
    shop = make_project(home / "shop", SHOP)
    config = f'[projects.shop]\npath = "{shop}"\nconfirm = ["release*"]'
    with rules_server(home, config, version=version) as client:
        refusal = client.run("rel").refusal
        assert "the client cannot ask a person" in refusal
        assert "Ask the user to run: qk rel\n" in refusal
        assert what_ran(home) == []


def test_the_time_of_a_question_does_not_count_as_time_of_the_task(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shop = make_project(home / "shop", SHOP)
    config = f'[projects.shop]\npath = "{shop}"\nconfirm = ["release*"]'
    with rules_server(home, config, kind=Asking) as client:
        call = client.start("run_task", task_name="release", timeout=1.5)
        client.until(lambda: client.questions)
        client.run("test", timeout=30)
        client.until(lambda: client.messages[-1].at - client.messages[0].at > 0)
        assert not call.answered
        call.cancel()  # which also ends the question
        client.run("test")
        assert what_ran(home) == ["test", "test"]


def test_the_config_is_followed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shop = make_project(tmp_path / "shop", SHOP)
    entry = f'[projects.shop]\npath = "{shop}"\n'
    with rules_server(home, entry) as client:
        assert client.run("deploy").data["exit_code"] == 0
        write_config(home, entry + 'deny = ["deploy"]')
        assert "not allowed for agents" in client.run("ship").refusal
        assert client.run("test").data["exit_code"] == 0

        config = write_config(home, entry + 'denny = ["test"]')
        refusal = client.run("test").refusal
        assert "no task can run now" in refusal
        assert "did you mean 'deny'?" in refusal
        [listed] = client.call("list_tasks").data
        assert "deploy" not in [task["name"] for task in listed["tasks"]]
        assert "no task can run" in listed["note"]
        config.unlink()
        assert "no task can run now" in client.run("test").refusal

        make_project(tmp_path / "web", "from quickie import task\n@task\ndef hello(): print('hello')")
        write_config(home, entry + f'[projects.web]\npath = "{tmp_path}/web"')
        assert client.run("hello", project="web").data["stdout"] == "hello\n"
        assert client.run("deploy", project="shop").data["exit_code"] == 0
        write_config(home, f'[projects.web]\npath = "{tmp_path}/web"')
        assert "no project is named 'shop'" in client.run("deploy", project="shop").refusal


def test_a_tightened_rule_stops_a_run_that_waits_to_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    source = """
        import os, pathlib, sys, time
        from quickie import task

        home = pathlib.Path(os.environ["HOME"])
        if sys.argv[1:] == ["deploy"]:
            (home / "loading").touch()
            while not (home / "go").exists():
                time.sleep(0.01)

        @task
        def deploy(): print("ran")
    """
    entry = f'[projects.shop]\npath = "{make_project(tmp_path / "shop", source)}"\n'
    with rules_server(home, entry + 'deny = ["other"]') as client:
        call = client.start("run_task", task_name="deploy")
        until((home / "loading").exists, 60, "the project to be loaded")
        write_config(home, entry + 'deny = ["deploy"]')
        (home / "go").touch()
        assert "not allowed for agents" in call.wait().refusal


def test_a_warm_interpreter_obeys_the_rules(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shop = make_project(home / "shop", SHOP)
    with rules_server(home, f'[projects.shop]\npath = "{shop}"\ndeny = ["deploy"]') as client:
        for _ in range(3):
            assert client.run("test").data["exit_code"] == 0
            assert client.run("deploy").is_error
    assert what_ran(home) == ["test"] * 3


def test_a_module_that_closes_its_descriptors_cannot_escape(tmp_path: Path) -> None:
    source = "import os\nos.closerange(3, 200)\nfrom quickie import task\n@task\ndef deploy(): print('ran')"
    shop = make_project(tmp_path / "shop", source)
    with rules_server(tmp_path / "home", f'[projects.shop]\npath = "{shop}"\ndeny = ["other"]') as client:
        answer = client.run("deploy")
        assert answer.is_error
        assert "ran" not in answer.text.split()

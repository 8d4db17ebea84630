"""Ways around a rule, each tried with a real server: by another path, name, message, config or moment.

`test_rules.py` has those by another alias or spelling. A task that runs leaves a line in `ran`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_rules import SHOP, rules_server, what_ran, write_config
from tests.support.client import LEGACY, MODERN, Client
from tests.support.environment import QK_MCP, scrubbed
from tests.support.git import commit_all, git, needs_git
from tests.support.person import YES, Asking
from tests.support.processes import until
from tests.support.projects import make_project
from tests.support.serving import serving

DENY = 'deny = ["deploy*", "db:*"]'


def refused(client: Client, *, because: str = "is not allowed for agents in", **arguments: Any) -> None:
    """Call `run_task`, and check that a rule refuses it."""
    refusal = client.call("run_task", **{"task_name": "deploy"} | arguments).refusal
    assert because in refusal, refusal


# Another path to the same tree


@pytest.mark.parametrize("place", ["shop", "shop/_qk", "feat", "feat/_qk", "link", "link/deep"])
@pytest.mark.parametrize("variable", [None, "CLAUDE_PROJECT_DIR", "WORKSPACE_FOLDER_PATHS"])
@needs_git
def test_the_rules_hold_where_the_client_started_the_server(tmp_path: Path, place: str, variable: str | None) -> None:
    home = tmp_path / "home"
    shop = make_project(home / "shop", SHOP)
    (shop / "deep").mkdir()
    (shop / "deep" / "file").touch()
    commit_all(shop)
    git(shop, "worktree", "add", "-q", str(home / "feat"))
    (home / "link").symlink_to(home / "feat")
    write_config(home, f'[projects.shop]\npath = "{shop}"\n{DENY}')
    started = {"environ": {variable: str(home / place)}} if variable else {"cwd": home / place}
    with serving(home, None, **started) as client:
        assert client.run("test").data["exit_code"] == 0
        refused(client)
        refused(client, project=str(home / place))
        assert what_ran(home) == ["test"]


@needs_git
def test_the_rules_hold_for_every_way_to_write_a_path(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shop = make_project(home / "shop", SHOP)
    commit_all(shop)
    for number, options in enumerate(([], ["--detach"], ["-b", "deploy"])):
        git(shop, "worktree", "add", "-q", *options, str(home / f"feat{number}"))
    git(shop, "worktree", "add", "-q", str(shop / ".worktrees" / "inside"))
    (home / "again").symlink_to(shop / "_qk")
    (home / "hard").mkdir()
    (home / "hard" / "_qk").mkdir()
    os.link(shop / "_qk" / "__init__.py", home / "hard" / "_qk" / "__init__.py")
    config = f"""
        [projects]
        hard = "{home}/hard"
        module = "{home}/again"
        file = "{shop}/_qk/__init__.py"
        dots = "{home}/feat0/../shop/."
        home = "~/shop"
        variable = "$HOME/shop"
        [projects.shop]
        path = "{shop}"
        {DENY}
    """
    with rules_server(home, config) as client:
        for project in ("hard", "module", "file", "dots", "home", "variable"):
            refused(client, project=project)
        for path in (
            *(f"shop@feat{number}" for number in range(3)),
            "dots@feat1",
            "shop@inside",
            "~/shop",
            "~/shop/",
            f"{home}//shop/",
            f"{home}/feat0/../shop",
            f"{shop}/.worktrees/inside/_qk",
            f"file://localhost{shop}",
            f"file://{home}/sh%6Fp",
            f"{home}/feat2",
        ):
            refused(client, project=path)
        assert client.run("deploy", project="$HOME/shop").is_error  # an agent's path has no variables
        assert client.run("deploy", project=f"{home}/hard/..").is_error
        assert what_ran(home) == []


def test_the_project_of_the_directory_has_the_rules_of_the_name_it_takes(tmp_path: Path) -> None:
    """Another checkout, which takes the place of the one in the config because it has the same name."""
    home = tmp_path / "home"
    shop, clone = make_project(home / "shop", SHOP), make_project(home / "clones" / "shop", SHOP)
    with rules_server(home, f'[projects.shop]\npath = "{shop}"\n{DENY}', cwd=clone) as client:
        assert client.run("test").data["exit_code"] == 0
        refused(client)
        refused(client, project="shop")
        assert what_ran(home) == ["test"]


def test_a_name_for_both_a_project_and_a_task_of_another(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shop, web = make_project(home / "shop", SHOP), make_project(home / "web", SHOP)
    config = f'[projects]\nweb = "{web}"\n[projects.shop]\npath = "{shop}"\ndeny = ["deploy"]'
    with rules_server(home, config) as client:
        assert client.run("deploy", project="web").data["exit_code"] == 0
        for project in ("shop:web", "web:shop", "shop,web", "web shop", "shop@web", "shop@", "@web"):
            assert client.call("run_task", task_name="deploy", project=project).is_error
        for value in (["web"], {"alias": "web"}, 1, True):
            assert client.call("run_task", task_name="deploy", project=value).is_error
        assert what_ran(home) == ["deploy dev"]


# Another name of the task


@pytest.mark.parametrize(
    ("glob", "name"),
    [
        ("deploy", "Deploy"),
        ("DEPLOY", "deploy"),
        ("deploy", "de\u00adploy"),
        ("deploy", "deploy\u00a0"),
        ("deploy", "de\u200dploy"),
        ("deploy", "\u2067deploy"),
        ("deploy", "\uff24\uff25\uff30\uff2c\uff2f\uff39"),
        ("deploy", "de ploy"),
        ("deploy", "deploy\t"),
        ("deploy now", "deploy  now"),
        ("straße", "STRASSE"),
        ("file*", "\ufb01le-it"),
        ("caf\u00e9", "cafe\u0301"),
        ("db[1]", "db[1]"),
        ("[d]eploy", "deploy"),
        ("d?ploy", "deploy"),
        ("*", "*"),
        ("-rf", "-rf"),
        ("deploy", "deploy\n"),
    ],
)
def test_a_name_that_reads_like_the_denied_one_is_denied(tmp_path: Path, glob: str, name: str) -> None:
    home = tmp_path / "home"
    source = f"from quickie import task\n@task(name={name!r}, aliases=['other'])\ndef run(): print('ran')\n"
    shop = make_project(home / "shop", source)
    config = f'[projects.shop]\npath = "{shop}"\ndeny = [{json.dumps(glob)}]'
    with rules_server(home, config) as client:
        refused(client, task_name="other")
        answer = client.run(name)
        assert answer.is_error
        assert "ran" not in answer.text.split()
        assert client.call("list_tasks").data[0]["tasks"] == []


def test_a_task_that_changes_its_names_while_it_is_loaded(tmp_path: Path) -> None:
    """The listing shows one module, the run loads another; the run decides."""
    home = tmp_path / "home"
    source = """
        import os, pathlib, sys
        from quickie import task

        running = sys.argv[1:2] == ["test"]

        @task(name="test", aliases=["deploy"] if running else [])
        def work(): print("ran")
    """
    shop = make_project(home / "shop", source)
    with rules_server(home, f'[projects.shop]\npath = "{shop}"\n{DENY}') as client:
        [entry] = client.call("list_tasks").data
        assert [task["name"] for task in entry["tasks"]] == ["test"]
        refused(client, task_name="test")
        module = shop / "_qk" / "__init__.py"
        module.write_text(module.read_text().replace('["deploy"] if running else []', "[]"))
        assert client.run("test").data["stdout"] == "ran\n"
        module.write_text(module.read_text().replace('name="test", aliases=[]', 'name="deploy", aliases=["test"]'))
        refused(client, task_name="test")


# Another message


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_no_argument_or_parameter_leads_to_a_denied_task(tmp_path: Path, version: str) -> None:
    home = tmp_path / "home"
    shop = make_project(home / "shop", SHOP)
    with rules_server(home, f'[projects.shop]\npath = "{shop}"\n{DENY}', version=version) as client:
        refused(client, background=True)
        refused(client, background=True, timeout=90)
        refused(client, timeout=10_000_000)
        refused(client, stdin="yes\n")
        refused(client, because="", task="test")
        refused(client, because="", confirm=True)
        for arguments in (
            {"task_name": "test", "taskName": "deploy"},
            {"taskName": "deploy"},
            {"task_name": ["deploy"]},
            {"task_name": {"name": "deploy"}},
            {"task_name": "deploy\0"},
            {"task_name": "test\ndeploy"},
            {"task_name": "test;deploy"},
            {"task_name": "test && qk deploy"},
            {"task_name": "deploy" * 100},
            {"task_name": "-m _qk deploy"},
            {"task_name": "test", "args": ["deploy"]},
            {"task_name": "test", "args": ["--", "deploy"]},
            {"task_name": "test", "args": "deploy"},
            {"task_name": "test", "args": ["&&", "qk", "deploy"]},
            {"task_name": "--version", "args": ["deploy"]},
            {"task_name": "--", "args": ["deploy"]},
            {"task_name": "", "args": ["deploy"]},
            {"task_name": None, "args": ["deploy"]},
            {"task_name": "test", "project": "shop", "args": [["deploy"]]},
        ):
            answer = client.call("run_task", **arguments)
            assert answer.is_error or answer.data["exit_code"] == 2  # the task's parser refuses the words
        for tool in ("deploy", "shop-deploy", "run_task ", "Run_Task", "qk", "_deploy"):
            assert "error" in client.request("tools/call", {"name": tool, "arguments": {}}).wait().frame or (
                client.call(tool).is_error
            )
        assert not [line for line in what_ran(home) if "deploy" in line]


def test_a_tool_of_a_single_task_obeys_the_rules(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shop = make_project(home / "shop", SHOP)
    entry = f'[projects.shop]\npath = "{shop}"\ntools = ["*"]\n'
    with rules_server(home, entry) as client:
        names = {tool["name"] for tool in client.request("tools/list").wait().result["tools"]}
        assert {"shop-deploy", "shop-test"} <= names
        assert client.call("shop-deploy").data["exit_code"] == 0
        assert what_ran(home) == ["deploy dev"]
        write_config(home, entry + DENY)
        assert client.call("shop-deploy").is_error
        assert "shop-deploy" not in str(client.request("tools/list").wait().result["tools"])
        assert client.call("shop-deploy").is_error
        assert client.call("shop-test").data["exit_code"] == 0
        write_config(home, entry + 'confirm = ["test"]')
        assert "the client cannot ask a person" in client.call("shop-test").refusal
        assert client.call("shop-test", background=True).is_error
        assert what_ran(home) == ["test"]


def test_options_for_tools_do_not_allow_a_task(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shop = make_project(home / "shop", SHOP)
    with serving(home, {"shop": shop}, "--tool", "*", "--deny", "ship", "--allow", "test", "--allow", "d*") as client:
        tools = [tool["name"] for tool in client.request("tools/list").wait().result["tools"]]
        assert "test" in tools
        assert "deploy" not in tools
        refused(client)
        refused(client, task_name="release")
        assert client.call("test").data["exit_code"] == 0
        assert what_ran(home) == ["test"]


# Another machine


def test_the_rules_hold_for_a_project_elsewhere(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shop = make_project(home / "shop", SHOP)
    config = f"""
        [projects.shop]
        path = "{shop}"
        via = ["env", "ELSEWHERE=1"]
        command = [{json.dumps(sys.executable)}, "-E", "-P", "-m", "qk_mcp"]
        deny = ["deploy*", "db:*"]
        confirm = ["rel"]
    """
    with rules_server(home, config) as client:
        assert client.run("test").data["exit_code"] == 0
        for name in ("deploy", "ship", "d2", "cafe\u0301", "db:drop:drop", "migrate"):
            refused(client, task_name=name)
            refused(client, task_name=name, background=True)
        for name in ("Deploy", " deploy", "deploy ", "de\u200bploy"):
            assert client.run(name).is_error
        assert "the client cannot ask a person" in client.run("release").refusal
        [entry] = client.call("list_tasks").data
        assert {task["name"] for task in entry["tasks"]} == {"release", "slow", "test"}
        assert what_ran(home) == ["test"]


# Another config


def test_a_config_whose_rules_are_in_doubt_runs_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shop = make_project(home / "shop", SHOP)
    entry = f'[projects.shop]\npath = "{shop}"\n'
    with rules_server(home, entry + DENY) as client:
        assert client.run("test").data["exit_code"] == 0
        config = home / ".config" / "qk-mcp" / "config.toml"
        texts = {
            "a key twice": f"{entry}{DENY}\ndeny = []\n",
            "a text": f'{entry}deny = "deploy*"\n',
            "a number": f"{entry}deny = 1\n",
            "false": f"{entry}deny = false\n",
            "a list of lists": f'{entry}deny = [["deploy"]]\n',
            "an empty glob": f'{entry}deny = [""]\n',
            "another case": f'{entry}Deny = ["deploy"]\n',
            "a misspelt key": f'{entry}dney = ["deploy"]\n',
            "a table": f'{entry}[projects.shop.deny]\nglobs = ["deploy"]\n',
            "a project twice": f"{entry}{DENY}\n{entry}",
            "not UTF-8": "# \udce9\n" + entry + DENY,
            "half a file": f'{entry}deny = ["dep',
            "a zero byte": f"{entry}{DENY}\0",
            "a long glob": f'{entry}deny = ["{"[a" * 1000}"]\n',
        }
        for what, text in texts.items():
            config.write_bytes(text.encode("utf-8", "surrogateescape"))
            assert "no task can run now" in client.run("test").refusal, what
            assert client.run("deploy").is_error, what
        config.unlink()
        config.mkdir()
        assert "no task can run now" in client.run("test").refusal
        config.rmdir()
        for target in (Path("/dev/null"), config, home / "nothing"):
            config.symlink_to(target)
            assert "no task can run now" in client.run("test").refusal
            assert client.run("deploy").is_error
            config.unlink()
        os.mkfifo(config)
        assert "no task can run now" in client.run("test").refusal
        config.unlink()
        config.parent.rename(config.parent.with_name("away"))
        assert "no task can run now" in client.run("test").refusal
        config.parent.with_name("away").rename(config.parent)
        elsewhere = home / "elsewhere.toml"
        elsewhere.write_text(entry + DENY)
        config.symlink_to(elsewhere)
        refused(client)
        elsewhere.write_text(entry + 'deny = ["test"]')
        refused(client, task_name="test")
        assert what_ran(home) == ["test"]


@pytest.mark.parametrize("variable", [False, True], ids=["--config", "QK_MCP_CONFIG"])
def test_a_named_config_and_its_forms(tmp_path: Path, variable: bool) -> None:
    home = tmp_path / "home"
    shop = make_project(home / "shop", SHOP)
    file = home / "team.json"

    def serve(text: str) -> Any:
        file.write_text(text)
        return serving(
            home,
            None,
            *([] if variable else ["--config", str(file)]),
            environ={"QK_MCP_CONFIG": str(file)} if variable else {},
        )

    write_config(home, f'[projects.shop]\npath = "{shop}"')
    data = {"projects": {"shop": {"path": str(shop), "deny": ["deploy"]}, "twin": str(shop)}}
    with serve(json.dumps(data)) as client:
        refused(client, project="shop")
        refused(client, project="twin", task_name="ship")
        assert client.run("test", project="twin").data["exit_code"] == 0
    assert what_ran(home) == ["test"]
    file.write_text(json.dumps(data).replace('"deny": ["deploy"]', '"deny": ["deploy"], "deny": []'))
    environ = scrubbed(home, **({"QK_MCP_CONFIG": str(file)} if variable else {}))
    command = [*QK_MCP, "serve", *([] if variable else ["--config", str(file)])]
    outcome = subprocess.run(command, cwd=home, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert outcome.returncode == 1
    assert "the key 'deny' is there twice" in outcome.stderr


def test_many_and_slow_globs_are_decided_at_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shop = make_project(home / "shop", SHOP)
    globs = [f"{'*a' * 140}{number}" for number in range(200)] + ["dep*"]
    with rules_server(home, f'[projects.shop]\npath = "{shop}"\ndeny = {json.dumps(globs)}') as client:
        refused(client)
        assert client.run("test").data["exit_code"] == 0


# Another moment


def test_a_rule_stops_a_run_that_waits_for_another(tmp_path: Path) -> None:
    home = tmp_path / "home"
    source = """
        import os, pathlib, time
        from quickie import task

        @task
        def deploy():
            print("ran")
            while not pathlib.Path(os.environ["HOME"], "go").exists():
                time.sleep(0.01)
    """
    shop = make_project(home / "shop", source)
    entry = f'[projects.shop]\npath = "{shop}"\nexclusive = ["deploy"]\ndeny = ["other"]\n'
    with rules_server(home, entry, "-v") as client:
        first = client.call("run_task", task_name="deploy", background=True, timeout=60).data["run_id"]
        client.call("get_run", run_id=first, until="ran", wait=30)
        second = client.start("run_task", task_name="deploy", timeout=60)
        until(lambda: "wait project=shop" in client.stderr(), 60, "the second run to wait")
        write_config(home, entry.replace('"other"', '"deploy"'))
        (home / "go").touch()
        assert "is not allowed for agents in" in second.wait().refusal
        assert client.call("get_run", run_id=first, wait=30).data["state"] == "ended"


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_a_yes_is_for_one_run_and_for_the_rules_of_its_time(tmp_path: Path, version: str) -> None:
    home = tmp_path / "home"
    shop = make_project(home / "shop", SHOP)
    entry = f'[projects.shop]\npath = "{shop}"\n'
    with rules_server(home, entry + 'confirm = ["rel*"]', kind=Asking, version=version) as client:
        for reply in (
            {"action": "accept", "content": {"run": 1}},
            {"action": "accept", "content": {"run": [True]}},
            {"action": "accept", "content": {"run": "yes"}},
            {"action": "accept", "content": {"Run": True}},
            {"action": "accept", "content": None},
            {"action": "accept"},
            {"action": "Accept", "content": {"run": True}},
            {"action": "yes", "content": {"run": True}},
            {"content": {"run": True}},
        ):
            if version == LEGACY:
                assert "needs a person's consent" in client.ask_and_run([reply], "release").refusal, reply
            else:
                asked = client.call("run_task", task_name="release")
                answer = client.answer_question(asked, {"task_name": "release"}, reply).wait()
                assert "error" in answer.frame or answer.is_error, reply
        assert client.ask_and_run([YES], "release", background=True).data["run_id"]
        until(lambda: (home / "ran").exists(), 30, "the confirmed run to write")
        assert len(what_ran(home)) == 1
        if version == LEGACY:
            before = len(client.questions)
            first, second = (client.start("run_task", task_name="release", args=[name]) for name in ("a", "b"))
            client.until(lambda: len(client.questions) == before + 2)
            client.replies = [YES]  # nobody has been asked about this one yet
            third = client.start("run_task", task_name="release", args=["c"])
            assert third.wait().data["stdout"] == "ran release c \n"
            assert not first.answered
            assert not second.answered
            assert what_ran(home) == ["release c "]
            first.cancel()
            second.cancel()
        else:
            arguments = {"task_name": "release", "args": []}
            asked = client.call("run_task", **arguments)
            write_config(home, entry + 'deny = ["rel*"]')
            assert "is not allowed for agents in" in client.answer_question(asked, arguments, YES).wait().refusal
        assert what_ran(home) == []

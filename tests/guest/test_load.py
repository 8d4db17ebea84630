"""A task sees the environment that `qk` gives it, and only what it needs of the project is imported."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.guests import describe, run

type Make = Callable[..., Path]

_SURROUNDINGS = """
    import json, os, sys
    from quickie import task
    from quickie.config import app
    at_import = {"argv": sys.argv[:], "writes": sys.dont_write_bytecode}

    @task(args=["word"])
    def tell(word):
        print(json.dumps({
            **at_import,
            "program": app.program_name,
            "launcher": os.environ.get("QK_LAUNCHER_RUNNING"),
            "writes later": sys.dont_write_bytecode,
            "wd": str(app.context.wd),
            "tasks": str(app.tasks_path),
            "loaded": sorted(app.tasks),
            "name": __name__,
            "file": __file__,
            "path": os.path.dirname(__file__) in sys.path,
        }))
"""


def test_the_environment_of_a_task(make: Make, python: Path) -> None:
    root = make(_SURROUNDINGS)
    ran = run(root, "tell", "me", python=python, QK_LAUNCHER_RUNNING="true")
    assert json.loads(ran.stdout) == {
        "argv": [str(python.parent / "qk"), "tell", "me"],
        "writes": True,
        "program": "qk",
        "launcher": None,
        "writes later": False,
        "wd": str(root),
        "tasks": str(root / "_qk"),
        "loaded": ["tell"],
        "name": "_qk",
        "file": str(root / "_qk" / "__init__.py"),
        "path": False,
    }


def test_other_namespaces_stay_unloaded(make: Make, newest: Path) -> None:
    root = make("""
        from quickie import namespace, task

        @task
        def own(): print("own")

        @namespace
        def ci():
            print("ci is loaded")
            return [own]

        @namespace
        def other():
            print("other is loaded")
            return [own]
    """)
    assert run(root, "own", python=newest).stdout == "own\n"
    assert run(root, "ci:own", python=newest).stdout == "ci is loaded\nown\n"
    assert len(describe(root, newest)["tasks"]) == 1


def test_a_namespace_overrides_the_modules_own_task(make: Make, python: Path) -> None:
    if "quickie-0.6" in str(python):
        pytest.skip("quickie 0.6 has no lazy namespaces")
    root = make("""
        from quickie import namespace, task

        @task(name="same")
        def own(): print("own")

        @task(name="same")
        def other(): print("other")

        kept = [other]
        del other

        @namespace
        def _(): return kept
    """)
    assert run(root, "same", python=python).stdout == "other\n"


@pytest.mark.parametrize("name", ["secret", "_secret", "", ":list", "--version", "-m", "own ", "OWN", "ns", "ns:"])
def test_only_listed_names_are_found(name: str, make: Make) -> None:
    root = make("""
        from quickie import Namespace, task

        @task(private=True)
        def secret(): print("secret")

        @task
        def own(): print("own")

        space = Namespace({"ns": own})
    """)
    ran = run(root, name)
    assert (ran.event["event"], ran.stdout) == ("unknown", "")


def test_only_runs_write_quickies_log_file(make: Make, newest: Path) -> None:
    root = make("from quickie import task, logger\nlogger.error('loaded')\n@task\ndef own(): print()\n")
    log = root / "qk.log"
    describe(root, newest, QK_LOG_FILE=str(log))
    assert not log.exists()
    run(root, "own", python=newest, QK_LOG_FILE=str(log))
    assert "loaded" in log.read_text()

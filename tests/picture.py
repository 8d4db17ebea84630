"""Draws the README's picture: real commands on a real project, as a terminal shows them.

`python -m tests.picture` updates it; a test fails when it is outdated.
"""

import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from tests.support.environment import QK_MCP, scrubbed
from tests.support.projects import make_project
from tests.support.serving import serving

__all__ = ["PICTURE", "main", "screen", "take"]

PICTURE = Path(__file__).parents[1] / "docs" / "terminal.svg"
WIDTH = 92

SHOP = '''
    """The tasks of a small web shop."""

    from quickie import Arg, Namespace, task

    @task(args=[Arg("--port", type=int, default=8000, help="port to listen on (%(default)s)")])
    def serve(port):
        """Serve the shop on this machine."""

    @task(args=[Arg("stage", choices=["dev", "live"]), Arg("--dry-run", action="store_true")], aliases=["ship"])
    def deploy(stage, dry_run):
        """Bring the current commit to a stage."""
        for step in ("build", "upload", "switch"):
            print(f"{step} for {stage}{' (dry run)' if dry_run else ''}")

    @task
    def migrate():
        """Bring the database to the newest schema."""

    @task(args=[Arg("table", nargs="?")])
    def dump(table=None):
        """Print a table, or all of them."""

    db = Namespace({"": [migrate, dump]}, path="db")
    del migrate, dump
'''

COMMANDS = (["inspect"], ["run", "deploy", "dev", "--dry-run"])
CALLS = ({"task_name": "deploy", "args": ["dev", "--dry-run"]}, {"task_name": "delpoy"})


def screen() -> str:
    """Return what the commands write to a terminal, with colours and with neutral paths and versions."""
    with tempfile.TemporaryDirectory() as directory:
        root = make_project(Path(directory).resolve() / "shop", SHOP)
        environ = scrubbed(Path(directory) / "home", COLUMNS=str(WIDTH), TERM="xterm-256color")
        shown = []
        for command in COMMANDS:
            shown.append(f"\x1b[32m$\x1b[0m \x1b[1mqk-mcp {' '.join(command)}\x1b[0m\n")
            shown.append(_on_terminal([*QK_MCP, *command], root, environ).replace("\r\n", "\n"))
        shown.append("\n".join(_calls(root, Path(directory) / "agent")))
        text = "\n".join(shown)
    # The spinner of a slow machine: from hiding the cursor to erasing the last frame.
    text = re.sub(r"\x1b\[\?25l.*?\x1b\[\?25h(\r|\x1b\[1A|\x1b\[2K)*", "", text, flags=re.DOTALL)
    text = re.sub(r"\x1b\]8;[^\x1b\x07]*(\x1b\\|\x07)", "", text)  # links contain this machine's paths
    text = text.replace(str(root), "~/code/shop").replace(sys.executable, "~/code/shop/.venv/bin/python")
    text = text.replace("the Python that runs qk-mcp", "the .venv in the project's root")
    text = text.replace(version("quickie-runner"), "1.0.0")
    return re.sub(r"\(3\.\d+\.\d+,", "(3.13.0,", text)


def _calls(root: Path, home: Path) -> Iterator[str]:
    """Yield what an agent sends, and what it reads."""
    home.mkdir()
    with serving(home, {"shop": root}) as client:
        for arguments in CALLS:
            answer = client.call("run_task", **arguments).frame["result"]
            yield f"\x1b[35magent:\x1b[0m \x1b[1mrun_task\x1b[0m {json.dumps(arguments)}"
            yield from (
                line for text in answer["content"][0]["text"].splitlines() for line in textwrap.wrap(text, WIDTH)
            )
            yield ""


def _on_terminal(command: list[str], directory: Path, environ: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command, cwd=directory, env=environ, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        data = b""
        try:
            while part := os.read(ours, 4096):
                data += part
        except OSError:  # how Linux reports the end of a terminal
            pass
        finally:
            os.close(ours)
        process.wait(60)
    return data.decode()


def take() -> str:
    """Return the picture as SVG."""
    from rich.console import Console
    from rich.text import Text

    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text.from_ansi(screen()), soft_wrap=True)
        picture = console.export_svg(title="qk-mcp", unique_id="qk-mcp")
    return re.sub(r"\s*@font-face \{.*?\}", "", picture, flags=re.DOTALL)  # viewing it must not fetch fonts


def main() -> None:
    """Write the picture."""
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(take(), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Writes what can be generated of the documents: commands and options, the tools' schemas, the table of clients.

A document has `<!-- generated: NAME -->` and `<!-- end -->` around it. `python -m tests.reference` updates all; a test
fails when one is outdated.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cyclopts import App

from qk_mcp.cli.app import app
from qk_mcp.cli.completion.table import choices_of
from qk_mcp.clients.known import CLIENTS, Client
from tests.support.projects import make_project
from tests.support.serving import serving

__all__ = ["DOCUMENTS", "main", "updated"]

DOCUMENTS = [Path(__file__).parents[1] / "docs" / name for name in ("reference.md", "clients.md")]

_BLOCK = re.compile(r"(?<=<!-- generated: )(\w+) -->\n.*?(?=<!-- end -->)", re.DOTALL)


def updated(text: str) -> str:
    """Return a document with its generated blocks as they are now."""
    return _BLOCK.sub(lambda match: f"{match[1]} -->\n\n{_GENERATORS[match[1]]()}\n\n", text)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


# Commands


def _commands() -> str:
    return "\n\n".join(_command(app, ()))


def _command(group: App, path: tuple[str, ...]) -> Iterator[str]:
    for name, command in group.resolved_commands().items():
        if name in (*group.help_flags, *group.version_flags):
            continue
        words = (*path, name)
        usage = str(command.usage or "").removeprefix("Usage: ")
        yield f"### `qk-mcp {' '.join(words)}`"
        if usage:
            yield f"`{usage}`"
        yield from (" ".join(part.split()) for part in (command.help or "").split("\n\n") if _is_prose(part))
        if rows := [_option(argument) for argument in _shown(command)]:
            yield _table(("argument or option", "meaning", "default"), rows)
        yield from _command(command, words)


def _is_prose(paragraph: str) -> bool:
    return not paragraph.lstrip().startswith("Parameters\n")


def _shown(command: App) -> Iterator[Any]:
    if command.default_command:
        yield from (each for each in command.assemble_argument_collection(parse_docstring=True) if each.show)


def _option(argument: Any) -> tuple[str, str, str]:
    value = "" if argument.is_flag() else argument.parameter.metavar or "|".join(choices_of(argument.hint))
    names = (f"`{name} {value}`" if name[0] == "-" and value else f"`{name}`" for name in argument.names)
    default = argument.field_info.default
    shown = f"`{default}`" if isinstance(default, str | int | float) and default else ""
    return ", ".join(names), " ".join((argument.parameter.help or "").split()), shown


# Tools


def _tools() -> str:
    with tempfile.TemporaryDirectory() as directory:
        root = make_project(Path(directory) / "project", "")
        home = Path(directory) / "home"
        home.mkdir()
        with serving(home, root) as client:
            tools = client.request("tools/list").wait().frame["result"]["tools"]
    return "\n\n".join(text for tool in tools for text in _tool(tool))


def _tool(tool: Mapping[str, Any]) -> Iterator[str]:
    yield f"### `{tool['name']}`"
    yield tool["description"]
    yield _table(("parameter", "type", "meaning"), list(_properties(tool["inputSchema"], {})))
    output = tool["outputSchema"]
    yield "The answer:"
    yield _table(("key", "type", "meaning"), list(_properties(output, output.get("$defs", {}))))


def _properties(schema: Mapping[str, Any], shared: Mapping[str, Any], above: str = "") -> Iterator[Sequence[str]]:
    """Yield the name, type and description of each property, those of nested objects included."""
    for name, each in schema.get("properties", {}).items():
        each = shared.get(str(each.get("$ref", "")).rpartition("/")[2], each)
        inner = each.get("items", each)
        inner = shared.get(str(inner.get("$ref", "")).rpartition("/")[2], inner)
        path = f"{above}{name}"
        needed = " (required)" if name in schema.get("required", ()) and not above and "default" not in each else ""
        default = f" Default: `{each['default']}`." if each.get("default") not in (None, "", [], False) else ""
        yield f"`{path}`", _type(each) + needed, " ".join(each.get("description", "").split()) + default
        yield from _properties(inner, shared, f"{path}[]." if "items" in each else f"{path}.")


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"] if value != "")
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if schema.get("type") == "array" and "type" in schema.get("items", {}):
        return f"array of {schema['items']['type']}s"
    return str(schema.get("type", "any"))


# Clients


def _clients() -> str:
    head = ("client", "`qk-mcp install …`", "your file", "file of a project")
    return _table(head, [_row(each) for each in CLIENTS])


def _row(client: Client) -> tuple[str, str, str, str]:
    files = [re.sub(r"{\w+:([^}]*)}", r"\1", file) for file in (*client.files[""], *client.files.get("darwin", ()))]
    places = " or ".join(f"`{file}`" for file in dict.fromkeys(files))
    own = f"`{' '.join((client.own.program, *client.own.add[:2])).removesuffix(' {json}')}`, or " if client.own else ""
    paste = "; paste it" if client.format == "yaml" else ""
    shared = f"`{client.project_file}`" if client.project_file else ""
    return client.title, f"`{client.name}`", f"{own}{places}{paste}", shared


_GENERATORS = {"commands": _commands, "tools": _tools, "clients": _clients}


def main() -> None:
    """Write the documents."""
    for document in DOCUMENTS:
        document.write_text(updated(document.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

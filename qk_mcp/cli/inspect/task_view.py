"""Shows one task: its arguments, what an agent gets, and calls to copy."""

import json
from collections.abc import Iterator, Mapping, Sequence
from inspect import cleandoc
from typing import Any

from rich.highlighter import JSONHighlighter
from rich.text import Text

from qk_mcp.cli.inspect.gather import Inspected
from qk_mcp.cli.inspect.notation import choices_in_name, command_line, tool_call, with_flags
from qk_mcp.cli.inspect.project_view import linked
from qk_mcp.cli.ui.tables import Sheet
from qk_mcp.projects.rules import decide
from qk_mcp.tasks import listing
from qk_mcp.tasks.catalog import Argument
from qk_mcp.tasks.rule_effects import rule_effects
from qk_mcp.text import shorten

__all__ = ["show_task"]

_USAGE = "usage: "
_LABEL = 7
_FLAGS = 30
_VALUE = 26
"""Greatest widths of the columns; longer texts are wrapped."""
_DEFAULT = 60
"""Characters of a default value."""


def show_task(sheet: Sheet, inspected: Inspected, options: Sequence[str]) -> None:
    """Show the only task of the catalogue; `options` declare the project in a command line."""
    assert inspected.catalog is not None
    catalog, alias = inspected.catalog, inspected.project.alias
    (task,) = catalog.tasks
    effects = rule_effects(inspected.project.rules, task)
    verdict = decide(inspected.project.rules, (task.name, *task.aliases))
    sheet.line((task.name, "bold"), (f"  {alias}", "dim"))
    if task.help:
        sheet.line()
        sheet.paragraph(Text(cleandoc(task.help).strip()), 2)  # Python 3.12 leaves docstrings indented
    sheet.line()
    facts = [
        ("usage", Text(task.usage.removeprefix(_USAGE).replace("\n" + " " * len(_USAGE), "\n"))),
        ("aliases", Text(", ".join(filter(None, task.aliases)))),
        ("source", linked(task.location or "not known", task.location, catalog.root)),
        ("rules", Text("; ".join(filter(None, (", ".join(effects), verdict.rule))), "yellow")),
        ("error", Text(task.error, "red")),
    ]
    sheet.table([[Text(f"{label:<{_LABEL}}", "dim"), text] for label, text in facts if text], 2, [_LABEL])
    if task.args:
        _section(sheet, "arguments")
        sheet.table([_row(argument) for argument in task.args], 2, [_FLAGS, _VALUE])
    visible = verdict.decision != "refuse"
    if visible:
        _section(sheet, "what an agent gets")
        for line in _json_lines(listing.task_entry(catalog.tasks[0])):
            sheet.line(JSONHighlighter()(Text(line)), indent=2)
    _section(sheet, "to run it")
    if visible:
        sheet.line(("run_task", "dim"), "  ", tool_call(alias, task), indent=2)
    sheet.line(("shell", "dim"), "     ", command_line(alias, task, options), indent=2)


def _section(sheet: Sheet, title: str) -> None:
    sheet.line()
    sheet.line((title, "bold"))


def _json_lines(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the JSON of a task with one line per key and per argument."""
    yield "{"
    for key, value in entry.items():
        end = "" if key == [*entry][-1] else ","
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield f'  "{key}": ['
            for position, each in enumerate(value, 1):
                yield f"    {json.dumps(each, ensure_ascii=False)}{',' if position < len(value) else ''}"
            yield f"  ]{end}"
        else:
            yield f'  "{key}": {json.dumps(value, ensure_ascii=False)}{end}'
    yield "}"


def _row(argument: Argument) -> list[Text]:
    return [Text(with_flags(argument), "cyan"), Text(", ".join(_terms(argument)), "dim"), Text(argument.help or "")]


def _terms(argument: Argument) -> Iterator[str]:
    """Yield what a value must be, and its default."""
    if argument.required:
        yield "required"
    if argument.type not in (None, "str"):
        yield str(argument.type)
    if argument.choices and not choices_in_name(argument):
        yield "one of " + " ".join(map(str, argument.choices))
    if argument.default not in (None, False, [], ""):
        yield f"default {shorten(str(argument.default), _DEFAULT)}"

"""Parsers, and the tasks that a guest and the catalogue make of them."""

import argparse
import json
from pathlib import Path
from typing import Any

from qk_mcp.guest.argparse_schema import describe_arguments, describe_syntax
from qk_mcp.tasks.catalog import Task, parse_report

__all__ = ["RESERVED", "Parser", "make", "task_of"]

RESERVED = ("stdin", "timeout", "background")
"""The parameters that each tool has."""


class Parser(argparse.ArgumentParser):
    """Raises what it would print."""

    def error(self, message: str) -> Any:
        raise ValueError(message)


def task_of(parser: argparse.ArgumentParser, *, extra: bool = False) -> Task:
    """Return the task that a guest and the catalogue make of a parser."""
    syntax = describe_syntax(parser) | {"extra": extra}
    report = {"tasks": [{"name": "task", "args": describe_arguments(parser), "syntax": syntax}]}
    (task,) = parse_report(json.loads(json.dumps(report)), Path("/")).tasks
    return task


def make(*arguments: Any, **options: Any) -> Parser:
    """Return a parser with one argument for each tuple of flags and options."""
    parser = Parser(prog="task", **options)
    for *flags, more in arguments:
        parser.add_argument(*flags, **more)
    return parser

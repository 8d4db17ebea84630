"""Checks a server's messages against the MCP schema of the negotiated revision.

The schemas are those of the `mcp_types` package. They are applied strictly: a string is no number, and unknown keys
are faults.
"""

import functools
import json
from typing import Any

from jsonschema import Draft202012Validator
from mcp_types import methods
from pydantic import TypeAdapter

__all__ = ["Frame", "SchemaFault", "check_notification", "check_result", "check_structured", "parse_frame"]

type Frame = dict[str, Any]


class SchemaFault(AssertionError):
    """A message that the protocol does not allow."""


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def parse_frame(line: bytes) -> Frame:
    """Return the JSON-RPC 2.0 object in a line, or raise SchemaFault."""
    try:
        frame = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
    except ValueError as error:
        raise SchemaFault(f"not a JSON line: {line[:300]!r}") from error
    if not isinstance(frame, dict) or frame.get("jsonrpc") != "2.0":
        raise SchemaFault(f"not a JSON-RPC 2.0 object: {line[:300]!r}")
    keys = set(frame) - {"jsonrpc"}
    answer = keys in ({"id", "result"}, {"id", "error"})
    call = "method" in keys and keys <= {"id", "method", "params"} and isinstance(frame["method"], str)
    if not answer and not call:
        raise SchemaFault(f"neither a request, a notification nor an answer: {line[:300]!r}")
    return frame


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _check(kind: Any, data: Frame, what: str) -> None:
    adapter = _adapter(kind)
    try:
        value = adapter.validate_python(data, strict=True, by_alias=True, by_name=False)
    except ValueError as error:
        raise SchemaFault(f"{what} does not fit the schema: {error}\n{json.dumps(data)[:2000]}") from error
    known = adapter.dump_python(value, by_alias=True, exclude_unset=True, mode="json")
    if known != data:
        raise SchemaFault(f"{what} has keys that are not in the schema: {json.dumps(data)[:2000]}")


def check_result(method: str, version: str, result: Frame) -> None:
    """Check the result of a request of `method`."""
    kind = methods.SERVER_RESULTS.get((method, version))
    if kind is None:
        raise SchemaFault(f"{method} is not a request of {version}, but it was answered: {result}")
    _check(kind, result, f"the result of {method}")


def check_notification(version: str, frame: Frame) -> None:
    """Check a notification of the server."""
    kind = methods.SERVER_NOTIFICATIONS.get((frame["method"], version))
    if kind is None:
        raise SchemaFault(f"{frame['method']} is not a notification of {version}: {frame}")
    _check(kind, frame, frame["method"])


def check_structured(schema: Frame, structured: Any) -> None:
    """Check structured content against the output schema that its tool declares."""
    errors = [error.message for error in Draft202012Validator(schema).iter_errors(structured)]
    if errors:
        raise SchemaFault(f"structured content does not fit the tool's output schema: {errors[:5]}")

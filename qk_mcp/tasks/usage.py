"""The arguments of a task in one line, as a usage message writes them."""

from qk_mcp.tasks.catalog import Argument, Task

__all__ = ["argument_values", "is_positional", "usage_line", "value_name"]

_CHOICES_LENGTH = 30
"""Characters up to which choices replace the name of a value."""
_EXTRA = "[EXTRA ...]"
"""The end of the usage of a task that takes further arguments (`qk_mcp.guest.argparse_schema`)."""


def usage_line(task: Task) -> str:
    """Return the arguments of a task, options first, optional ones in brackets: `[--env dev|staging] PATH...`."""
    words = [_word(argument) for argument in sorted(task.args, key=is_positional)]
    return " ".join([*words, "[EXTRA...]"] if task.usage.endswith(_EXTRA) else words)


def is_positional(argument: Argument) -> bool:
    """Return whether an argument has no flag."""
    return argument.flags == (argument.dest,)  # a guest reports the name as the flag


def argument_values(argument: Argument) -> str:
    """Return the values of an argument: `A|B`, `NUMBER`, `[PATH...]`; empty for a switch."""
    name = value_name(argument)
    match argument.nargs:
        case int(count):
            return " ".join([name] * count)
        case "?":
            return f"[{name}]"
        case "*" | "...":
            return f"[{name}...]"
        case "+" | "A...":
            return f"{name}..."
    return name


def value_name(argument: Argument) -> str:
    """Return the choices of a value if they are short, otherwise its name in capitals."""
    choices = "|".join(str(choice) for choice in argument.choices or ())
    return choices if choices and len(choices) <= _CHOICES_LENGTH else argument.dest.upper()


def _word(argument: Argument) -> str:
    if is_positional(argument):
        text = argument_values(argument)
    else:
        flag = next((flag for flag in argument.flags if flag.startswith("--")), argument.flags[0])
        text = " ".join(filter(None, (flag, argument_values(argument))))
    return text if argument.required or text.startswith("[") else f"[{text}]"

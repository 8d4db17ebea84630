"""One entry changes, and not one byte more: in the forms that people write, and in generated documents."""

import tomllib
from typing import Any

import pytest
import tomli_w
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qk_mcp.editing.files import CannotEdit
from qk_mcp.editing.toml import (
    drop_entry,
    drop_setting,
    render_entry,
    render_value,
    set_path,
    set_setting,
)

FORMS = {
    "table": ('# mine\n[projects]\na = "/a" # first\n', 'b = "/b"\n', "\n[other] # x\ny = nan\n"),
    "end of file": ('x = 1\n\n[projects]\na = "/a"\n', 'b = "/b"\n', ""),
    "indented": ('[projects]\n\ta = "/a"\n', '\tb = "/b"\n', "  # c\n"),
    "empty table": ("[projects] # none yet\n", 'b = "/b"\n', '\n[other]\nprojects = { b = "no" }\n'),
    "table before sub-tables": ('[projects]\na = "/a"\n', 'b = "/b"\n', '[projects.c]\npath = "/c"\n'),
    "sub-tables": ('[projects.a]\npath = "/a"\nenv.X = "1"\n', '\n[projects.b]\npath = "/b"\n', "\n# z\n[z]\n"),
    "quoted sub-tables": ('["projects" . \'a\']\npath = "/a"\n', '\n[projects.b]\npath = "/b"\n', ""),
    "dotted": ('projects.a = "/a"\n', 'projects.b = "/b"\n', "z = 1\n[other]\n"),
    "inline": ('projects = { a = "/a"', ', b = "/b"', " } # all\n[other]\n"),
    "empty inline": ("projects = {", ' b = "/b" ', "}\n"),
    "no table": ("x = 1\n", '\n[projects]\nb = "/b"\n', ""),
    "no table, a blank line": ("x = 1\n\n", '[projects]\nb = "/b"\n', ""),
    "empty": ("", '[projects]\nb = "/b"\n', ""),
    "windows": ('[projects]\r\na = "/a"\r\n', 'b = "/b"\r\n', "\r\n[other]\r\n"),
    "windows, no table": ("x = 1\r\n", '\r\n[projects]\r\nb = "/b"\r\n', ""),
    "no final newline": ('[projects]\na = "/a"', '\nb = "/b"', ""),
    "no final newline, no table": ("x = 1", '\n\n[projects]\nb = "/b"', ""),
    "only a header": ("[projects]", '\nb = "/b"', ""),
    "many lines": ('[projects]\na = """\n[projects]\nb = "no"\n"""\n', 'b = "/b"\n', "# ]\n"),
    "arrays": ("x = [ # [\n  '}', {y = '#'}, [\n]]\n[projects]\n", 'b = "/b"\n', '[[z]]\n[[z]]\na."b" = []\n'),
}


@pytest.mark.parametrize(("before", "entry", "after"), FORMS.values(), ids=FORMS)
def test_an_entry_is_added_in_the_form_of_the_others(before: str, entry: str, after: str) -> None:
    assert set_path(before + after, "projects", "b", "/b") == before + entry + after


@pytest.mark.parametrize(("before", "entry", "after"), FORMS.values(), ids=FORMS)
def test_what_was_added_can_be_removed_again(before: str, entry: str, after: str) -> None:
    left = drop_entry(before + entry + after, "projects", "b")
    if "[projects]" in entry or entry.startswith("\n[projects."):  # a header and a blank line are nobody's entry
        assert tomllib.loads(left).get("projects", {}).keys() <= {"a"}
        assert left.startswith(before)
    else:
        assert left == before + after or (entry == ' b = "/b" ' and left == before + "  " + after)


CHANGES = {
    "text": ('[projects]\na = "/a" # c\n', '[projects]\na = "/new" # c\n'),
    "literal": ("[projects]\n'a'='/a'\n", "[projects]\n'a'=\"/new\"\n"),
    "inline table": (
        '[projects]\na = { python = "p", path = "/a" } # c\n',
        '[projects]\na = { python = "p", path = "/new" } # c\n',
    ),
    "sub-table": (
        '[projects.a] # c\npython = "p"\npath = "/a"\n[projects.a.env]\npath = "no"\n',
        '[projects.a] # c\npython = "p"\npath = "/new"\n[projects.a.env]\npath = "no"\n',
    ),
    "dotted": ('[projects]\na.python = "p"\na.path = "/a"\n', '[projects]\na.python = "p"\na.path = "/new"\n'),
    "inline in inline": ('projects = {a = {path = "/a"}}', 'projects = {a = {path = "/new"}}'),
    "many lines": ("[projects]\na = '''\n/a'''\nb = \"\"\n", '[projects]\na = "/new"\nb = ""\n'),
    "not a path": ("[projects]\na = [1, # ]\n 2]\n", '[projects]\na = "/new"\n'),
}


@pytest.mark.parametrize(("old", "new"), CHANGES.values(), ids=CHANGES)
def test_a_path_is_replaced_in_place(old: str, new: str) -> None:
    assert set_path(old, "projects", "a", "/new") == new


REMOVALS = {
    "first of a table": ('[projects]\na = "/a" # c\nb = "/b"\n', '[projects]\nb = "/b"\n'),
    "comments around stay": ('[projects]\n# 1\na = "/a"\n# 2\n', "[projects]\n# 1\n# 2\n"),
    "table with a sub-table": (
        '[projects.a]\npath = "/a"\n# inside\npython = "p"\n\n# about b\n[projects.b]\npath = "/b"\n',
        '\n# about b\n[projects.b]\npath = "/b"\n',
    ),
    "scattered": (
        '[projects.a]\npath = "/a"\n[other]\nx = 1\n[projects.a.env]\nX = "1"\n[z]\n',
        "[other]\nx = 1\n[z]\n",
    ),
    "dotted in pieces": ('projects.a.path = "/a"\nx = 1\nprojects.a.python = "p"\n', "x = 1\n"),
    "first of inline": ('projects = { a = "/a" , b = "/b" }\n', 'projects = { b = "/b" }\n'),
    "middle of inline": ('projects = {b = "/b", a = {path = "/a"}, c = "/c"}\n', 'projects = {b = "/b", c = "/c"}\n'),
    "last of inline": ('projects = {b = "/b", a = "/a"} # c\n', 'projects = {b = "/b"} # c\n'),
    "no final newline": ('[projects]\r\nb = "/b"\r\na = "/a"', '[projects]\r\nb = "/b"'),
}


@pytest.mark.parametrize(("old", "new"), REMOVALS.values(), ids=REMOVALS)
def test_an_entry_is_removed_with_all_its_parts(old: str, new: str) -> None:
    assert drop_entry(old, "projects", "a") == new


@pytest.mark.parametrize(
    "text",
    ["[projects.a]\npython = 'p'\n", "[projects]\na = {}\n", "[[projects.a]]\npath = 'x'\n", "projects.a.python = 'p'"],
)
def test_a_form_without_a_path_to_replace_is_left_to_a_person(text: str) -> None:
    with pytest.raises(CannotEdit):
        set_path(text, "projects", "a", "/new")


# Generated documents: in every form, the data is as expected and every other line is kept.

_KEYS = st.sampled_from(["a", "b", "app", "my app", "x.y", "é", "a#b", 'q"', "l'", "=", "[x]", "projects", "path"])
_STRINGS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=8)
_COMMENTS = st.sampled_from(["", " # c", "\t#[x]='", ' # "'])
_BLANKS = st.sampled_from(["", "\n", "# [projects]\n", "  # a = 1\n", "\n\n"])


@st.composite
def _keys(draw: st.DrawFn, key: str) -> str:
    if draw(st.booleans()) and "'" not in key:
        return f"'{key}'"
    return tomli_w.dumps({key: 0}).removesuffix(" = 0\n")


@st.composite
def _values(draw: st.DrawFn, value: Any) -> str:
    if isinstance(value, dict):
        pairs = [f"{draw(_keys(key))}{draw(_gap)}={draw(_gap)}{draw(_values(part))}" for key, part in value.items()]
        return "{" + draw(_gap) + f"{draw(_gap)},{draw(_gap)}".join(pairs) + draw(_gap) + "}"
    style = draw(st.integers(0, 2))
    printable = all(character.isprintable() for character in value)
    if style == 1 and printable and "'" not in value:
        return f"'{value}'"
    if style == 2 and printable and "'" not in value:
        return f"'''{draw(st.sampled_from(['', '\n']))}{value}'''"
    return tomli_w.dumps({"k": value}).removeprefix("k = ").removesuffix("\n")


_gap = st.sampled_from(["", " ", "\t"])
_strange = st.sampled_from(
    ["1", "nan", "-inf", "1e3", "true", "1979-05-27 07:32:00", '[1, [ # "\n 2]]', "[{a = 1}]", '"""\n[projects]\n"""']
)


@st.composite
def _documents(draw: st.DrawFn) -> str:
    """Write a valid document with projects in one of the forms, and other things around them."""
    entry = st.one_of(_STRINGS, st.fixed_dictionaries({"path": _STRINGS}, optional={"python": _STRINGS, "z": _STRINGS}))
    projects = draw(st.dictionaries(_KEYS, entry, max_size=4))
    form = draw(st.sampled_from(["none", "table", "sub-tables", "mixed", "dotted", "inline"]))

    def pair(key: str, value: Any, prefix: str = "") -> str:
        return (
            f"{draw(_gap)}{prefix}{draw(_keys(key))}{draw(_gap)}={draw(_gap)}"
            f"{draw(_values(value))}{draw(_COMMENTS)}\n{draw(_BLANKS)}"
        )

    def sub_table(key: str, value: Any) -> str:
        fields = value if isinstance(value, dict) else {"path": value}
        header = f"[{draw(_gap)}projects{draw(_gap)}.{draw(_gap)}{draw(_keys(key))}]{draw(_COMMENTS)}\n{draw(_BLANKS)}"
        return header + "".join(pair(name, text) for name, text in fields.items())

    head = draw(_BLANKS) + "".join(
        f"o{n} = {draw(_strange)}{draw(_COMMENTS)}\n" for n in range(draw(st.integers(0, 2)))
    )
    body = ""
    if form == "inline":
        head += pair("projects", projects)
    elif form == "dotted":
        head += "".join(pair(key, value, "projects.") for key, value in projects.items())
    elif form == "table":
        body = f"[projects]{draw(_COMMENTS)}\n" + "".join(pair(key, value) for key, value in projects.items())
    elif form == "sub-tables":
        body = "".join(sub_table(key, value) for key, value in projects.items())
    elif form == "mixed":
        few = dict(list(projects.items())[:2])
        body = "[projects]\n" + "".join(pair(key, value) for key, value in few.items())
        body += "".join(sub_table(key, value) for key, value in projects.items() if key not in few)
    tail = draw(st.sampled_from(["", "[z]\n", '[z]\nprojects = {a = "no"}\n', "[[z]]\n[[z]]\nb = [\n]\n", "# end\n"]))
    text = head + body + draw(_BLANKS) + tail
    if draw(st.booleans()):
        text = text.removesuffix("\n")
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def _data(text: str) -> dict[str, Any]:
    return {"projects": {}} | tomllib.loads(text, parse_float=str)


def _is_subsequence(lines: list[str], of: list[str]) -> bool:
    rest = iter(of)
    return all(line in rest for line in lines)


@pytest.mark.long
@settings(max_examples=200)
@given(_documents(), _KEYS, _STRINGS)
@example("", "a", "\x85")  # a line end to str.splitlines, none to TOML
def test_put_changes_the_entry_and_nothing_else(text: str, alias: str, path: str) -> None:
    before = _data(text)
    old = before["projects"].get(alias)
    new = set_path(text, "projects", alias, path)
    entry = _data(new)["projects"][alias]
    if isinstance(old, dict):
        assert entry == old | {"path": path}
    else:
        assert entry in (path, {"path": path})
    assert _data(new) == before | {"projects": before["projects"] | {alias: entry}}
    if old is None:
        assert _only_inserted(text, new)
    assert ("\r\n" in new) == ("\r\n" in text) or "\n" not in text
    assert new.endswith("\n") == text.endswith("\n") or not text


@pytest.mark.long
@settings(max_examples=200)
@given(_documents(), st.data())
def test_drop_removes_the_entry_and_nothing_else(text: str, data: st.DataObject) -> None:
    before = _data(text)
    for alias in data.draw(st.permutations(list(before["projects"]))):
        new = drop_entry(text, "projects", alias)
        del before["projects"][alias]
        assert _data(new) == before
        assert _only_inserted(new, text, pieces=9)
        text = new


def _only_inserted(short: str, long: str, pieces: int = 1) -> bool:
    """Say whether `long` is `short` with no more than so many pieces put in between its characters."""
    if len(short) > len(long):
        return False
    if pieces == 1:
        start = next((n for n, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
        return any(long.endswith(short[n:]) for n in range(start + 1))
    return _is_subsequence(list(short), list(long))


@given(_KEYS, _STRINGS)
def test_the_lines_to_add_by_hand_are_the_entry(alias: str, path: str) -> None:
    assert tomllib.loads(render_entry("projects", alias, path)) == {"projects": {alias: path}}


SETTINGS = {
    "a path": ('[projects]\nb = "/b" # c\n', '[projects]\nb = { path = "/b", deny = ["x", "y:*"] } # c\n'),
    "inline": ('[projects]\nb = { path = "/b" }\n', '[projects]\nb = { path = "/b", deny = ["x", "y:*"] }\n'),
    "table": (
        '[projects.b]\n  path = "/b" # c\n\n[z]\n',
        '[projects.b]\n  path = "/b" # c\n  deny = ["x", "y:*"]\n\n[z]\n',
    ),
    "sub-table": (
        '[projects.b]\npath = "/b"\n[projects.b.env]\nX = "1"\n',
        '[projects.b]\npath = "/b"\ndeny = ["x", "y:*"]\n[projects.b.env]\nX = "1"\n',
    ),
    "dotted": ('[projects]\nb.path = "/b"\n', '[projects]\nb.path = "/b"\nb.deny = ["x", "y:*"]\n'),
    "long dotted": (
        'projects.b.path = "/b"\nx = 1\n',
        'projects.b.path = "/b"\nprojects.b.deny = ["x", "y:*"]\nx = 1\n',
    ),
    "no final newline": ('[projects.b]\npath = "/b"', '[projects.b]\npath = "/b"\ndeny = ["x", "y:*"]'),
    "windows": ('[projects.b]\r\npath = "/b"\r\n', '[projects.b]\r\npath = "/b"\r\ndeny = ["x", "y:*"]\r\n'),
    "inline in inline": ('projects = { b = "/b" }', 'projects = { b = { path = "/b", deny = ["x", "y:*"] } }'),
}


@pytest.mark.parametrize(("old", "new"), SETTINGS.values(), ids=SETTINGS)
def test_a_setting_is_added_replaced_and_removed_in_the_form_of_its_entry(old: str, new: str) -> None:
    assert set_setting(old, "projects", "b", "deny", ["x", "y:*"]) == new
    assert set_setting(new, "projects", "b", "deny", ["z"]) == new.replace('["x", "y:*"]', '["z"]')
    left = drop_setting(new, "projects", "b", "deny")
    assert left == (old if "{ path" not in new or "{ path" in old else old.replace('"/b"', '{ path = "/b" }'))


def test_comments_in_a_list_are_not_lost() -> None:
    text = '[projects.b]\npath = "/b"\ndeny = [\n  "x", # why\n]\n'
    with pytest.raises(CannotEdit):
        set_setting(text, "projects", "b", "deny", ["x", "y"])
    assert drop_setting(text, "projects", "b", "deny") == '[projects.b]\npath = "/b"\n'
    lines = text.replace(" # why", "")
    assert set_setting(lines, "projects", "b", "deny", ["#"]) == '[projects.b]\npath = "/b"\ndeny = ["#"]\n'


def test_values_are_written_as_toml() -> None:
    values: list[Any] = [True, 5, 1.5, 'a"b', ["a", "é"]]
    assert [render_value(each) for each in values] == ["true", "5", "1.5", '"a\\"b"', '["a", "é"]']

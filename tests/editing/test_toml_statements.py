"""A TOML text is split into statements with their places."""

from qk_mcp.editing.toml_statements import group_sections, line_numbers, split_statements

TEXT = 'a = 1 # [x]\n[b . "c"]\nd = { e = [1, "]"], f = 2 }\n[[g]]\n'


def test_each_statement_has_its_place() -> None:
    nodes = split_statements(TEXT)
    assert [TEXT[node.start : node.end] for node in nodes] == [
        "a = 1",
        '[b . "c"]',
        'd = { e = [1, "]"], f = 2 }',
        "[[g]]",
    ]
    assert [node.path for node in nodes] == [("a",), ("b", "c"), ("b", "c", "d"), ("g",)]
    assert TEXT[nodes[2].value :].startswith("{ e")
    assert [TEXT[item.start : item.end] for item in nodes[2].items] == ['e = [1, "]"]', "f = 2"]
    assert [len(section) for section in group_sections(nodes)] == [1, 2, 1]


def test_lines_of_keys_are_known() -> None:
    lines = line_numbers('# c\nx = """\n\n"""\n[projects]\na = { path = "/a" }\n[projects.b.env]\n"C D" = "1"\n')
    assert lines == {
        ("x",): 2,
        ("projects",): 5,
        ("projects", "a"): 6,
        ("projects", "a", "path"): 6,
        ("projects", "b"): 7,
        ("projects", "b", "env"): 7,
        ("projects", "b", "env", "C D"): 8,
    }

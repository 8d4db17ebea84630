"""The layout of the package: which module may import which, what a module offers, and where its tests are."""

import ast
from collections import defaultdict
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path

import qk_mcp

PACKAGE = Path(qk_mcp.__file__).parent
TESTS = Path(__file__).parent

ROWS = (
    ("__init__", "errors", "redact", "text"),
    ("editing",),
    ("projects",),
    ("interpreters",),
    ("guest",),
    ("host",),
    ("tasks",),
    ("runs",),
    ("clients",),
    ("server",),
    ("cli",),
    ("__main__",),
)
"""The rows of modules and folders: a module imports from its own folder and from the rows above it."""

COVERED_BY = {
    "cli/test_app.py": ("__main__", "cli"),
    "cli/commands/test_doctor.py": ("cli.doctor.checks", "cli.doctor.clients", "cli.doctor.record"),
    "cli/commands/test_install.py": ("cli.client_command", "cli.commands.uninstall", "cli.permissions"),
    "cli/commands/test_inspect.py": (
        "cli.inspect.gather",
        "cli.inspect.notation",
        "cli.inspect.project_view",
        "cli.inspect.task_view",
        "cli.inspect.watch",
    ),
    "cli/commands/test_shared_entries.py": ("cli.server_options",),
    "cli/commands/test_projects.py": ("errors",),
    "cli/commands/test_runs.py": ("cli.runs.output", "cli.runs.select", "cli.runs.table"),
    "cli/commands/test_run.py": ("cli.ui.writer",),
    "cli/completion/test_completion.py": (
        "cli.commands.install_completion",
        "cli.completion.cache",
        "cli.completion.complete",
        "cli.completion.scripts",
        "cli.completion.table",
    ),
    "guest/test_describe.py": ("guest.identity", "guest.json_values"),
    "guest/test_equality.py": ("guest.__main__", "guest.control", "guest.dispatch", "guest.run"),
    "host/test_warm_pool.py": ("guest.staleness", "guest.warmup", "host.guest", "host.launch"),
    "integration/test_record.py": ("server.run_fields",),
    "integration/test_remote.py": ("host.remote",),
    "integration/test_rules.py": ("runs.gate",),
    "integration/test_server.py": ("cli.commands.serve", "server"),
    "integration/test_background.py": ("runs.background", "runs.control", "runs.status", "server.run_queries"),
    "integration/test_stopping.py": ("host.drain", "host.processes", "host.stop"),
    "integration/test_streaming.py": ("runs.progress", "runs.prompts", "runs.streams", "server.call_client"),
    "integration/test_surroundings.py": ("host.threads",),
    "integration/test_task_tools.py": ("server.list_changed", "server.task_tools"),
    "interpreters/test_search.py": ("interpreters.candidates", "interpreters.layout", "interpreters.plan"),
    "runs/test_output.py": ("runs.terminal",),
    "runs/test_run.py": ("runs.ending",),
    "runs/test_search.py": ("runs.line_matching",),
    "tasks/test_cache.py": ("guest.file_trace", "tasks.prefetch"),
    "tasks/test_listing.py": ("tasks.usage",),
}
"""Modules without a test file of their own (or a folder with such modules), by the test file that covers them."""


def _name(file: Path) -> str:
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


FILES = {_name(file): file for file in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(file.read_text(encoding="utf-8")) for name, file in FILES.items()}


def _imports(name: str) -> set[str]:
    """Return the modules of the package that a module imports, also inside functions."""
    package = name if FILES[name].stem == "__init__" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level < 2, f"{name} imports from a parent by dots"
            module = ".".join(filter(None, ["qk_mcp", package, node.module])) if node.level else node.module or ""
            module = module.replace("qk_mcp_guest", "qk_mcp.guest")  # its name in the project's interpreter
            submodules = {f"{module}.{alias.name}" for alias in node.names}
            found |= {each if each.removeprefix("qk_mcp.") in FILES else module for each in submodules}
    ours = {module.removeprefix("qk_mcp.") for module in found if module.startswith("qk_mcp.")}
    return ours | ({"__init__"} if "qk_mcp" in found else set())


IMPORTS = {name: _imports(name) for name in FILES}


def _row(name: str) -> int:
    folder = name.split(".")[0]
    return next(number for number, row in enumerate(ROWS) if folder in row)


def _public(name: str) -> set[str]:
    """Return the names of the functions that a module defines for others."""
    functions = {node.name for node in TREES[name].body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return {function for function in functions if not function.startswith("_")}


def _assigned(name: str) -> set[str]:
    targets = [target for node in TREES[name].body if isinstance(node, ast.Assign) for target in node.targets]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _test_file(name: str) -> Path:
    file = FILES[name].relative_to(PACKAGE)
    return TESTS / file.with_name(f"test_{file.name}")


def test_modules_import_from_their_folder_and_the_rows_above() -> None:
    wrong = [
        f"{name} imports {other}"
        for name, others in IMPORTS.items()
        for other in others
        if _row(other) > _row(name) or (_row(other) == _row(name) > 0 and other.split(".")[0] != name.split(".")[0])
    ]
    assert not wrong


def test_imports_have_no_cycle() -> None:
    assert list(TopologicalSorter(IMPORTS).static_order())


def test_the_guest_imports_nothing_else_of_the_package() -> None:
    """It runs in a project's interpreter, where the rest of the package need not work."""
    guest = {name: others for name, others in IMPORTS.items() if _row(name) == _row("guest")}
    assert {other.split(".")[0] for others in guest.values() for other in others} == {"guest"}


def test_modules_name_what_they_offer() -> None:
    modules = [
        name for name, tree in TREES.items() if len(tree.body) > 1 and name not in ("__init__", "guest.__main__")
    ]
    assert [name for name in modules if "__all__" not in _assigned(name)] == []


def test_public_functions_have_distinct_names() -> None:
    modules = defaultdict(set)
    for name in FILES:
        for public in _public(name) - {"main"}:  # each program has one
            modules[public].add(name)
    assert {public: names for public, names in modules.items() if len(names) > 1} == {}


def test_each_module_has_tests() -> None:
    with_code = {name for name, tree in TREES.items() if name != "__init__" and len(tree.body) > 1}
    without = {name for name in with_code if not _test_file(name).exists()}
    covered = {
        entry: {name for name in without if f"{name}.".startswith(f"{entry}.")} for entry in chain(*COVERED_BY.values())
    }
    assert without - set().union(*covered.values()) == set(), "neither a test file nor an entry in COVERED_BY"
    assert [entry for entry, names in covered.items() if not names] == [], "entries that are not needed"
    assert [file for file in COVERED_BY if not (TESTS / file).exists()] == []

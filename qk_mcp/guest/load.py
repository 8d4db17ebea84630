"""Loads a project's tasks module through quickie's API (0.6.0 to 1.0.0); a broken namespace costs only itself.

The module is imported here, from its own file and under its usual name. quickie's
own import takes another `_qk` if one is on PYTHONPATH, and leaves `__file__`
undefined while a package is imported.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .exceptions import explain_exception, installed_directories
from .warmup import require_quickie

__all__ = ["NotAPackage", "Tasks", "fresh_sources", "load_tasks"]

_NEAR = 3
"""Suggestions for an unknown name; quickie makes as many."""
_NAMESPACES = 10_000
"""Namespaces resolved at most: one that contains itself never ends."""
_PATH = 300
"""Characters of a namespace's path; the path of one that contains itself grows without end."""


class NotAPackage(ImportError):
    """The tasks module is a directory without `__init__.py`."""


def load_tasks(tasks: str, *, running: bool, argv: "list[str]") -> "Tasks":
    """Import the tasks module at the path `tasks` and return its tasks; raise whatever its import raises.

    `argv` are the words after `qk` on the equivalent command line. quickie's log
    file is written only if `running`.
    """
    require_quickie()
    from quickie._namespace import RootNamespace
    from quickie.config import app

    sys.argv[1:] = argv
    path = os.path.abspath(tasks)
    name = os.path.basename(path)
    if os.path.isfile(path) and name.endswith(".py"):
        app.set_project_path(path[: -len(".py")])  # quickie rejects the suffix
    else:
        app.set_project_path(path)
    app.set_use_global(False)
    app.set_verbosity(0)
    sys.excepthook = sys.__excepthook__  # quickie's own hook interprets square brackets in a message as markup
    if running:
        app.set_log_file(None)  # the value of QK_LOG_FILE
    module = _import(path, name)
    # As `app.load_tasks()`, which also writes a cache file into the project.
    app._tasks = root = RootNamespace()
    return Tasks(root, module)


def _import(path: str, name: str) -> Any:
    from importlib.util import module_from_spec, spec_from_file_location

    if os.path.isdir(path):
        file, places, parent = os.path.join(path, "__init__.py"), [path], path
        if not os.path.isfile(file):
            raise NotAPackage(f"there is no {file}")
    else:
        name, file, places, parent = name.rpartition(".")[0], path, None, os.path.dirname(path)
    if name in sys.modules:
        raise ImportError(f"a tasks module cannot be called {name!r}: a module of that name is imported already")
    spec = spec_from_file_location(name, file, submodule_search_locations=places)
    if spec is None or spec.loader is None:
        raise ImportError(f"no Python source: {file}")
    module = module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, parent)
    try:
        # A warm guest may have cached listings of directories and archives that have changed since.
        sys.path_importer_cache.clear()
        if archives := getattr(sys.modules.get("zipimport"), "_zip_directory_cache", None):
            archives.clear()
        with fresh_sources():
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    finally:
        if parent in sys.path:
            sys.path.remove(parent)
    return sys.modules.get(name, module)


@contextmanager
def fresh_sources() -> "Iterator[None]":
    """Import the project's sources as they are now, and write no bytecode.

    Python compares only the source's size and its time in whole seconds with
    those in the bytecode, so it may run the older of two quick edits. In this
    context, bytecode is used only if its source has not changed since it was
    written. Python's own rule applies to installed packages.
    """
    import importlib._bootstrap_external as machinery

    usual, wrote = machinery.cache_from_source, sys.dont_write_bytecode
    installed = installed_directories()

    def cache_from_source(path: Any, *args: Any, **options: Any) -> Any:
        cached = usual(path, *args, **options)
        source = os.fspath(path)
        if not source.startswith(installed):
            try:
                trusted = os.stat(cached).st_mtime_ns > os.stat(source).st_ctime_ns
            except OSError:
                trusted = False
            if not trusted:
                raise NotImplementedError  # Python takes this to mean that there is no bytecode
        return cached

    machinery.cache_from_source, sys.dont_write_bytecode = cache_from_source, True
    try:
        yield
    finally:
        machinery.cache_from_source, sys.dont_write_bytecode = usual, wrote


class _Holder:
    """An object with one attribute, because `RootNamespace.load` reads an object's `__dict__`."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Tasks:
    """The tasks of a loaded module by every name, as in quickie's `RootNamespace`.

    `problems` has an entry for each task or namespace that cannot be registered: its `name`, and `error`, the
    report of the exception.
    """

    def __init__(self, root: Any, module: Any) -> None:
        self.problems: list[dict[str, Any]] = []
        self._root = root
        for name, value in list(vars(module).items()):
            self._attempt(name, root.load, _Holder(value))

    def find(self, name: str) -> Any:
        """Return the task with this name, or None. Unicode normal forms of a name are the same name.

        Namespaces that cannot contain it stay unresolved, so that their imports stay deferred.
        """
        self._resolve(name)
        if name not in self._root._mappings:
            self._resolve(None)
        if name in self._root._mappings or name.isascii():
            return self._root._mappings.get(name)
        from unicodedata import normalize

        composed = normalize("NFC", name)
        return next((task for each, task in self.known().items() if normalize("NFC", each) == composed), None)

    def known(self) -> "dict[str, Any]":
        """Return the tasks by name, without those of unresolved namespaces."""
        return {name: task for name, task in self._root._mappings.items() if isinstance(name, str)}

    def by_name(self, before: "Callable[[str], None] | None" = None) -> "dict[str, Any]":
        """Return every task by every name; `before` is called with each lazy namespace before it is resolved."""
        self._resolve(None, before)
        return self.known()

    def near(self, name: str) -> "list[str]":
        """Return the names most similar to `name`, nearest first."""
        import difflib

        folded: dict[str, str] = {}
        for each in self.by_name():
            folded.setdefault(each.casefold(), each)
        return [folded[each] for each in difflib.get_close_matches(name.casefold(), folded, _NEAR)]

    def _resolve(self, name: "str | None", before: "Callable[[str], None] | None" = None) -> None:
        pending = getattr(self._root, "_pending", {})  # quickie 0.6 has none: it resolves at once
        with fresh_sources():
            for _ in range(_NAMESPACES):
                path = next((each for each in pending if name is None or _may_contain(each, pending[each], name)), None)
                if path is None:
                    return
                if before is not None:
                    before(path)
                for item in pending.pop(path):
                    if len(path) > _PATH:
                        self._attempt(path, _raise_endless)
                        continue
                    # quickie 0.7 to 0.11 store a namespace, 1.0 a tuple of it and its parent's path.
                    self._attempt(path, self._root._resolve_one, *(item if isinstance(item, tuple) else (item,)))
        for path in list(pending):
            del pending[path]
            self._attempt(path, _raise_endless)

    def _attempt(self, name: str, register: "Callable[..., None]", *values: Any) -> None:
        try:
            register(*values)
        except KeyboardInterrupt:
            raise
        except BaseException as failure:
            self.problems.append({"name": str(name), "error": explain_exception(failure)})


def _may_contain(path: str, items: "list[Any]", name: "str | None") -> bool:
    # Before quickie 1.0, the names in a nested namespace begin with its own name, not with its whole path.
    return name is None or name.startswith(path) or not all(isinstance(item, tuple) for item in items)


def _raise_endless() -> None:
    raise RecursionError("the namespaces never end; does one contain itself?")

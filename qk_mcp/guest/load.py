"""Loads a project's tasks module through quickie's API, as `qk` does and a little more resilient.

Written for quickie 0.6.0 to 1.0.0. The tasks module is imported here, under its
usual name and from its very file: quickie's own import takes another `_qk` that
lies on PYTHONPATH, and leaves `__file__` undefined while a package is imported.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from . import warmup as warming
from .exceptions import explain, installed_places

__all__ = ["NotAPackage", "Tasks", "explain", "fresh_sources", "load"]

_NEAR = 3
"""How many near names an unknown one gets; quickie suggests as many."""
_NAMESPACES = 10_000
"""How many namespaces are resolved at most: one that holds itself never ends."""
_PATH = 300
"""Characters of a namespace's path; the path of one that holds itself grows without end."""


class NotAPackage(ImportError):
    """The tasks module is a directory without `__init__.py`."""


def load(tasks: str, *, running: bool, argv: "list[str]") -> "Tasks":
    """Import the tasks module at the path `tasks` and return what it defines; raise whatever its import raises.

    `argv` is what follows `qk` on the command line that this stands for; only a
    `running` guest writes quickie's log file.
    """
    warming.check()
    from quickie._namespace import RootNamespace
    from quickie.config import app

    sys.argv[1:] = argv
    path = os.path.abspath(tasks)
    name = os.path.basename(path)
    if os.path.isfile(path) and name.endswith(".py"):
        app.set_project_path(path[: -len(".py")])  # it refuses the suffix
    else:
        app.set_project_path(path)
    app.set_use_global(False)
    app.set_verbosity(0)
    sys.excepthook = sys.__excepthook__  # quickie's takes square brackets in a message for markup
    if running:
        app.set_log_file(None)  # which means QK_LOG_FILE
    module = _import(path, name)
    # What `app.load_tasks()` does, without the cache that it writes into the project.
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
        # Directories and archives may have changed while a warm guest waited.
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
    """Import from sources as they are now, and leave no bytecode of the project's behind.

    Python trusts bytecode whose source has the recorded size and time in whole
    seconds, so of two quick edits, or after one that restores the time, it may run
    the older. Here bytecode counts only if its source was not touched since it was
    written. What is installed in the environment is left to Python's own rule.
    """
    import importlib._bootstrap_external as machinery

    usual, wrote = machinery.cache_from_source, sys.dont_write_bytecode
    installed = installed_places()

    def cache_from_source(path: Any, *args: Any, **options: Any) -> Any:
        cached = usual(path, *args, **options)
        source = os.fspath(path)
        if not source.startswith(installed):
            try:
                trusted = os.stat(cached).st_mtime_ns > os.stat(source).st_ctime_ns
            except OSError:
                trusted = False
            if not trusted:
                raise NotImplementedError  # as where there is no bytecode at all
        return cached

    machinery.cache_from_source, sys.dont_write_bytecode = cache_from_source, True
    try:
        yield
    finally:
        machinery.cache_from_source, sys.dont_write_bytecode = usual, wrote


class _Holder:
    """Something for `RootNamespace.load`, which looks at an object's `__dict__`."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Tasks:
    """The tasks of a loaded module by every name that invokes them, as quickie's `RootNamespace` has them.

    A task or namespace that cannot be registered costs only itself: `problems`
    holds for each its `name` and what `explain` says of its failure, `error`.
    """

    def __init__(self, root: Any, module: Any) -> None:
        self.problems: list[dict[str, Any]] = []
        self._root = root
        for name, value in list(vars(module).items()):
            self._attempt(name, root.load, _Holder(value))

    def find(self, name: str) -> Any:
        """Return the task that is called exactly `name`, or None.

        Namespaces that cannot hold it stay unresolved, so that what they defer is not imported for nothing.
        """
        self._resolve(name)
        if name not in self._root._mappings:
            self._resolve(None)
        return self._root._mappings.get(name)

    def known(self) -> "dict[str, Any]":
        """Return the tasks by name that no lazy namespace need be asked for."""
        return {name: task for name, task in self._root._mappings.items() if isinstance(name, str)}

    def by_name(self, asking: "Callable[[str], None] | None" = None) -> "dict[str, Any]":
        """Return every task by every name; `asking` hears of each lazy namespace before it is asked."""
        self._resolve(None, asking)
        return self.known()

    def near(self, name: str) -> "list[str]":
        """Return the names most like `name`, nearest first."""
        import difflib

        folded: dict[str, str] = {}
        for each in self.by_name():
            folded.setdefault(each.casefold(), each)
        return [folded[each] for each in difflib.get_close_matches(name.casefold(), folded, _NEAR)]

    def _resolve(self, wanted: "str | None", asking: "Callable[[str], None] | None" = None) -> None:
        pending = getattr(self._root, "_pending", {})  # quickie 0.6 has none: it resolves at once
        with fresh_sources():
            for _ in range(_NAMESPACES):
                path = next(
                    (each for each in pending if wanted is None or _may_hold(each, pending[each], wanted)), None
                )
                if path is None:
                    return
                if asking is not None:
                    asking(path)
                for item in pending.pop(path):
                    if len(path) > _PATH:
                        self._attempt(path, _complain)
                        continue
                    # A namespace in 0.7 to 0.11, with its parent's path since 1.0.
                    self._attempt(path, self._root._resolve_one, *(item if isinstance(item, tuple) else (item,)))
        for path in list(pending):
            del pending[path]
            self._attempt(path, _complain)

    def _attempt(self, name: str, register: "Callable[..., None]", *values: Any) -> None:
        try:
            register(*values)
        except KeyboardInterrupt:
            raise
        except BaseException as failure:
            self.problems.append({"name": str(name), "error": explain(failure)})


def _may_hold(path: str, items: "list[Any]", wanted: "str | None") -> bool:
    # Since 1.0 all that a namespace holds is called after its path; before, a nested one is called after its own alone.
    return wanted is None or wanted.startswith(path) or not all(isinstance(item, tuple) for item in items)


def _complain() -> None:
    raise RecursionError("namespaces without end: does one hold itself?")

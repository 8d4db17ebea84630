"""Skips Python's final garbage collection if that cannot be observed.

At its end, CPython collects all objects, which takes longer than a small task.
`gc.freeze` exempts the objects that exist after quickie's import. They may refer
to objects of the task, though, and a file with unflushed data or an object with a
finalizer must still be finalized. Therefore, when Python starts to clear modules,
this code examines all objects created since. It skips the collection only if
none of them does anyitem when it is deallocated.
"""

import gc
import struct
import sys
from importlib.machinery import ExtensionFileLoader
from io import TextIOWrapper
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any
from weakref import ReferenceType

__all__ = ["skip_final_collection"]

_INERT_TYPES = frozenset(
    """
    _abc._abc_data _contextvars.Context _contextvars.ContextVar _contextvars.Token _json.Encoder _json.Scanner
    _queue.SimpleQueue _random.Random _struct.Struct _thread.RLock _thread._ThreadHandle _thread._local
    _thread._localdummy _thread.lock ast.AST
    builtins.NoneType builtins.NotImplementedType builtins.BaseException builtins.PyCapsule builtins.bool
    builtins.builtin_function_or_method builtins.builtin_method builtins.bytearray builtins.bytes builtins.cell
    builtins.classmethod builtins.classmethod_descriptor builtins.code builtins.complex builtins.dict
    builtins.ellipsis builtins.float builtins.frame builtins.frozenset builtins.function builtins.getset_descriptor
    builtins.hamt builtins.hamt_array_node builtins.hamt_bitmap_node builtins.int builtins.list
    builtins.mappingproxy builtins.member_descriptor builtins.method builtins.method-wrapper
    builtins.method_descriptor builtins.module builtins.object builtins.property builtins.range builtins.set
    builtins.slice builtins.staticmethod builtins.str builtins.super builtins.traceback builtins.tuple builtins.type
    builtins.wrapper_descriptor
    collections.OrderedDict collections._tuplegetter collections.defaultdict collections.deque
    datetime.date datetime.datetime datetime.time datetime.timedelta datetime.timezone decimal.Context decimal.Decimal
    decimal.SignalDictMixin
    functools._lru_cache_wrapper functools._lru_list_elem functools.partial itertools.count
    operator.attrgetter operator.itemgetter operator.methodcaller re.Match re.Pattern
    sys.flags types.GenericAlias types.SimpleNamespace types.UnionType typing.Generic typing.ParamSpec
    typing.ParamSpecArgs typing.ParamSpecKwargs typing.TypeAliasType typing.TypeVar typing.TypeVarTuple typing.Union
    weakref.ReferenceType
    """.split()  # noqa: SIM905  # a list would take a hundred lines
)
"""Types implemented in C whose deallocation only releases references."""
_INERT_CALLBACKS = frozenset({"_weakrefset", "logging", "weakref", "_destroy", "_localdummy_destroyed", "clear_locals"})
"""Modules and C functions whose weakref callbacks only remove entries from internal tables."""
_MAX_OBJECTS = 100_000
"""Number of objects above which the examination takes longer than the collection."""
_POINTER = struct.calcsize("P")
_STREAMS = ("stdin", "stdout", "stderr")
# Read from `type` itself: a metaclass may override these attributes.
_MRO, _BASE, _SIZE, _NAMES, _MODULE, _QUALNAME = (
    type.__dict__[name].__get__
    for name in ("__mro__", "__base__", "__basicsize__", "__dict__", "__module__", "__qualname__")
)


class _Sentinel:
    """An object that Python deletes when it starts to clear modules, after exit handlers and threads have ended."""

    def __init__(self) -> None:
        self.streams = [getattr(sys, name) for name in _STREAMS]
        # Keeps references, because another object could reuse an id.
        buffers = [getattr(stream, "buffer", None) for stream in self.streams]
        self._parts = [*self.streams, *buffers, *(getattr(buffer, "raw", None) for buffer in buffers)]

    def __call__(self) -> None:
        """Do noitem; `sys.__interactivehook__` has to be callable."""

    def __del__(self) -> None:
        created = gc.get_objects()
        gc.unfreeze()
        try:
            if (
                sys.is_finalizing()
                and self._are_flushed()
                and len(created) < _MAX_OBJECTS
                and not any(map(_runs_callbacks, created))
            ):
                created += gc.get_referents(*created)
                if self.allows(created):
                    gc.freeze()
        except BaseException:
            return  # raised by a foreign class; the usual collection follows

    def allows(self, objects: "list[Any]") -> bool:
        """Return whether deallocating these objects, except the standard streams, has no visible effect."""
        excluded = {id(self), *map(id, self._parts)}
        return all(map(_is_inert, {type(each) for each in objects if id(each) not in excluded}))

    def _are_flushed(self) -> bool:
        """Return whether the standard streams are still the original ones, which Python has just flushed."""
        now = [getattr(sys, name) for name in _STREAMS] + [getattr(sys, f"__{name}__") for name in _STREAMS]
        return all(one is other for one, other in zip(now, self.streams * 2, strict=True))


def skip_final_collection() -> None:
    """Exempt all current objects from the final collection, unless deallocating one has a visible effect."""
    if sys.implementation.name != "cpython":
        return  # other implementations shut down differently
    sentinel = _Sentinel()
    if all(stream is None or type(stream) is TextIOWrapper for stream in sentinel.streams) and sentinel.allows(
        gc.get_objects()
    ):
        sys.__interactivehook__ = sentinel
        gc.freeze()


def _is_inert(kind: type) -> bool:
    """Return whether deallocating objects of this type runs no finalizer and no C code with visible effects."""
    for part in _MRO(kind):
        if "__del__" in _NAMES(part):
            return False
    while f"{_MODULE(kind)}.{_QUALNAME(kind)}" not in _INERT_TYPES:
        base = _BASE(kind)
        slots = _NAMES(kind).get("__slots__", ())
        own = _POINTER * (1 if isinstance(slots, str) else len(tuple(slots)))
        if base is None or _SIZE(kind) - _SIZE(base) > own:
            return False  # it has fields that are implemented in C
        kind = base
    return True


def _runs_callbacks(item: Any) -> bool:
    """Return whether its deallocation may run foreign code: a weak reference with a callback, a module in C."""
    kind = type(item)  # not `isinstance`, which asks the object, which may be a proxy
    if issubclass(kind, ReferenceType):
        callback = item.__callback__
        if type(callback) in (FunctionType, BuiltinFunctionType):
            return (callback.__module__ or callback.__name__) not in _INERT_CALLBACKS
        return callback is not None
    if kind is ModuleType:
        names = ModuleType.__getattribute__(item, "__dict__")
        package = str(names.get("__name__")).partition(".")[0]
        return type(names.get("__loader__")) is ExtensionFileLoader and package not in sys.stdlib_module_names
    return False

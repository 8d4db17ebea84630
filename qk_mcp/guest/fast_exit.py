"""Spares the end of a run its longest part, where nobody could tell.

Python ends by collecting every object there is, which takes longer than a small
task. What quickie's import made is kept from that (`gc.freeze`). But what is kept
may refer to what the task made, and a file that was not flushed, or an object with
a finalizer, must come to its end as in any Python. So, as Python begins to take
modules apart, whatever was made since is looked at: only if none of it could do
anything by ending is there no collection.
"""

import gc
import struct
import sys
from importlib.machinery import ExtensionFileLoader
from io import TextIOWrapper
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any
from weakref import ReferenceType

__all__ = ["keep"]

_PLAIN = frozenset(
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
    """.split()  # noqa: SIM905  # one name a line would take a hundred
)
"""Types written in C that do no more than let go of what they hold."""
_TIDY = frozenset({"_weakrefset", "logging", "weakref", "_destroy", "_localdummy_destroyed", "clear_locals"})
"""Modules, and functions in C, whose weak references keep tables of their own tidy, and do nothing else."""
_MOST = 100_000
"""Objects above which to look at them takes too long."""
_POINTER = struct.calcsize("P")
_STREAMS = ("stdin", "stdout", "stderr")
# What a type is, without asking its metaclass.
_MRO, _BASE, _SIZE, _NAMES, _MODULE, _QUALNAME = (
    type.__dict__[name].__get__
    for name in ("__mro__", "__base__", "__basicsize__", "__dict__", "__module__", "__qualname__")
)


class _End:
    """What Python drops as it begins to take modules apart: exit handlers have run, and threads have stopped."""

    def __init__(self) -> None:
        self.streams = [getattr(sys, name) for name in _STREAMS]
        # Held, not named by their addresses, which another object could take over.
        buffers = [getattr(stream, "buffer", None) for stream in self.streams]
        self._parts = [*self.streams, *buffers, *(getattr(buffer, "raw", None) for buffer in buffers)]

    def __call__(self) -> None:
        """Nothing: it lies where an interactive Python looks for something to call."""

    def __del__(self) -> None:
        made = gc.get_objects()
        gc.unfreeze()
        try:
            if sys.is_finalizing() and self._are_flushed() and len(made) < _MOST and not any(map(_is_told, made)):
                made += gc.get_referents(*made)
                if self.allows(made):
                    gc.freeze()
        except BaseException:
            return  # raised by a foreign class, whose end is the usual one then

    def allows(self, objects: "list[Any]") -> bool:
        """Say whether nothing could be noticed of the end of these objects, the standard streams aside."""
        aside = {id(self), *map(id, self._parts)}
        return all(map(_is_quiet, {type(thing) for thing in objects if id(thing) not in aside}))

    def _are_flushed(self) -> bool:
        """Say whether the standard streams are still those of the beginning: these Python has just flushed."""
        now = [getattr(sys, name) for name in _STREAMS] + [getattr(sys, f"__{name}__") for name in _STREAMS]
        return all(one is other for one, other in zip(now, self.streams * 2, strict=True))


def keep() -> None:
    """Keep what there is by now from being collected at the end, unless some of it wants to be."""
    if sys.implementation.name != "cpython":
        return  # others end in their own ways
    end = _End()
    if all(stream is None or type(stream) is TextIOWrapper for stream in end.streams) and end.allows(gc.get_objects()):
        sys.__interactivehook__ = end
        gc.freeze()


def _is_quiet(kind: type) -> bool:
    """Say whether objects of this type just go: they have no finalizer, and C does nothing at their end."""
    for part in _MRO(kind):
        if "__del__" in _NAMES(part):
            return False
    while f"{_MODULE(kind)}.{_QUALNAME(kind)}" not in _PLAIN:
        base = _BASE(kind)
        slots = _NAMES(kind).get("__slots__", ())
        own = _POINTER * (1 if isinstance(slots, str) else len(tuple(slots)))
        if base is None or _SIZE(kind) - _SIZE(base) > own:
            return False  # larger than a class that is written in Python: only C knows what it holds
        kind = base
    return True


def _is_told(thing: Any) -> bool:
    """Say whether this runs code of others when something ends: a weak reference with a callback, a module in C."""
    kind = type(thing)  # whereas `isinstance` may ask the object, which may be a proxy of another
    if issubclass(kind, ReferenceType):
        callback = thing.__callback__
        if type(callback) in (FunctionType, BuiltinFunctionType):
            return (callback.__module__ or callback.__name__) not in _TIDY
        return callback is not None
    if kind is ModuleType:
        names = ModuleType.__getattribute__(thing, "__dict__")
        package = str(names.get("__name__")).partition(".")[0]
        return type(names.get("__loader__")) is ExtensionFileLoader and package not in sys.stdlib_module_names
    return False

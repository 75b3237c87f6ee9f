"""Makes dataclasses in a tenth of the time of the standard library, which compiles six methods for each of them.

The daemon makes some 600 of them at its start, and few of them get an instance or are compared. ADR 26 has figures.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, FrozenInstanceError, field, fields
from dataclasses import dataclass as with_fields  # noqa: TID251 - finds the fields
from functools import cache
from types import MemberDescriptorType
from typing import Any, NoReturn, TypeVar, dataclass_transform, overload

_T = TypeVar("_T")


@overload
def dataclass(cls: type[_T], /) -> type[_T]: ...


@overload
def dataclass(
    *, frozen: bool = False, slots: bool = False, eq: bool = True, kw_only: bool = False
) -> Callable[[type[_T]], type[_T]]: ...


@dataclass_transform(field_specifiers=(field,))
def dataclass(
    cls: type[_T] | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    kw_only: bool = False,
) -> type[_T] | Callable[[type[_T]], type[_T]]:
    """Do as `dataclasses.dataclass`, but compile a method when it is called for the first time.

    `inspect.signature` therefore does not know the parameters of the constructor. `dataclasses.fields` has them.
    """

    def make(cls: type[_T]) -> type[_T]:
        docstring = cls.__doc__
        cls.__doc__ = cls.__name__  # without one, the library would make a text of the signature
        made = with_fields(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
        made.__doc__ = docstring
        depth = sum("__dataclass_fields__" in vars(base) for base in made.__mro__[1:])
        for name, method in _methods(frozen, slots, eq, depth).items():
            if vars(made).get(name) is None:
                setattr(made, name, method)
        return made

    return make if cls is None else make(cls)


@cache
def _methods(frozen: bool, slots: bool, eq: bool, depth: int) -> Mapping[str, Any]:
    """The methods that all such classes share.

    `depth`: the number of dataclasses among their bases. So a class and its base have different ones, and a call of the
    base's constructor for an object of the class finds the base.
    """
    methods: dict[str, Any] = {"__init__": _at_first_call("__init__", _init), "__repr__": _repr}
    if eq:
        methods |= {"__eq__": _at_first_call("__eq__", _eq), "__hash__": None}
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    if frozen and eq:
        methods["__hash__"] = _at_first_call("__hash__", _hash)
    if frozen and slots:
        methods |= {"__getstate__": _state, "__setstate__": _restore}
    return methods


def _at_first_call(name: str, source: Callable[[type[Any], dict[str, Any]], str]) -> Callable[..., Any]:
    """Make a method that compiles another one and puts it in its place in the class."""

    def method(self: Any, *args: Any, **named: Any) -> Any:
        own = [vars(cls).get(name) for cls in type(self).__mro__]
        if method not in own:  # another thread has just replaced it
            compiled: Any = next(found for found in own if getattr(found, "in_place_of", None) is method)
            return compiled(self, *args, **named)
        owner = type(self).__mro__[own.index(method)]
        known: dict[str, Any] = {}
        exec(source(owner, known), known)  # noqa: S102 - as the library does: only the names of fields vary
        known[name].__qualname__ = f"{owner.__qualname__}.{name}"
        known[name].in_place_of = method
        setattr(owner, name, known[name])
        return known[name](self, *args, **named)

    return method


def _init(cls: type[Any], known: dict[str, Any]) -> str:
    """The source of the constructor. Adds what it refers to to `known`."""
    known |= {"_missing": MISSING, "_set": object.__setattr__}
    positional, named, body = ["self"], ["*"], []
    for each in fields(cls):
        name = value = parameter = each.name
        if each.default_factory is not MISSING:
            known[f"_make_{name}"], parameter = each.default_factory, f"{name}=_missing"
            value = f"_make_{name}() if {name} is _missing else {name}" if each.init else f"_make_{name}()"
        elif each.default is not MISSING:
            known[f"_default_{name}"], parameter = each.default, f"{name}=_default_{name}"
            value = name if each.init else f"_default_{name}"
        elif not each.init:
            continue  # `__post_init__` sets it
        if each.init:
            (named if each.kw_only else positional).append(parameter)
        slot = getattr(cls, name, None)
        if isinstance(slot, MemberDescriptorType):  # in half the time of `object.__setattr__`
            known[f"_set_{name}"] = slot.__set__
            body.append(f" _set_{name}(self, {value})")
        else:
            body.append(f" _set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    parameters = ", ".join(positional + named * (len(named) > 1))
    return "\n".join([f"def __init__({parameters}):", *body, " return None"])


def _eq(cls: type[Any], known: dict[str, Any]) -> str:
    return (
        "def __eq__(self, other):\n"
        " if other.__class__ is not self.__class__:\n"
        "  return NotImplemented\n"
        f" return {_compared(cls, 'self')} == {_compared(cls, 'other')}"
    )


def _hash(cls: type[Any], known: dict[str, Any]) -> str:
    return f"def __hash__(self):\n return hash({_compared(cls, 'self')})"


def _compared(cls: type[Any], name: str) -> str:
    values = "".join(f"{name}.{each.name}, " for each in fields(cls) if each.compare)
    return f"({values})"


def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_to_set(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)

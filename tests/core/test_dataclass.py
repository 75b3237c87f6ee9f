"""The contract of dataclasses, for those of the library and for ours."""

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import KW_ONLY, FrozenInstanceError, asdict, astuple, field, fields, replace
from typing import Any, ClassVar, Generic, TypeVar

import orjson
import pytest

from sm.core import dataclass as ours

_T = TypeVar("_T")


@pytest.fixture(params=[dataclasses.dataclass, ours.dataclass], ids=["library", "ours"])
def dataclass(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def point(dataclass: Any) -> Any:
    @dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: int = 0
        tags: list[str] = field(default_factory=list)
        secret: str = field(default="", repr=False, compare=False)
        unit: ClassVar[str] = "m"

    return Point


def test_instance_has_given_values_and_defaults(point: Any) -> None:
    made = point(1, tags=["a"])
    assert (made.x, made.y, made.tags, made.secret, made.unit) == (1, 0, ["a"], "", "m")
    assert point(1).tags is not point(1).tags
    assert not hasattr(made, "__dict__")


def test_constructor_refuses_wrong_arguments_at_each_call(point: Any) -> None:
    for _ in range(2):
        with pytest.raises(
            TypeError, match=r"Point\.__init__\(\) missing 1 required positional argument: 'x'"
        ):
            point()
        with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
            point(1, z=2)
        with pytest.raises(TypeError, match="positional arguments but 6 were given"):
            point(1, 2, [], "", 5)


def test_repr_omits_fields_without_repr(point: Any) -> None:
    assert repr(point(1, secret="s")).endswith("Point(x=1, y=0, tags=[])")


def test_instances_are_equal_when_class_and_compared_fields_are(point: Any, dataclass: Any) -> None:
    @dataclass(frozen=True, slots=True)
    class Other(point):  # type: ignore[misc]
        pass

    for _ in range(2):
        assert point(1, secret="a") == point(1, secret="b")
        assert point(1) != point(2)
        assert point(1) != Other(1)
        assert point(1) != (1, 0, [], "")


def test_hash_is_that_of_the_compared_fields(dataclass: Any) -> None:
    @dataclass(frozen=True)
    class Key:
        name: str
        note: str = field(default="", compare=False)

    for _ in range(2):
        assert hash(Key("a", "x")) == hash(Key("a", "y"))
    assert {Key("a"): 1}[Key("a")] == 1


def test_changeable_instance_has_no_hash(dataclass: Any) -> None:
    @dataclass(slots=True)
    class Count:
        number: int = 0

    count = Count()
    count.number += 1
    assert count == Count(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(count)


def test_frozen_instance_refuses_changes(point: Any) -> None:
    made = point(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        made.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del made.x


def test_class_without_eq_compares_identity(dataclass: Any) -> None:
    @dataclass(frozen=True, slots=True, eq=False)
    class Part:
        name: str

    one, other = Part("a"), Part("a")
    assert one != other
    assert len({one, other}) == 2


def test_methods_of_the_class_stay(dataclass: Any) -> None:
    @dataclass(frozen=True)
    class Own:
        name: str

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

    assert repr(Own("a")) == "own"
    assert Own("a") == 3
    assert hash(Own("a")) == hash(Own("a"))


@pytest.mark.parametrize("slots", [True, False])
def test_post_init_sets_fields_that_no_argument_sets(dataclass: Any, slots: bool) -> None:
    @dataclass(slots=slots)
    class Started:
        at: int
        _: KW_ONLY
        end: int = field(init=False)
        seen: set[int] = field(init=False, default_factory=set)
        is_new: bool = field(init=False, default=True)
        name: str = "a"

        def __post_init__(self) -> None:
            self.end = self.at + 1

    started = Started(1, name="b")
    assert (started.end, started.seen, started.is_new, started.name) == (2, set(), True, "b")
    positional: Any = (1, "b")
    with pytest.raises(TypeError, match="positional argument"):
        Started(*positional)


def test_keyword_only_class_takes_no_positional_arguments(dataclass: Any) -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Named:
        a: int = 1
        b: str  # type: ignore[misc]  # mypy does not see that all are keyword-only

    named: Any = Named
    assert (named(b="x").a, named(b="x").b) == (1, "x")
    with pytest.raises(TypeError, match="positional argument"):
        named(2)


@pytest.mark.parametrize("slots", [True, False])
def test_derived_class_has_the_fields_of_both(dataclass: Any, slots: bool) -> None:
    @dataclass(frozen=True, slots=slots)
    class Base(Generic[_T]):
        a: _T
        b: int = 2

    @dataclass(frozen=True, slots=slots)
    class Derived(Base[str]):
        b: int = 3
        c: tuple[int, ...] = ()

    class Undeclared(Derived):
        def __init__(self, a: str) -> None:
            super().__init__(a, 4)

    for _ in range(2):
        assert Undeclared("x").b == 4
    assert astuple(Derived("x")) == ("x", 3, ())
    assert astuple(Base("y")) == ("y", 2)
    assert Base("x") != Derived("x", 2)


def test_functions_of_the_library_know_the_class(point: Any) -> None:
    made = point(1, tags=["a"])
    assert [each.name for each in fields(point)] == ["x", "y", "tags", "secret"]
    assert asdict(made) == {"x": 1, "y": 0, "tags": ["a"], "secret": ""}
    assert replace(made, y=5) == point(1, 5, ["a"])
    assert orjson.dumps(made) == b'{"x":1,"y":0,"tags":["a"],"secret":""}'
    assert copy.deepcopy(made) == made
    assert point.__match_args__ == ("x", "y", "tags", "secret")


def test_mutable_default_is_refused(dataclass: Any) -> None:
    with pytest.raises(ValueError, match="mutable default"):

        @dataclass(frozen=True)
        class Shared:
            names: list[str] = []  # noqa: RUF012 - the mistake


def test_decorator_takes_a_class_without_options(dataclass: Callable[[type], Any]) -> None:
    @dataclass
    class Plain:
        """Doc."""

        a: int = 1

    assert Plain().a == 1
    assert Plain.__doc__ == "Doc."


def test_constructor_of_a_base_can_be_called_for_an_object_of_a_subclass() -> None:
    @ours.dataclass
    class Parent:
        a: int

    @ours.dataclass
    class Child(Parent):
        b: int

    child = Child.__new__(Child)
    Parent.__init__(child, 1)
    assert (child.a, Child(2, 3).b) == (1, 3)


def test_method_that_another_thread_has_replaced_is_called_once() -> None:
    made: list[str] = []

    @ours.dataclass
    class Base:
        a: int

    class Overriding(Base):
        def __init__(self, a: int) -> None:
            made.append("overriding")
            first(self, a)

    first = Base.__init__
    Base(1)  # compiles it, as another thread does between the call and the look at the class
    assert (Overriding(2).a, made) == (2, ["overriding"])

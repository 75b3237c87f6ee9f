"""The JSON of answers with left-out fields and with names that Python reserves."""

import dataclasses
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import MISSING, fields
from importlib import import_module
from typing import get_args, get_type_hints

import pytest

import sm.wire_types
from sm.core.dataclass import dataclass
from sm.wire_types.fields import Sparse

MODULES = [import_module(f"sm.wire_types.{m.name}") for m in pkgutil.iter_modules(sm.wire_types.__path__)]
ANSWERS = {
    cls
    for module in MODULES
    for _, cls in inspect.getmembers(module, dataclasses.is_dataclass)
    if cls.__module__ == module.__name__
}


@dataclass(frozen=True, slots=True)
class Letter(Sparse):
    from_: str
    to: str | None
    cc: str = ""
    seen: bool = False


def test_sparse_answer_leaves_out_fields_that_have_their_default() -> None:
    assert Letter("a", None).as_json() == {"from": "a", "to": None}


def test_sparse_answer_has_fields_with_another_value_than_their_default() -> None:
    assert Letter("a", "b", "c", seen=True).as_json() == {"from": "a", "to": "b", "cc": "c", "seen": True}


def parts(hint: object) -> Iterator[object]:
    """A type and all types that it consists of."""
    yield hint
    for part in get_args(hint):
        yield from parts(part)


@pytest.mark.parametrize("answer", sorted(ANSWERS, key=str), ids=lambda answer: answer.__name__)
def test_answer_is_written_as_it_is_documented(answer: type) -> None:
    """docs/openapi.json requires fields without a default; only a sparse answer at the top level lacks others."""
    hints = get_type_hints(answer)
    is_sparse = issubclass(answer, Sparse)
    for field in fields(answer):
        assert is_sparse or (field.default is MISSING and not field.name.endswith("_")), field.name
        nested = [part for part in parts(hints[field.name]) if isinstance(part, type)]
        assert not any(issubclass(part, Sparse) for part in nested), field.name

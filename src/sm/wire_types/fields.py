"""Types of fields whose JSON schema says more than their Python type, and what answers of all parts have."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated, Any

from sm.core.dataclass import dataclass
from sm.errors import BY_CODE

LEFT_OUT: Any = None
"""The default of a field that the JSON lacks, unless it has a value; of any type, because null is no value of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Narrowed:
    """The JSON schema of a value, in place of the schema of its Python type. Nothing checks it."""

    schema: dict[str, Any]

    def __get_pydantic_json_schema__(self, core: object, handler: object) -> dict[str, Any]:
        """Called by pydantic when it generates a schema (`api/openapi.py`)."""
        return self.schema


def narrowed(type: str, **more: Any) -> Narrowed:
    return Narrowed({"type": type, **more})


def words(values: Sequence[str]) -> Narrowed:
    """A text that is one of `values`."""
    return narrowed("string", enum=[str(value) for value in values])


SOMETIMES = {"sometimes": True}
"""The metadata of a field that only some answers of a route have: the others are objects of a class without it."""

Time = Annotated[str, narrowed("string", format="date-time")]
Anything = Annotated[dict[str, Any], narrowed("object")]
SessionLabel = Annotated[
    str,
    narrowed(
        "string",
        description="The name for people. It ends with the id only if another session has the same friendly name.",
    ),
]


@dataclass(frozen=True, slots=True)
class Sparse:
    """The base of answers whose JSON has a name that Python reserves, or lacks fields. orjson can write neither.

    The JSON lacks each field with a default that has this value. It has `from_` as `from`.
    """

    def as_json(self) -> dict[str, Any]:
        """The object for orjson."""
        values = ((f, getattr(self, f.name)) for f in fields(self))
        return {json_name(f.name): value for f, value in values if value != f.default}


def json_name(field: str) -> str:
    return field.removesuffix("_")


ErrorCode = Annotated[str, words(sorted(BY_CODE))]


@dataclass(frozen=True, slots=True)
class EmptyView:
    """No fields."""


@dataclass(frozen=True, slots=True)
class ErrorBody(Sparse):
    code: ErrorCode
    message: str
    """The failure."""
    hint: str | None
    """The command to type next."""
    retry_after_s: float = LEFT_OUT
    """With `rate_limited`: the seconds to wait before the next try."""
    directory: str = LEFT_OUT
    """With `directory_not_trusted`: the absolute path of the directory."""

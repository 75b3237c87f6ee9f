"""Types of fields whose JSON schema says more than their Python type."""

from collections.abc import Sequence
from typing import Annotated, Any

from sm.core.dataclass import dataclass


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

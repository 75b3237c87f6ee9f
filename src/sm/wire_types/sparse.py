"""Answers whose JSON has a name that Python reserves, or lacks fields. orjson can write neither of a dataclass."""

from dataclasses import fields
from typing import Any

from sm.core.dataclass import dataclass

LEFT_OUT: Any = None
"""The default of a field that the JSON lacks, unless it has a value; of any type, because null is no value of it."""


@dataclass(frozen=True, slots=True)
class Sparse:
    """The base of such answers.

    The JSON lacks each field with a default that has this value. It has `from_` as `from`.
    """

    def as_json(self) -> dict[str, Any]:
        """The object for orjson."""
        values = ((f, getattr(self, f.name)) for f in fields(self))
        return {json_name(f.name): value for f, value in values if value != f.default}


def json_name(field: str) -> str:
    return field.removesuffix("_")

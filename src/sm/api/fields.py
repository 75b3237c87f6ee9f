"""Annotations for the fields of bodies and queries: their accepted values and JSON schemas."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, GetPydanticSchema
from pydantic_core import core_schema

from sm.errors import UsageError
from sm.wire_types.fields import narrowed

REQUIRED = "x-required"
"""The key in a field's JSON schema that makes the field required."""

Present = Annotated[bool, BeforeValidator(lambda value: True), narrowed("string", enum=["1"])]
"""A parameter of a query that is true when present, with any value."""


def needed(empty: Any) -> GetPydanticSchema:
    """Documents a field as required. A missing or null value becomes `empty`, which the use case refuses."""
    return GetPydanticSchema(
        lambda source, handler: core_schema.no_info_before_validator_function(
            lambda value: empty if value is None else value, handler(source)
        ),
        lambda core, handler: {**handler(core), REQUIRED: True},
    )


def choice(noun: str, options: Sequence[str], *, blank: bool = False) -> GetPydanticSchema:
    """Accepts one of `options`, with `blank` also an empty text."""

    def check(value: str) -> str:
        if value in options or (blank and not value):
            return value
        raise UsageError(f"unknown {noun} {value[:40]}", f"use one of: {', '.join(options)}")

    return GetPydanticSchema(
        lambda source, handler: core_schema.no_info_after_validator_function(check, handler(source)),
        lambda core, handler: {"type": "string", "enum": [str(option) for option in options]},
    )


def count(most: int | None = None) -> GetPydanticSchema:
    """Accepts a whole number in a query, limited to `most`."""

    def read(text: str, info: core_schema.ValidationInfo[Any]) -> int:
        if not text.isdecimal() or len(text) > 18:
            raise UsageError(f"{info.field_name} must be a whole number")
        return int(text) if most is None else min(int(text), most)

    return GetPydanticSchema(
        lambda source, handler: core_schema.with_info_plain_validator_function(read),
        lambda core, handler: {"type": "integer", "minimum": 0},
    )

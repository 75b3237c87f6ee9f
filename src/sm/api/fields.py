"""The base model of queries, and annotations for the fields of queries and bodies."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Self

from aiohttp import web
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, GetPydanticSchema
from pydantic_core import core_schema

from sm.core.timestamps import epoch_s, iso
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


def _moment(text: str) -> str:
    try:
        return iso(epoch_s(text))
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{text[:40]!r} is not a time", "use ISO 8601: 2026-01-31T10:00:00Z") from None


Moment = Annotated[str, AfterValidator(_moment), narrowed("string", format="date-time")]
"""A time, normalized so that times compare as texts. Raises UsageError."""


class Query(BaseModel):
    """The model of a request's query. A missing parameter has its default; unknown parameters are ignored."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", defer_build=True)
    declared: ClassVar[type[Any] | None] = None
    """The dataclass from which the model was made."""

    @classmethod
    def of(cls, request: web.Request) -> Self:
        """The parameters of the request; of a repeated parameter the first. Raises UsageError."""
        given = request.query
        return cls.model_validate({name: given[name] for name in cls.model_fields if name in given})

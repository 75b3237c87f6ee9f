"""Annotations for the fields of bodies, queries and answers: accepted values, and what docs/openapi.json shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from sm.errors import UsageError

REQUIRED = "x-required"
"""The key in a field's JSON schema that makes the field required."""
_NUMBER_MAX = 10**18


def doc(description: str, **schema: Any) -> Any:
    """The description of a field; `schema` is added to its JSON schema."""
    return Field(description=description or None, json_schema_extra=schema or None)


def schema(type: str, **more: Any) -> WithJsonSchema:
    """Documents a value more narrowly than its Python type does."""
    return WithJsonSchema({"type": type, **more})


def words(values: Sequence[str]) -> WithJsonSchema:
    """Documents a text as one of `values`, which are checked elsewhere."""
    return WithJsonSchema({"type": "string", "enum": [str(value) for value in values]})


def _always(value: Any) -> bool:
    return True


Time = Annotated[str, schema("string", format="date-time")]
LongText = Annotated[str, schema("string", maxLength=10_000)]
Seconds = Annotated[float, Field(ge=0, le=86_400)]
WholeNumber = Annotated[int, Field(ge=-_NUMBER_MAX, le=_NUMBER_MAX), schema("integer")]
Anything = Annotated[dict[str, Any], schema("object")]

Present = Annotated[bool, BeforeValidator(_always), schema("string", enum=["1"])]
"""A parameter of a query that counts as given whatever its value is."""


@dataclass(frozen=True, slots=True)
class Needed:
    """Marks a field as required in the document. A missing or null value counts as `empty`, which the use case refuses
    in words of its own.
    """

    empty: Any

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._filled, handler(source))

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(core), REQUIRED: True}

    def _filled(self, value: Any) -> Any:
        return self.empty if value is None else value


NeededText = Annotated[str, Needed("")]
NeededTexts = Annotated[list[str], Needed([])]


@dataclass(frozen=True, slots=True)
class Choice:
    """Accepts one of `words`; refuses another in the words of the product. An empty text passes if `blank`."""

    noun: str
    words: Sequence[str]
    blank: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"type": "string", "enum": [str(word) for word in self.words]}

    def _check(self, value: str) -> str:
        if value in self.words or (self.blank and not value):
            return value
        raise UsageError(f"unknown {self.noun} {value[:40]}", f"use one of: {', '.join(self.words)}")


@dataclass(frozen=True, slots=True)
class Count:
    """Accepts a whole number in the text of a query, cut to `most`."""

    most: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"type": "integer", "minimum": 0}

    def _read(self, text: str, info: core_schema.ValidationInfo[Any]) -> int:
        if not text.isdecimal() or len(text) > 18:
            raise UsageError(f"{info.field_name} must be a whole number")
        return int(text) if self.most is None else min(int(text), self.most)

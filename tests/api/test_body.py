"""Request bodies: messages for wrong fields, defaults, and unknown fields."""

from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest

from sm.api.operation_routes import operation_route
from sm.errors import UsageError
from sm.operations import Operation
from sm.operations.access_rules import EVERY_CALLER
from sm.operations.arguments import NEEDED, OneOf, Seconds, WholeNumber
from sm.wire_types.fields import Anything, EmptyView


@dataclass(frozen=True, slots=True)
class SampleFields:
    needed: Annotated[str, NEEDED] = ""
    names: Annotated[list[str], NEEDED] = field(default_factory=list)
    text: str | None = None
    flag: bool | None = None
    seconds: Seconds | None = None
    texts: list[str] | None = None
    numbers: list[WholeNumber] | None = None
    object: Anything | None = None
    environment: dict[str, str] | None = None
    mode: Annotated[str, OneOf("mode", ("auto", "urgent"))] | None = None


Sample: Any = operation_route(
    Operation("sample", "Sample.", "POST /v1/sample", EmptyView, SampleFields, audience=EVERY_CALLER)
).body


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"needed": 5}, "needed must be a string"),
        ({"text": 5}, "text must be a string"),
        ({"text": ["a"]}, "text must be a string"),
        ({"flag": 1}, "flag must be true or false"),
        ({"flag": "true"}, "flag must be true or false"),
        ({"seconds": "5"}, "seconds must be a number of seconds, at most a day"),
        ({"seconds": True}, "seconds must be a number of seconds, at most a day"),
        ({"seconds": -1}, "seconds must be a number of seconds, at most a day"),
        ({"seconds": 86_401}, "seconds must be a number of seconds, at most a day"),
        ({"seconds": float("inf")}, "seconds must be a number of seconds, at most a day"),
        ({"names": "a"}, "names must be a list"),
        ({"texts": {}}, "texts must be a list"),
        ({"texts": ["a", 1]}, "texts must be a list of strings"),
        ({"texts": [None]}, "texts must be a list of strings"),
        ({"numbers": 1}, "numbers must be a list"),
        ({"numbers": ["1"]}, "numbers must be a list of whole numbers"),
        ({"numbers": [True]}, "numbers must be a list of whole numbers"),
        ({"numbers": [1.0]}, "numbers must be a list of whole numbers"),
        ({"numbers": [10**18 + 1]}, "numbers contains a number out of range"),
        ({"numbers": [-(10**18) - 1]}, "numbers contains a number out of range"),
        ({"numbers": [2**64]}, "numbers contains a number out of range"),
        ({"object": []}, "object must be an object"),
        ({"environment": "A=b"}, "environment must be an object"),
        ({"environment": {"A": 1}}, "the values of environment must be strings"),
        ({"mode": 5}, "mode must be a string"),
        ({"mode": "x" * 50}, f"unknown mode {'x' * 40}"),
    ],
    ids=str,
)
def test_body_is_refused_when_a_field_has_a_wrong_value(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        Sample.of(given)
    assert refused.value.message == message


def test_body_error_hints_at_the_allowed_values_of_a_choice() -> None:
    with pytest.raises(UsageError) as refused:
        Sample.of({"mode": "slow"})
    assert refused.value.hint == "use one of: auto, urgent"


def test_body_treats_null_like_a_missing_field() -> None:
    missing = Sample.of({})
    assert Sample.of(dict.fromkeys(Sample.model_fields)) == missing
    assert (missing.needed, missing.names, missing.text) == ("", [], None)


def test_body_ignores_unknown_field() -> None:
    assert Sample.of({"unknown": object(), "text": "a"}) == Sample.of({"text": "a"})


def test_body_reads_valid_fields() -> None:
    deep = {"a": [{"b": None}]}
    body = Sample.of(
        {"needed": "n", "seconds": 5, "texts": ["a"], "numbers": [1], "object": deep, "mode": ""}
    )
    assert (body.needed, body.seconds, body.texts, body.numbers) == ("n", 5.0, ["a"], [1])
    assert (body.object, body.mode) == (deep, "")

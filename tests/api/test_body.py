"""A body is refused in the words of the product, whatever is wrong with it; what is unknown is ignored."""

from typing import Annotated, Any

import pytest

from sm.api.body import Body
from sm.api.fields import Anything, NeededText, NeededTexts, Seconds, WholeNumber, choice
from sm.errors import UsageError


class Sample(Body):
    needed: NeededText = ""
    names: NeededTexts = []  # noqa: RUF012 - pydantic copies it
    text: str | None = None
    flag: bool | None = None
    seconds: Seconds | None = None
    texts: list[str] | None = None
    numbers: list[WholeNumber] | None = None
    object: Anything | None = None
    environment: dict[str, str] | None = None
    mode: Annotated[str, choice("mode", ("auto", "urgent"), blank=True)] | None = None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"needed": 5}, "needed must be a str"),
        ({"text": 5}, "text must be a str"),
        ({"text": ["a"]}, "text must be a str"),
        ({"flag": 1}, "flag must be a bool"),
        ({"flag": "true"}, "flag must be a bool"),
        ({"seconds": "5"}, "seconds must be a number of seconds, at most a day"),
        ({"seconds": True}, "seconds must be a number of seconds, at most a day"),
        ({"seconds": -1}, "seconds must be a number of seconds, at most a day"),
        ({"seconds": 86_401}, "seconds must be a number of seconds, at most a day"),
        ({"seconds": float("inf")}, "seconds must be a number of seconds, at most a day"),
        ({"names": "a"}, "names must be a list"),
        ({"texts": {}}, "texts must be a list"),
        ({"texts": ["a", 1]}, "texts must be a list of texts"),
        ({"texts": [None]}, "texts must be a list of texts"),
        ({"numbers": 1}, "numbers must be a list"),
        ({"numbers": ["1"]}, "numbers must be a list of whole numbers"),
        ({"numbers": [True]}, "numbers must be a list of whole numbers"),
        ({"numbers": [1.0]}, "numbers must be a list of whole numbers"),
        ({"numbers": [10**18 + 1]}, "numbers has a number that nothing can have"),
        ({"numbers": [-(10**18) - 1]}, "numbers has a number that nothing can have"),
        ({"numbers": [2**64]}, "numbers has a number that nothing can have"),
        ({"object": []}, "object must be a dict"),
        ({"environment": "A=b"}, "environment must be a dict"),
        ({"environment": {"A": 1}}, "the values of environment must be of type str"),
        ({"mode": 5}, "mode must be a str"),
        ({"mode": "x" * 50}, f"unknown mode {'x' * 40}"),
    ],
    ids=str,
)
def test_a_wrong_field_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        Sample.of(given)
    assert refused.value.message == words


def test_the_words_of_a_choice_are_the_hint() -> None:
    with pytest.raises(UsageError) as refused:
        Sample.of({"mode": "slow"})
    assert refused.value.hint == "use one of: auto, urgent"


def test_a_missing_field_and_a_null_one_are_equal() -> None:
    missing = Sample.of({})
    assert Sample.of(dict.fromkeys(Sample.model_fields)) == missing
    assert (missing.needed, missing.names, missing.text) == ("", [], None)


def test_a_field_that_nobody_knows_is_ignored() -> None:
    assert Sample.of({"unknown": object(), "text": "a"}) == Sample.of({"text": "a"})


def test_a_right_body_is_read_as_it_is() -> None:
    deep = {"a": [{"b": None}]}
    body = Sample.of(
        {"needed": "n", "seconds": 5, "texts": ["a"], "numbers": [1], "object": deep, "mode": ""}
    )
    assert (body.needed, body.seconds, body.texts, body.numbers) == ("n", 5.0, ["a"], [1])
    assert (body.object, body.mode) == (deep, "")

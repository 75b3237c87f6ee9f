"""Arguments that do not match the schema of their tool are refused with their path."""

import pytest

from sm.mcp.schemas import (
    ArgumentCheck,
    ArgumentError,
    arguments,
    choice,
    flag,
    many,
    named_number,
    number,
    text,
)

CHECK = ArgumentCheck(
    arguments(
        {"title": text(5)},
        count=number(1, 3),
        mode=choice(["a", "b"]),
        tree=flag(),
        names=many(text(3), 2, least=1),
        slug=text(5, pattern="^[a-z]*$"),
        pr=named_number(),
    )
)
LONG = "x" * 5000


@pytest.mark.parametrize(
    ("wrong", "message", "path"),
    [
        ({}, "missing argument: title", "title"),
        ({"title": ""}, "title: must have 1 to 5 characters", "title"),
        ({"title": "123456"}, "title: must have 1 to 5 characters", "title"),
        ({"title": {}}, "title: must be a string", "title"),
        ({"title": "a", "count": "two"}, "count: must be a whole number", "count"),
        ({"title": "a", "count": True}, "count: must be a whole number", "count"),
        ({"title": "a", "mode": "c"}, "mode: must be one of: a, b", "mode"),
        ({"title": "a", "tree": 2}, "tree: must be a boolean", "tree"),
        ({"title": "a", "names": []}, "names: must have 1 to 2 items", "names"),
        ({"title": "a", "names": ["a"] * 3}, "names: must have 1 to 2 items", "names"),
        ({"title": "a", "names": ["a", "long"]}, "names[1]: must have 1 to 3 characters", "names[1]"),
        ({"title": "a", "names": {}}, "names: must be a list", "names"),
        ({"title": "a", "pr": 10**12}, "pr: must be 1 to 999,999,999", "pr"),
        ({"title": "a", "pr": 1.5}, "pr: must be a whole number", "pr"),
        ({"title": "a", "slug": "A"}, "slug: must match pattern ^[a-z]*$", "slug"),
    ],
)
def test_check_names_the_path_and_the_requirement(wrong: dict[str, object], message: str, path: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        CHECK.check(wrong)
    assert (refused.value.message, refused.value.data["path"]) == (message, path)


def test_check_names_the_known_arguments_for_an_unknown_one() -> None:
    with pytest.raises(ArgumentError, match="unknown argument: parent; the arguments are: title, count"):
        CHECK.check({"title": "a", "parent": "1a2b3c4d"})


def test_check_repeats_little_of_a_wrong_value() -> None:
    with pytest.raises(ArgumentError) as refused:
        CHECK.check({"title": f"\x1b{LONG}"})
    value = refused.value.data["value"]
    assert len(value) == 100 and "\x1b" not in value


def test_check_makes_a_whole_number_of_one_with_a_fraction_of_zero() -> None:
    checked, _ = CHECK.check({"title": "a", "count": 2.0})
    assert (checked, type(checked["count"])) == ({"title": "a", "count": 2}, int)


def test_check_accepts_what_the_schema_allows() -> None:
    CHECK.check({"title": "a", "count": 3, "mode": "b", "tree": False, "names": ["a"], "slug": "abc"})

"""Arguments in the forms in which models write them become those of the schema, and nothing else does."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.mcp.forms import fitted
from sm.mcp.schemas import ArgumentCheck, arguments, choice, flag, many, named_number, number, text

SCHEMA = arguments(
    {"session_id": text(200), "message": text(50)},
    wait_s=number(0, 30),
    mode=choice(["auto", "idle", "urgent"]),
    status=choice(["completed", "error"]),
    until=choice(["ended", "waiting_input"]),
    answer=flag(),
    session_ids=many(text(200), 50),
    options=many(text(10), 20),
    metadata={"type": "object"},
    budget=text(200),
    note=text(50, least=0),
    pr=named_number(),
    branch=text(50),
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"session_id": " `1a2b3c4d`\n"}, {"session_id": "1a2b3c4d"}),
        ({"session_id": 12345678}, {"session_id": "12345678"}),
        ({"session_id": ["login"]}, {"session_id": "login"}),
        ({"session_id": ["a", "b"]}, {"session_id": ["a", "b"]}),
        ({"sessionId": "login"}, {"session_id": "login"}),
        ({"session": "login"}, {"session_id": "login"}),
        ({"session": "a", "session_id": "b"}, {"session": "a", "session_id": "b"}),
        ({"text": "go on"}, {"message": "go on"}),
        ({"message": ' "quoted" '}, {"message": ' "quoted" '}),
        ({"message": ["a", "b"]}, {"message": "a\nb"}),
        ({"message": 12}, {"message": "12"}),
        ({"message": True}, {"message": True}),
        ({"message": None}, {"message": None}),
        ({"message": ""}, {"message": ""}),
        ({"note": None}, {}),
        ({"wait_s": "5"}, {"wait_s": 5}),
        ({"wait_s": 2.5}, {"wait_s": 3}),
        ({"wait_s": "soon"}, {"wait_s": "soon"}),
        ({"wait_s": True}, {"wait_s": True}),
        ({"wait_s": None, "mode": "", "answer": None}, {}),
        ({"mode": "Idle"}, {"mode": "idle"}),
        ({"mode": "later"}, {"mode": "later"}),
        ({"status": "success"}, {"status": "completed"}),
        ({"status": "failed"}, {"status": "error"}),
        ({"until": "done"}, {"until": "ended"}),
        ({"until": "Waiting Input"}, {"until": "waiting_input"}),
        ({"answer": "false"}, {"answer": False}),
        ({"answer": 1}, {"answer": True}),
        ({"answer": "maybe"}, {"answer": "maybe"}),
        ({"session_ids": "a, b"}, {"session_ids": ["a", "b"]}),
        ({"session_ids": '["a", "b"]'}, {"session_ids": ["a", "b"]}),
        ({"session_ids": [57, "", None]}, {"session_ids": ["57"]}),
        ({"options": "red"}, {"options": ["red"]}),
        ({"options": "red, blue"}, {"options": "red, blue"}),
        ({"options": [{"label": "red", "description": "hot"}]}, {"options": ["red: hot"]}),
        ({"options": [{"name": "red"}]}, {"options": [{"name": "red"}]}),
        ({"metadata": '{"tests": 12}'}, {"metadata": {"tests": 12}}),
        ({"metadata": "12 tests"}, {"metadata": {"value": "12 tests"}}),
        ({"metadata": []}, {"metadata": {}}),
        ({"budget": {"usd": 5, "minutes": 90}}, {"budget": "usd=5,minutes=90"}),
        ({"pr": "#12"}, {"pr": 12}),
        ({"pr_number": 12.0}, {"pr": 12}),
        ({"pr": 12.5}, {"pr": 12.5}),
        ({"pr": 0}, {"pr": 0}),
        ({"pr": 10**12}, {"pr": 10**12}),
        ({"pr": "latest"}, {"pr": "latest"}),
        ({"branch": "`main`", "budget": ""}, {"branch": "main"}),
    ],
)
def test_argument_is_put_into_the_form_of_the_schema(given: dict[str, Any], taken: dict[str, Any]) -> None:
    assert fitted(SCHEMA, given) == (taken, ())


@pytest.mark.parametrize(
    ("given", "taken", "warning"),
    [
        ({"wait_s": 600}, {"wait_s": 30}, "wait_s: 30, the most that is allowed"),
        ({"wait_s": -1}, {"wait_s": 0}, "wait_s: 0, the least that is allowed"),
        ({"options": ["x" * 11, "b"]}, {"options": ["x" * 9 + "…", "b"]}, "options: cut to 10 characters"),
    ],
)
def test_other_value_than_the_given_one_is_a_warning(
    given: dict[str, Any], taken: dict[str, Any], warning: str
) -> None:
    assert fitted(SCHEMA, given) == (taken, (warning,))


@given(st.dictionaries(st.sampled_from(list(SCHEMA["properties"])), ANY_JSON))
def test_argument_that_was_put_into_its_form_is_left_as_it_is(values: dict[str, Any]) -> None:
    once, _ = fitted(SCHEMA, values)
    assert fitted(SCHEMA, once) == (once, ())


def test_names_of_all_forms_are_arguments_of_tools() -> None:
    from sm.mcp.forms import _OTHER_NAMES, _WORDS
    from sm.mcp.tools import TOOLS

    known = {name for tool in TOOLS.values() for name in tool.input["properties"]}
    assert known >= _WORDS | set(_OTHER_NAMES.values())
    assert not {
        (tool.name, other)
        for tool in TOOLS.values()
        for other in _OTHER_NAMES
        if other in tool.input["properties"] and _OTHER_NAMES[other] in tool.input["properties"]
    }
    assert ArgumentCheck(SCHEMA).check({"session": "a", "message": "b"})[0] == {
        "session_id": "a",
        "message": "b",
    }

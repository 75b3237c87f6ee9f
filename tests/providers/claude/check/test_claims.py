"""A check tells what `sm` says of messages and agents and is not so."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from sm.client.http import Client
from sm.providers.claude.check import contracts
from sm.providers.claude.check.play import FALSE_CLAIM, Play
from sm.providers.claude.check.scripted_api import Kind, ModelRequest, ScriptedApi
from sm.providers.claude.check.scripted_api.conversation import Body


class StandInClient:
    """Answers with what a daemon says."""

    def __init__(self, said: Mapping[str, Mapping[str, object]]) -> None:
        self.said = said

    def get(self, path: str) -> Mapping[str, object]:
        return self.said[path]

    def post(self, path: str, body: object = None, **options: object) -> Mapping[str, object]:
        return {}


class StandInApi:
    """Has got one request to the model."""

    def __init__(self, text: str, held: str | None) -> None:
        body: Body = {"system": "(session 1a2b3c4d)", "messages": [{"role": "user", "content": text}]}
        self.request = ModelRequest(1, "/v1/messages", {}, body, cast(Kind, None), held=held)

    def turns(self, words: str = "") -> list[ModelRequest]:
        return [self.request]


def played(message: str, status: str, *, text: str = "look at this", held: str | None = None) -> Play:
    said = {"/v1/messages/7": {"status": message}, "/v1/sessions/1a2b3c4d": {"status": status}}
    client = cast(Client, StandInClient(said))
    api = cast(ScriptedApi, StandInApi(text, held))
    play = Play("queue", client, api, Path(), Path(), sessions=["1a2b3c4d"])
    play.sent.append((7, "look at this"))
    return play


@pytest.mark.parametrize(
    ("play", "claim"),
    [
        (played("acknowledged", "idle"), ""),
        (played("submitted", "working", text="other", held="x"), ""),
        (
            played("acknowledged", "idle", text="other"),
            "message 7 is called acknowledged, but the model never got it",
        ),
        (played("delivering", "idle", held="x"), "the agent is called idle, but its turn runs"),
    ],
)
def test_message_that_nobody_read_and_agent_that_works_are_false_claims(play: Play, claim: str) -> None:
    assert play.false_claim() == claim


def test_false_claim_breaks_a_contract_that_holds_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def part(play: Play) -> str:
        return "all is well"

    contract, _ = contracts._CONTRACTS["queue"]
    monkeypatch.setitem(contracts._CONTRACTS, "queue", (contract, part))
    monkeypatch.setattr(contracts, "_SETTLES_S", 0)
    assert contracts._play("queue", played("acknowledged", "idle")).holds
    outcome = contracts._play("queue", played("acknowledged", "idle", text="other"))
    assert not outcome.holds
    assert outcome.evidence.startswith(FALSE_CLAIM)
    assert outcome.instead == contract.instead


def test_answer_that_is_called_confirmed_without_a_result_is_a_false_claim() -> None:
    said: dict[str, Any] = {"/v1/requests/r1": {"confirmed": False}}
    play = Play("permission", cast(Client, StandInClient(said)), cast(ScriptedApi, None), Path(), Path())
    assert not play.is_last_answer_confirmed()
    play.answer({"request_id": "r1"}, approved=True)
    assert not play.is_last_answer_confirmed()
    said["/v1/requests/r1"] = {"confirmed": True}
    assert play.is_last_answer_confirmed()

"""`sm pause` and `sm resume` of sessions."""

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.cli.peer import answer
from tests.cli.samples import session
from tests.played.cli.command import BEGIN, Sm
from tests.played.cli.peer import Peer

PAUSING = {
    "at": "2026-11-28T12:00:00Z",
    "by": "operator",
    "reason": "lunch",
    "until": None,
    "state": "pausing",
    "settled_at": None,
    "held": None,
    "spends": ["3 background agents"],
}
SOON = BEGIN + timedelta(minutes=30)


def paused(id: str, until: str | None = None, **more: Any) -> dict[str, Any]:
    pause = {"at": BEGIN.isoformat(), "by": "operator", "reason": "lunch", "until": until}
    shown = session(id, paused=pause)
    return {**shown, "sessions": [id], "too": [], "working": [], "warnings": []} | more


def test_pause_names_each_session_with_its_end_and_warns_on_stderr(run: Sm, peer: Peer) -> None:
    child = session("2b3c4d5e", friendly_name="sh-b", label="sh-b", paused=PAUSING)
    more = {
        "sessions": ["1a2b3c4d", "2b3c4d5e"],
        "too": [child],
        "working": ["2b3c4d5e"],
        "warnings": ["half"],
    }
    peer.script("POST /v1/sessions/a/pause", answer(paused("1a2b3c4d", SOON.isoformat(), **more)))
    shown = run("pause", "a", "--tree", "--for", "30m", "--reason", "lunch")
    first, second = shown.out.splitlines()
    assert first.endswith(f" until {SOON:%H:%M}")
    assert second == "Pausing sh-b: 3 background agents still spend"
    assert shown.err == "warning: half\n"
    body = json.loads(peer.received[-1].body)
    assert body == {"tree": True, "soft": False, "reason": "lunch", "for_s": 1800}


def test_end_of_a_pause_is_sent_as_a_moment(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/sessions/a/pause", answer(paused("1a2b3c4d")))
    run("pause", "a", "--until", "2099-01-01T06:00+00:00")
    assert json.loads(peer.received[-1].body)["until"] == "2099-01-01T06:00:00+00:00"


@pytest.mark.parametrize(
    "words", [("pause",), ("resume",), ("pause", "a", "--all"), ("resume", "a", "--account", "x")]
)
def test_pause_and_resume_need_either_sessions_or_all_or_an_account(run: Sm, words: tuple[str, ...]) -> None:
    assert run(*words, code=2).out == ""


def test_duration_of_a_pause_is_checked(run: Sm) -> None:
    assert "invalid duration: 'soon'" in run("pause", "a", "--for", "soon", code=2).err


def test_resume_names_each_session(run: Sm, peer: Peer) -> None:
    child = session("2b3c4d5e", friendly_name="sh-b", label="sh-b", paused=None)
    resumed = session("1a2b3c4d", friendly_name="sh-a", label="sh-a", paused=None)
    more = {"sessions": ["2b3c4d5e"], "too": [child], "working": [], "warnings": []}
    peer.script("POST /v1/sessions/a/resume", answer({**resumed, **more}))
    assert run("resume", "a", "--tree").out == "Resumed sh-b\n"


def test_pause_that_waits_exits_with_10_while_something_spends(run: Sm, peer: Peer) -> None:
    shown = {**paused("1a2b3c4d"), "paused": PAUSING, "working": ["1a2b3c4d"]}
    peer.script("POST /v1/sessions/a/pause", answer(shown))
    assert "3 background agents still spend" in run("pause", "a").out
    peer.script("POST /v1/sessions/b/pause", answer(shown))
    assert run("pause", "b", "--wait", "20", code=10).out.startswith("Pausing ")
    assert json.loads(peer.received[-1].body)["wait_s"] == 20
    peer.script("POST /v1/sessions/c/pause", answer(paused("1a2b3c4d")))
    assert run("pause", "c", "--wait", "20").out.startswith("Paused ")


def test_soft_pause_has_nothing_to_wait_for(run: Sm) -> None:
    assert "--soft" in run("pause", "a", "--soft", "--wait", "5", code=2).err


def test_pause_says_that_it_has_ended_the_process(run: Sm, peer: Peer) -> None:
    ended = {**PAUSING, "state": "paused", "held": "ended", "spends": []}
    peer.script("POST /v1/sessions/a/pause", answer({**paused("1a2b3c4d"), "paused": ended}))
    out = run("pause", "a").out
    assert out.startswith("Paused ") and "its process was ended" in out and "sm resume" in out

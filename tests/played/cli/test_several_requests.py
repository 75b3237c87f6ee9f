"""Several requests answered by one command: named one by one, or equal to one of them."""

import json
from typing import Any

import pytest

from tests.cli.peer import answer, error
from tests.cli.samples import decision, request, session
from tests.played.cli.command import Sm
from tests.played.cli.peer import Peer


def permission(number: int, **more: Any) -> dict[str, Any]:
    fields = {"kind": "permission", "questions": [], "tool": "Bash", "arguments": {"command": "npm test"}}
    return request(number, **fields | more)


def script(peer: Peer, *requests: dict[str, Any], approved: bool = True, late: str = "") -> None:
    """Let the daemon show the requests and take an answer to each, except to the one that is answered already."""
    for one in requests:
        name = one["request_id"]
        done = one | {"state": "answered", "answer": decision(approved), "confirmed": True}
        refused = error("illegal_state", f"request {name} was answered", 409)
        peer.script(f"GET /v1/requests/{name}", answer(one))
        peer.script(f"POST /v1/requests/{name}/answer", refused if name == late else answer(done))


def answers(peer: Peer) -> list[tuple[str, Any]]:
    return [(r.path.split("/")[3], r.json) for r in peer.received if r.method == "POST"]


def test_several_requests_are_approved_as_they_were_read(run: Sm, peer: Peer) -> None:
    script(peer, permission(4), permission(5), permission(6))
    done = run("approve", "r4", "r5", "r6", "r5")
    assert done.out.splitlines() == [f"Approved r{number} of engineer-login" for number in (4, 5, 6)]
    shown = {f"r{number}": f"{number:032x}" for number in (4, 5, 6)}
    assert answers(peer) == [
        (name, {"approved": True, "message": None, "shown": digest}) for name, digest in shown.items()
    ]


def test_last_word_is_the_message_to_requests_of_one_kind(run: Sm, peer: Peer) -> None:
    script(peer, permission(4), permission(5), approved=False)
    done = run("deny", "r4", "r5", "not on a Friday")
    assert done.out.splitlines() == ["Denied r4 of engineer-login", "Denied r5 of engineer-login"]
    assert [(body["approved"], body["message"]) for _, body in answers(peer)] == [
        (False, "not on a Friday")
    ] * 2


@pytest.mark.parametrize(
    ("second", "words", "message"),
    [
        ({"kind": "completion"}, "well done", "one message does not fit requests of several kinds"),
        ({}, "usd=2,minutes=30", "amounts are for one request only"),
        ({}, " usd = 2", "amounts are for one request only"),
    ],
)
def test_message_that_does_not_fit_all_requests_answers_none(
    run: Sm, peer: Peer, second: dict[str, Any], words: str, message: str
) -> None:
    script(peer, permission(4), permission(5, **second))
    assert message in run("approve", "r4", "r5", words, code=2).err
    assert answers(peer) == []


def test_text_to_several_budgets_answers_none(run: Sm, peer: Peer) -> None:
    script(peer, permission(4, kind="budget"), permission(5, kind="budget"))
    assert "amounts are for one request only" in run("approve", "r4", "r5", "go on", code=2).err
    assert answers(peer) == []


@pytest.mark.parametrize("words", [("well", "done"), ("well", "r5"), ("r5", "well", "done")])
def test_word_after_the_message_is_a_usage_error(run: Sm, peer: Peer, words: tuple[str, ...]) -> None:
    assert f"got unexpected extra argument ({words[-1]})" in run("approve", "r4", *words, code=2).err
    assert peer.received == []


def test_failure_of_one_request_does_not_stop_the_others(run: Sm, peer: Peer) -> None:
    script(peer, permission(4), permission(5), permission(6), late="r5")
    peer.script("GET /v1/requests/r7", error("not_found", "no such request: r7", 404))
    done = run("approve", "r4", "r5", "r6", code=4)
    assert done.out.splitlines() == ["Approved r4 of engineer-login", "Approved r6 of engineer-login"]
    assert done.err == "sm: request r5 was answered\n"
    assert run("approve", "r7", "r4", code=3).out == "Approved r4 of engineer-login\n"


def test_json_of_several_requests_is_an_array_of_those_that_were_answered(run: Sm, peer: Peer) -> None:
    script(peer, permission(4), permission(5), late="r4")
    done = run("approve", "r4", "r5", "--json", code=4)
    assert [one["request_id"] for one in json.loads(done.out)] == ["r5"]


def test_first_word_may_be_a_session_with_one_open_request(run: Sm, peer: Peer) -> None:
    script(peer, permission(4), permission(5))
    peer.script("GET /v1/requests", answer([permission(4)]))
    run("approve", "engineer-login", "r5")
    assert [name for name, _ in answers(peer)] == ["r4", "r5"]


# --same


@pytest.fixture
def equal(peer: Peer) -> Peer:
    """Five open requests, of which r4, r5 and r8 are equal."""
    places = {4: "shop", 5: "shop", 6: "shop", 7: "api", 8: "shop"}
    found = [
        permission(number, session_id=f"{number:08x}", name=f"engineer-{number}", label=f"engineer-{number}")
        for number in places
    ]
    found[2]["arguments"] = {"command": "npm test; rm -rf /"}
    found[4]["agent"] = "reviewer"
    sessions = [session(f"{number:08x}", workspace=place) for number, place in places.items()]
    peer.script("GET /v1/requests", answer(found))
    peer.script("GET /v1/sessions", answer(sessions))
    script(peer, *found)
    return peer


def test_equal_requests_are_listed_and_answered(run: Sm, equal: Peer) -> None:
    done = run("approve", "--same", "r4", "--yes")
    head, *listed = done.err.splitlines()
    assert head == '3 of 5 open requests, all in workspace shop: "Bash: npm test"'
    assert [line.split("  ")[1:3] for line in listed] == [
        ["r4", "engineer-4"],
        ["r5", "engineer-5"],
        ["r8", "engineer-8 (sub-agent reviewer)"],
    ]
    assert [(name, body["shown"]) for name, body in answers(equal)] == [
        (f"r{number}", f"{number:032x}") for number in (4, 5, 8)
    ]


def test_equal_requests_outside_of_workspaces_come_from_one_directory(run: Sm, peer: Peer) -> None:
    directories = {4: "/app", 5: "/app", 6: "/etc"}
    found = [permission(number, session_id=f"{number:08x}") for number in directories]
    peer.script("GET /v1/requests", answer(found))
    places = directories.items()
    peer.script("GET /v1/sessions", answer([session(f"{n:08x}", working_dir=place) for n, place in places]))
    script(peer, *found)
    done = run("approve", "--same", "r4", "--yes")
    assert done.err.splitlines()[0] == '2 of 3 open requests, all in directory /app: "Bash: npm test"'
    assert [name for name, _ in answers(peer)] == ["r4", "r5"]


def test_equal_requests_are_not_answered_without_a_yes_on_a_terminal(run: Sm, equal: Peer) -> None:
    shown = run.screen("approve", "--same", "r4", typed="n\n", code=4)
    assert "r8" in shown and "Approve 3 requests? [y/N]" in shown
    assert answers(equal) == []
    run.screen("deny", "--same", "r4", "no", typed="y\n")
    assert [body["approved"] for _, body in answers(equal)] == [False] * 3


def test_json_of_equal_requests_is_an_array(run: Sm, equal: Peer) -> None:
    assert len(json.loads(run("approve", "--same", "r7", "--json", "--yes").out)) == 1


def test_request_that_must_be_answered_alone_has_no_equal_ones(run: Sm, peer: Peer) -> None:
    cut = permission(4, cut=True)
    peer.script("GET /v1/requests", answer([cut, permission(5, cut=True)]))
    peer.script("GET /v1/sessions", answer([session()]))
    script(peer, cut)
    assert "no requests are equal to r4" in run("approve", "--same", "r4", "--yes", code=4).err
    assert answers(peer) == []


def test_sessions_that_the_list_does_not_have_are_not_taken_together(run: Sm, peer: Peer) -> None:
    found = [permission(4, session_id="0000000a"), permission(5, session_id="0000000b")]
    peer.script("GET /v1/requests", answer(found))
    peer.script("GET /v1/sessions", answer([]))
    script(peer, *found)
    run("approve", "--same", "r4", "--yes")
    assert [name for name, _ in answers(peer)] == ["r4"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("approve", "r4", "--yes"), "--yes needs --same"),
        (("approve", "--same", "r4", "r5"), "--same takes one request only"),
        (("deny", "--review", "r4", "r5"), "--review takes one request only"),
        (("deny", "--review", "--same", "r4"), "cannot be used together"),
    ],
)
def test_options_that_do_not_fit_together_are_usage_errors(
    run: Sm, peer: Peer, words: tuple[str, ...], message: str
) -> None:
    assert message in run(*words, code=2).err
    assert peer.received == []

"""`sm restore` of sessions whose descendants stay ended."""

import json
from typing import Any

from tests.cli.peer import answer
from tests.cli.samples import session
from tests.played.cli.command import Sm
from tests.played.cli.peer import Peer

LEFT = [session(f"{number}b3c4d5e") for number in range(7)]


def restored(id: str, left: list[dict[str, Any]]) -> dict[str, Any]:
    lists: dict[str, Any] = {"restored_too": [], "continued": [], "losses": [], "failed": []}
    return {**session(id, friendly_name=f"engineer-{id[0]}"), **lists, "restored": [id], "left": left}


def test_restore_names_the_first_descendants_that_stay_ended_and_the_command_for_all(
    run: Sm, peer: Peer
) -> None:
    peer.script("POST /v1/sessions/a/restore", answer(restored("a0000000", LEFT)))
    names = ", ".join(f"engineer-{number}b3c4d5e" for number in range(5))
    assert run("restore", "a").out.splitlines() == [
        "Restored engineer-a",
        f"Not restored: 7 descendants that ended with engineer-a ({names} and 2 more): sm restore engineer-a --tree",
    ]


def test_restore_names_no_descendant_that_the_same_command_restores(run: Sm, peer: Peer) -> None:
    answers = [answer(restored("a0000000", left)) for left in (LEFT[:2], LEFT[1:2])]
    peer.script("POST /v1/sessions/a/restore", *answers)
    peer.script("POST /v1/sessions/b/restore", answer(restored(LEFT[1]["session_id"], [])))
    shown = run("restore", "a", "b").out.splitlines()
    assert shown[2:] == [
        "Not restored: 1 descendant that ended with engineer-a (engineer-0b3c4d5e): sm restore engineer-a --tree"
    ]
    assert len(run("restore", "a", "b").out.splitlines()) == 2


def test_restore_as_json_has_the_descendants_that_stay_ended(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/sessions/a/restore", answer(restored("a0000000", LEFT[:1])))
    shown = json.loads(run("restore", "a", "--json").out)
    assert [s["session_id"] for s in shown["left"]] == ["0b3c4d5e"]

"""A live screen: what a terminal shows, as rows of styled text, for callers that may read it."""

import pytest

from sm.client import live_stream
from sm.client.http import Client
from sm.errors import NoTerminal, NotFound
from tests.instance import Instance
from tests.team import Team

# Draws a line in colours; draws another row for each line that it reads, and ends with the word `quit`.
DRAWS = r"""
printf '\033[2J\033[H\033[1;31mred\033[0m plain\n'
while read -r line; do
    [ "$line" = quit ] && exit 0
    printf '\033[3;1H%s' "$line"
done
"""


def text(update: live_stream.Json, row: int) -> str:
    return "".join(run[0] for shown in update["rows"] if shown["row"] == row for run in shown["runs"])


def test_screen_has_all_rows_then_the_changed_ones_until_the_agent_ends(instance: Instance) -> None:
    client = Client(str(instance.socket))
    session = instance.spawn("Sh", DRAWS)
    session_id, pane = session["session_id"], f"={session['tmux_session']}:"
    first, second = live_stream.screen(client, session_id), live_stream.screen(client, session_id)
    shown = next(first)
    while "plain" not in text(shown, 0):
        shown = next(first)
    rows = {row["row"]: row["runs"] for row in next(second)["rows"]}
    assert rows[0] == [["red", "bold fg:1"], [" plain", ""]]
    assert shown["height"] == len(rows) == 50
    instance.tmux_server.cmd("send-keys", "-t", pane, "hello", "Enter")
    for looker in (first, second):
        while "hello" not in text(changed := next(looker), 2):
            assert not changed["over"]
        assert changed["height"] == 50
        assert 0 not in [row["row"] for row in changed["rows"]]
    instance.tmux_server.cmd("send-keys", "-t", pane, "quit", "Enter")
    for looker in (first, second):
        assert [*looker][-1]["over"]
    instance.ended(session_id)
    with pytest.raises(NoTerminal):
        next(live_stream.screen(client, session_id))
    with pytest.raises(NotFound):
        next(live_stream.screen(client, "0bad0bad"))


def test_session_sees_the_screens_of_its_descendants_only() -> None:
    team = Team()
    try:
        parent = team.client("parent")
        status, code = parent.refused("GET", f"/v1/sessions/{team.ids['sibling']}/screen/stream")
        assert (status, code) == (403, "not_permitted")
        assert parent.refused("GET", f"/v1/sessions/{team.ids['direct']}/screen/stream")[0] == 404
    finally:
        team.end()

"""The frames of tabs: they lead from what was sent to the newest state, and are made only when they can be sent."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from sm.board import Board, Sort
from sm.cli.tui.cells import need_cells, need_widths, session_cells, widths_of
from sm.core.timestamps import span
from sm.feed import Mail, Outage
from sm.web.client_frames import ViewFrame
from sm.web.hub import Hub
from tests.board.samples import AT_S, earlier, message
from tests.cli.samples import request
from tests.web.board_hub import Page, answering_daemon, board_hub, board_of, row_data, tell, unlisted, update


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with board_hub(tmp_path) as hub:
        yield hub


def ids(page: Page) -> list[str]:
    return [line[0] for line in page.state["layout"]]


async def test_tab_sends_a_snapshot_and_then_only_changed_rows(hub: Hub) -> None:
    board_of(hub, [row_data("a"), row_data("b")])
    page = Page(hub)
    page.read()
    assert page.state["snapshot"]
    assert ids(page) == ["a", "b"]
    assert list(page.tab.frames(0.0)) == []
    tell(hub, update([row_data("a", note="reads")]))
    (frame,) = page.tab.frames(0.0)
    assert orjson.loads(frame)["rows"] == {"a": {"task": "reads"}}
    assert hub.rows["a"]["task"] == "reads"
    tell(hub, update([row_data("a", note="reads", last_activity_at="2026-01-27T15:11:00.000Z")]))
    assert list(page.tab.frames(0.0)) == [], "nothing that a page shows has changed"


async def test_page_that_merges_frames_has_the_state_of_the_daemon(hub: Hub) -> None:
    board_of(hub, [])
    chance = random.Random(7)
    pages = [Page(hub) for _ in range(3)]
    known: dict[str, Any] = {}
    for number in range(300):
        session_id = f"s{chance.randrange(12)}"
        if session_id in known and chance.random() < 0.2:
            del known[session_id]
            tell(hub, update([], session_id))
        else:
            status = chance.choice(["running", "idle", "waiting_input", "completed"])
            known[session_id] = row_data(
                session_id, status=status, note=str(number), cost_usd=chance.random()
            )
            tell(hub, update([known[session_id]]))
        for page in pages:
            if chance.random() < 0.3:
                page.read()
    for page in pages:
        page.read()
        assert page.state["rows"] == hub.rows
        assert page.state["rows"].keys() == known.keys()
        assert sorted(ids(page)) == sorted(known)


async def test_tab_that_reads_nothing_keeps_no_queue(hub: Hub) -> None:
    board_of(hub, [row_data(f"s{number}") for number in range(50)])
    page = Page(hub)
    page.read()
    before = page.frames
    for number in range(2000):
        tell(hub, update([row_data(f"s{number % 50}", note=f"note {number}")]))
    page.read()
    assert page.frames == before + 1
    assert page.state["rows"]["s49"]["task"] == "note 1999"


async def test_hidden_tab_gets_at_once_only_what_needs_the_person(hub: Hub) -> None:
    board_of(hub, [row_data("a")])
    page = Page(hub)
    page.read(0.0)
    page.tab.look(hidden=True)
    tell(hub, update([row_data("a", note="reads"), row_data("b")]))
    assert list(page.tab.frames(1.0)) == []
    tell(hub, Mail(requests=[request(session_id="b")]))
    (frame,) = page.tab.frames(2.0)
    assert b'"needs":[{' in frame
    assert b'"title_count":1' in frame
    assert b'"rows":{}' in frame
    assert list(page.tab.frames(9.0)) == []
    assert page.read(10.0)["rows"]["a"]["task"] == "reads", "all news comes now and then"
    tell(hub, update([], "b"))
    assert list(page.tab.frames(11.0)) == []
    page.tab.look(hidden=False)
    assert page.read(11.0)["rows"].keys() == {"a"}, "and as soon as the tab is shown"


async def test_hidden_tab_is_told_that_the_daemon_is_gone(hub: Hub) -> None:
    board_of(hub, [row_data("a")])
    page = Page(hub)
    page.read(0.0)
    page.tab.look(hidden=True)
    tell(hub, Outage("gone"))
    assert page.read(1.0)["lost_reason"] == "gone"


async def test_large_board_comes_in_parts(hub: Hub) -> None:
    board_of(hub, [row_data(f"s{number}", name="宽" * 200) for number in range(1000)])
    page = Page(hub)
    parts = list(page.tab.frames(0.0))
    assert len(parts) == 5
    assert max(map(len, parts)) < 600_000
    assert [b'"more":true' in part for part in parts] == [True] * 4 + [False]
    assert [b'"snapshot":true' in part for part in parts] == [True] + [False] * 4
    assert [b'"layout"' in part for part in parts] == [False] * 4 + [True]


async def test_rows_keep_their_places_until_the_tab_rests(hub: Hub) -> None:
    board_of(hub, [row_data("a"), row_data("b")])
    page = Page(hub)
    page.tab.show(ViewFrame(t="view", sort=Sort.NEEDS_ME))
    page.tab.rest(rests=False)
    page.read()
    tell(hub, update([row_data("b", status="waiting_input"), row_data("c")], "a"))
    page.read()
    assert ids(page) == ["a", "b"]
    assert page.state["gone"] == ["a"]
    assert page.state["waiting"] == 1
    page.tab.rest(rests=True)
    page.read()
    assert ids(page) == ["b", "c"]
    assert page.state["waiting"] == 0


async def test_tab_places_the_rows_of_the_chosen_workspace(hub: Hub) -> None:
    rows = [row_data("a", workspace="shop"), row_data("b"), row_data("c", workspace="old")]
    board_of(hub, rows, request(session_id="a"), workspaces=("shop", "empty"))
    page = Page(hub)
    for slug, placed in (("", ["a", "b", "c"]), ("empty", []), ("shop", ["a"])):
        page.tab.show(ViewFrame(t="view", workspace=slug))
        page.read()
        assert (page.state["workspace"], ids(page)) == (slug, placed)
    assert page.state["rows"].keys() == {"a", "b", "c"}
    assert [(chip["title"], chip["key"], chip["count"], chip["needs"]) for chip in page.state["chips"]] == [
        ("All", "0", 3, 1),
        ("empty", "1", 0, 0),
        ("shop", "2", 1, 1),
    ]
    tell(hub, Mail(workspaces=("empty",)))
    page.read()
    assert (page.state["workspace"], ids(page)) == ("", ["a", "b", "c"]), "the workspace was deleted"


async def test_tab_shows_archived_sessions_only_if_it_asks_for_them(hub: Hub) -> None:
    rows = [row_data("a"), row_data("b", parent_session_id="c", workspace="shop")]
    board_of(hub, rows, workspaces=("shop",))
    plain, both = Page(hub), Page(hub)
    plain.read()
    both.tab.show(ViewFrame(t="view", archived=True))
    assert both.read()["loading"]
    hidden = row_data("c", archived=True, workspace="shop", status="completed")
    tell(hub, update([*rows, hidden], snapshot=True))
    both.read()
    assert (both.state["loading"], ids(both), both.state["rows"].keys()) == (
        False,
        ["a", "c", "b"],
        {"a", "b", "c"},
    )
    before = plain.frames
    plain.read()
    assert plain.frames == before, "nothing that the tab shows has changed"
    assert [chip["count"] for chip in both.state["chips"]] == [2, 1]
    tell(hub, update([{**rows[0], "archived": True}]))
    plain.read()
    both.read()
    assert (plain.state["gone"], ids(plain), ids(both)) == (["a"], ["b"], ["a", "c", "b"])
    both.tab.show(ViewFrame(t="view"))
    assert both.read()["rows"].keys() == {"b"}


async def test_tab_says_how_many_sessions_that_it_may_show_ended_earlier(hub: Hub) -> None:
    board_of(hub, [row_data("a", archived=True)], workspaces=("shop",))
    plain, both = Page(hub), Page(hub)
    assert plain.read()["earlier"] == ""
    both.tab.show(ViewFrame(t="view", archived=True))
    both.read()
    frames = plain.frames
    tell(hub, update(earlier=[earlier(3), earlier(4, "shop"), earlier(5, archived=True)]))
    assert plain.read()["earlier"] == "7 sessions ended earlier"
    assert both.read()["earlier"] == "12 sessions ended earlier"
    assert plain.frames == frames + 1
    plain.tab.show(ViewFrame(t="view", workspace="shop", filter="x"))
    assert plain.read()["earlier"] == "The filter does not search 4 sessions that ended earlier"


async def test_view_belongs_to_its_tab(hub: Hub) -> None:
    board_of(hub, [row_data("a", name="zebra"), row_data("b", name="ant", parent_session_id="a")])
    one, two = Page(hub), Page(hub)
    one.tab.show(ViewFrame(t="view", sort=Sort.NAME, filter="cost:"))
    two.tab.show(ViewFrame(t="view", folded=["a"]))
    one.read()
    two.read()
    assert ids(one) == ["b", "a"]
    assert one.state["filter_problems"] == ["cost: needs an amount in dollars, such as >1"]
    assert two.state["layout"] == [["a", "", 1, 0, 1]]
    one.tab.show(ViewFrame(t="view", filter="zebra"))
    one.read()
    assert ids(one) == ["a"]


async def test_lost_daemon_is_told_and_comes_back(hub: Hub) -> None:
    board_of(hub, [row_data("a")])
    page = Page(hub)
    assert page.read()["lost_since"] is None
    tell(hub, Outage("no daemon is running"))
    page.read()
    assert page.state["lost_reason"] == "no daemon is running"
    since_s = page.state["lost_since"]
    assert isinstance(since_s, float)
    assert since_s >= AT_S
    assert page.state["rows"].keys() == {"a"}
    tell(hub, update([row_data("a", note="back")]))
    page.read()
    assert page.state["lost_since"] is None
    assert page.state["rows"]["a"]["task"] == "back"


async def test_tab_says_what_it_cannot_show_until_it_is_shown(hub: Hub) -> None:
    board_of(hub, [row_data("a")])
    page = Page(hub)
    assert page.read()["unshown"] == ""
    odd = {name: value for name, value in row_data("b").items() if name != "tree"}
    hub._feed._tell(update([odd]))
    assert page.read()["unshown"] == "cannot show all sessions (KeyError: 'tree')"
    late = Page(hub)
    assert late.read()["rows"].keys() == {"a"}
    hub._feed._tell(update([row_data("c")]))
    assert page.read()["rows"].keys() == {"a", "c"}
    hub._feed._tell(update([row_data("a"), row_data("b")], snapshot=True))
    assert page.read()["unshown"] == ""
    assert page.state["rows"].keys() == {"a", "b"}


async def test_request_that_somebody_answered_is_told_once(hub: Hub) -> None:
    board_of(hub, [row_data("a")], request(57, session_id="a"), request(58, session_id="a"))
    page = Page(hub)
    page.read()
    tell(hub, Mail(requests=[request(58, session_id="a")]))
    assert page.tab.newly_settled() == ["r57"]
    assert page.tab.newly_settled() == []
    assert Page(hub).tab.newly_settled() == []


async def test_selected_session_that_is_not_in_the_list_is_read(hub: Hub, tmp_path: Path) -> None:
    page = Page(hub)
    page.tab.select("old")
    assert not page.tab.lacks_selected(1.0), "the list is not read yet"
    board_of(hub, [row_data("a")])
    async with answering_daemon(tmp_path, unlisted("old")):
        assert page.tab.lacks_selected(1.0)
        await page.tab.read_selected(1.0)
        assert not page.tab.lacks_selected(5.9)
        assert page.tab.lacks_selected(6.0), "nobody tells of a change"
        shown = page.read()
        assert shown["rows"].keys() == {"a"}
        row = shown["detail"]["row"]
        assert (row["id"], row["word"], row["task"]) == ("old", "completed", '1 failed, 2 done; "it works"')
        assert shown["detail"]["actions"]["rm"]["refusal"] is None
        page.tab.select("none")
        await page.tab.read_selected(7.0)
        detail = page.read()["detail"]
        assert (detail["session"], detail["row"], detail["problem"]) == ("none", None, "no such session")
    page.tab.read_again()
    await page.tab.read_selected(8.0)
    assert page.tab.lacks_selected(8.1), "the daemon is away"
    page.tab.select("a")
    assert not page.tab.lacks_selected(9.0)
    assert "row" not in page.read()["detail"]


async def test_action_during_the_read_of_a_selected_session_leads_to_another_read(
    hub: Hub, tmp_path: Path
) -> None:
    board_of(hub, [row_data("a")])
    page = Page(hub)
    async with answering_daemon(tmp_path, unlisted("old")):
        page.tab.select("old")
        reading = asyncio.create_task(page.tab.read_selected(1.0))
        await asyncio.sleep(0)
        page.tab.read_again()
        assert not page.tab.lacks_selected(1.0), "one read at a time"
        await reading
        assert page.tab.lacks_selected(1.0)


async def test_session_that_leaves_the_list_is_read_at_once(hub: Hub, tmp_path: Path) -> None:
    page = Page(hub)
    board_of(hub, [row_data("a")])
    async with answering_daemon(tmp_path, unlisted("old")):
        page.tab.select("old")
        await page.tab.read_selected(1.0)
        board_of(hub, [row_data("old")])
        assert "row" not in page.read(1.5)["detail"]
        board_of(hub, [row_data("a")])
        assert page.tab.lacks_selected(2.0)


async def test_hostile_words_are_shown_as_signs(hub: Hub) -> None:
    hostile = "<img src=x onerror=alert(1)>\x1b[31m\u202eevil\x00\n"
    row = row_data("a", name=hostile, note=hostile, title=hostile, model=hostile, status="waiting_input")
    arguments = {"command": hostile, hostile: hostile}
    asked = request(
        session_id="a", label=hostile, kind="permission", tool=hostile, arguments=arguments, questions=[]
    )
    board_of(hub, [row], asked)
    page = Page(hub)
    page.tab.select("a")
    page.read()
    text = repr(page.state)
    assert "<img" in text, "the page makes text nodes"
    for character in ("\\x1b", "\\u202e", "\\x00"):
        assert character not in text


async def test_both_views_show_the_same_rows_in_the_same_order_with_the_same_words(hub: Hub) -> None:
    rows = [
        row_data(
            "a",
            name="lead",
            workspace="shop",
            tree={"sessions": 3, "live": 2, "tokens": None, "cost_usd": 2.5},
        ),
        row_data("b", name="waits", parent_session_id="a", status="waiting_input", status_reason="Bash ls"),
        row_data("c", name="asks", parent_session_id="a", open_requests=["r57"], todo_done=3, todo_total=5),
        row_data("d", name="done", status="completed", completion_message="it works", cost_usd=None),
        row_data("e", name="stale", status_stale=True, effective_mode="direct", trust_level="sandboxed"),
        row_data(
            "f", name="idle", status="idle", messages_held=2, context_percent=90, model=None, tokens=None
        ),
    ]
    board_of(hub, rows, request(57, session_id="c"))
    tell(
        hub,
        Mail(
            requests=[request(57, session_id="c")],
            messages=[message(3, "failed", created_at="2026-01-27T15:09:00Z")],
        ),
    )
    now_s = AT_S + 250
    for sort in Sort:
        page = Page(hub)
        view = ViewFrame(t="view", sort=sort)
        page.tab.show(view)
        page.read()
        top = Board(hub.situation.table)
        top.sort_by(view.sort, 0.0)
        assert [(line.row.id, line.branch) for line in top.lines] == [
            (line[0], line[1]) for line in page.state["layout"]
        ]
        for line in top.lines:
            cells = session_cells(line, widths_of(200), now_s, state="", fresh=True)
            text = "".join(cell for cell, _ in cells)
            row = page.state["rows"][line.row.id]
            words = [row["sign"], row["label"], f"{row['word']} {span(now_s - row['since'])}", row["task"]]
            words += [
                row["cost"],
                row["context"],
                row["progress"],
                row["tokens"],
                row["model"],
                row["tree_cost"],
            ]
            words += row["badges"]
            missing = [word for word in words if word not in text]
            assert not missing, (missing, text)
    assert [need["key"] for need in page.state["needs"]] == [need.key for need in hub.situation.found]
    for need, fields in zip(hub.situation.found, page.state["needs"], strict=True):
        text = "".join(
            cell for cell, _ in need_cells(need, need_widths(200, [need]), now_s, state="", fresh=True)
        )
        assert fields["text"] in text
        assert fields["label"] in text

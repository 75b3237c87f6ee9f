"""Actions of browsers: the scope of the login, the words that the person saw, and the state of the session."""

import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sm.board import ACTIONS
from sm.client.http import DaemonAway
from sm.errors import IllegalState, NotFound, NotPermitted, ShownChanged, SmError, UsageError
from sm.feed import Mail, Outage
from sm.web.acts import Acts, error_fields
from sm.web.client_frames import ActFrame
from sm.web.daemon_link import DaemonLink
from sm.web.hub import Hub
from sm.web.logins import WebScope, scope_of
from tests.board.samples import message
from tests.cli.samples import request
from tests.web.board_hub import Page, answering_daemon, board_hub, board_of, row_data, tell, unlisted, update


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with board_hub(tmp_path) as hub:
        board_of(hub, [row_data("a"), row_data("z", status="completed")], request(57, session_id="a"))
        yield hub


@pytest.fixture
async def link(tmp_path: Path) -> AsyncIterator[DaemonLink]:
    """Without a daemon: an action that is allowed raises DaemonAway."""
    link = DaemonLink(str(tmp_path / "sm.sock"))
    yield link
    await link.close()


async def keep(session_id: str, name: object) -> Mapping[str, str]:
    """Keeps the state that a list of changes shows."""
    if name != "shown":
        raise IllegalState("these changes are not up to date any more")
    return {"tree": "b" * 40, "head": "", "base": "a" * 40}


async def refusal(hub: Hub, link: DaemonLink, page: Page, action: str, **fields: Any) -> SmError:
    with pytest.raises(SmError) as raised:
        await Acts(hub, link, keep, page.tab).carry_out(ActFrame(t="act", n=1, action=action, **fields))
    return raised.value


def seen(hub: Hub, scope: WebScope = WebScope.ALL) -> Page:
    """A page that has shown the board for a while."""
    page = Page(hub, scope)
    page.read(time.monotonic() - 10)
    return page


SHOWN = f"{57:032x}"


@pytest.mark.parametrize("scope", list(WebScope))
@pytest.mark.parametrize("action", [name for name, action in ACTIONS.items() if action.call is not None])
async def test_scope_decides_about_each_action(
    hub: Hub, link: DaemonLink, scope: WebScope, action: str
) -> None:
    error = await refusal(hub, link, seen(hub, scope), action, session="a", need="r57", shown=SHOWN, text="x")
    is_refused = isinstance(error, NotPermitted)
    assert is_refused is not scope.includes(scope_of(action))
    assert not is_refused or "scope" in error.message


@pytest.mark.parametrize("action", ["approve", "deny", "answer"])
async def test_decision_is_bound_to_the_shown_words(hub: Hub, link: DaemonLink, action: str) -> None:
    page = seen(hub)
    for shown in (None, "", "0" * 32, SHOWN.upper().replace("0", "f")):
        error = await refusal(hub, link, page, action, need="r57", shown=shown)
        assert isinstance(error, ShownChanged), shown
    assert isinstance(await refusal(hub, link, page, action, need="r57", shown=SHOWN), DaemonAway)
    tell(hub, Mail(requests=[request(57, session_id="a", digest="e" * 32)]))
    assert isinstance(await refusal(hub, link, page, action, need="r57", shown=SHOWN), ShownChanged)
    error = await refusal(hub, link, page, action, need="r57", shown="e" * 32)
    assert isinstance(error, ShownChanged), "the tab has not shown the new words yet"
    page.read(time.monotonic() - 10)
    assert isinstance(await refusal(hub, link, page, action, need="r57", shown="e" * 32), DaemonAway)


async def test_decision_is_too_early_when_the_request_has_just_appeared(hub: Hub, link: DaemonLink) -> None:
    page = Page(hub)
    page.read(time.monotonic() + 1000)  # as if the clock stood still
    error = await refusal(hub, link, page, "approve", need="r57", shown=SHOWN)
    assert error.message.startswith("too early")


async def test_decision_needs_a_request_that_is_open(hub: Hub, link: DaemonLink) -> None:
    page = seen(hub)
    assert isinstance(await refusal(hub, link, page, "approve", session="a"), UsageError)
    tell(hub, Mail())
    error = await refusal(hub, link, page, "approve", need="r57", shown=SHOWN)
    assert isinstance(error, IllegalState)
    assert error.message == "r57 is no longer open"


async def test_action_that_the_board_refuses_does_not_reach_the_daemon(hub: Hub, link: DaemonLink) -> None:
    page = seen(hub)
    assert (await refusal(hub, link, page, "archive", session="a")).message.endswith("engineer-a is live")
    assert isinstance(await refusal(hub, link, page, "kill", session="none"), DaemonAway), (
        "it may be an old one"
    )
    assert isinstance(await refusal(hub, link, page, "archive", session="z"), DaemonAway)


async def test_nothing_is_done_while_the_daemon_is_away(hub: Hub, link: DaemonLink) -> None:
    page = seen(hub)
    tell(hub, Outage("gone"))
    error = await refusal(hub, link, page, "kill", session="a")
    assert isinstance(error, IllegalState)
    assert "no daemon" in error.message
    tell(hub, update([]))
    assert isinstance(await refusal(hub, link, page, "kill", session="a"), DaemonAway)


@pytest.mark.parametrize("action", ["attach", "copy-id", "why", "output", "none", "__class__", ""])
async def test_action_without_a_request_is_not_for_browsers(hub: Hub, link: DaemonLink, action: str) -> None:
    assert isinstance(await refusal(hub, link, seen(hub), action, session="a"), UsageError)


@pytest.mark.parametrize(
    "fields", [{"text": 1}, {"tree": "yes"}, {"answers": "x"}, {"path": "/v1/daemon/stop"}]
)
async def test_input_with_another_type_is_refused(hub: Hub, link: DaemonLink, fields: dict[str, Any]) -> None:
    error = await refusal(hub, link, seen(hub), "kill", session="a", **fields)
    assert isinstance(error, UsageError)


async def test_action_without_a_session_is_for_a_workspace_that_exists(hub: Hub, link: DaemonLink) -> None:
    page = seen(hub)
    agent = {"fields": {"agent_type": " Engineer ", "working_dir": "~"}}
    assert isinstance(await refusal(hub, link, page, "spawn", **agent), DaemonAway)
    assert isinstance(await refusal(hub, link, page, "spawn", workspace="none", **agent), NotFound)
    error = await refusal(hub, link, page, "spawn", fields={"agent_type": "Engineer", "working_dir": "here"})
    assert isinstance(error, UsageError)
    assert error.message.startswith("Directory: an absolute path is needed")
    tell(hub, update([], snapshot=True))
    error = await refusal(hub, link, page, "broadcast", fields={"text": "pull"})
    assert error.message == "not possible: there is no live session"


@pytest.mark.parametrize(
    ("action", "fields", "problem"),
    [
        ("spawn", {"agent_type": " "}, "a value is missing: Agent type"),
        ("rename", {"name": "x", "to": "y"}, "rename has no field 'to'"),
        ("kill", {"name": "x"}, "kill has no field 'name'"),
        ("spawn", {"agent_type": "Engineer", "pr": "9" * 5000}, "Pull request: a number is needed"),
        ("spawn", {"agent_type": "Engineer", "place": "/"}, "Works in: there is no such choice"),
        ("fork", {"name": 1}, "fields.name: Input should be a valid string"),
    ],
)
async def test_values_of_fields_are_checked(
    hub: Hub, link: DaemonLink, action: str, fields: dict[str, Any], problem: str
) -> None:
    error = await refusal(hub, link, seen(hub), action, session="a", fields=fields)
    assert isinstance(error, UsageError)
    assert error.message == problem


def test_refusal_names_the_field_of_the_form_that_it_is_about() -> None:
    error = UsageError("branch main is checked out in /w", "choose another branch: --branch NAME")
    assert error_fields(error, "spawn")["field"] == "branch"
    assert error_fields(error, "rename")["field"] == error_fields(error)["field"] == ""


async def test_session_with_a_worktree_is_not_deleted_in_a_browser(hub: Hub, link: DaemonLink) -> None:
    tree = {"path": "/w/.sm/worktrees/x", "branch": "sm/x"}
    over = {"status": "completed", "exit_code": 0}
    board_of(hub, [row_data("y", **over), row_data("z", **over, worktree=tree)])
    page = seen(hub)
    assert isinstance(await refusal(hub, link, page, "rm", session="y"), DaemonAway)
    error = await refusal(hub, link, page, "rm", session="z")
    assert isinstance(error, IllegalState)
    assert error.message.endswith("only the command removes: sm rm z")


@pytest.mark.parametrize("action", ["spawn", "broadcast", "fork", "reparent", "rename", "rm", "workspace"])
def test_action_that_changes_the_team_needs_the_largest_scope(action: str) -> None:
    assert scope_of(action) is WebScope.ALL


async def test_unread_message_to_the_operator_is_marked_as_read(hub: Hub, link: DaemonLink) -> None:
    unread = message(12, "queued", session_id=None, label="operator", text="done", **{"from": "a"})
    tell(hub, Mail(messages=[unread]))
    page = seen(hub)
    (need,) = page.state["needs"]
    assert (need["key"], need["text"], need["actions"]) == ("message 12", "to you: done", {"read": None})
    assert isinstance(await refusal(hub, link, page, "read", need="message 12"), DaemonAway)
    error = await refusal(hub, link, page, "read", session="a")
    assert error.message.endswith("select a message to you")


async def test_action_is_taken_back_before_its_effect_is_shown(
    hub: Hub, link: DaemonLink, tmp_path: Path
) -> None:
    answers = {f"/v1/sessions/z/{action}": dict[str, Any]() for action in ("archive", "unarchive")}
    async with answering_daemon(tmp_path, answers) as asked:
        acts = Acts(hub, link, keep, seen(hub).tab)
        for action in (
            "archive",
            "unarchive",
        ):  # no news in between: the row still says that it is not archived
            await acts.carry_out(ActFrame(t="act", n=1, action=action, session="z"))
    assert asked == [*answers]


async def test_session_that_is_not_in_the_list_is_read_for_an_action(
    hub: Hub, link: DaemonLink, tmp_path: Path
) -> None:
    answers = {**unlisted("old"), "/v1/sessions/old/remove": {}}
    page = seen(hub)
    async with answering_daemon(tmp_path, answers) as asked:
        error = await refusal(hub, link, page, "kill", session="old")
        assert error.message == "not possible: the process of engineer-old has ended"
        assert isinstance(await refusal(hub, link, page, "kill", session="none"), NotFound)
        asked.clear()
        await Acts(hub, link, keep, page.tab).carry_out(ActFrame(t="act", n=1, action="rm", session="old"))
    assert asked == [*answers]


async def test_denial_with_drafts_keeps_what_was_reviewed_and_sends_both_at_once(
    hub: Hub, link: DaemonLink, tmp_path: Path
) -> None:
    board_of(hub, [row_data("a")], request(58, session_id="a", kind="completion"))
    page, bodies = seen(hub), list[Any]()
    fields: dict[str, Any] = {"need": "r58", "shown": f"{58:032x}", "drafts": [3, 4], "text": "not yet"}
    async with answering_daemon(tmp_path, {"/v1/sessions/a/review/deny": {}}, bodies=bodies) as asked:
        for changes in ("shown", ""):
            frame = ActFrame(t="act", n=1, action="deny", changes=changes, **fields)
            done = await Acts(hub, link, keep, page.tab).carry_out(frame)
            assert done.words == "done: sm deny r58 --review"
        error = await refusal(hub, link, page, "deny", changes="an older list", **fields)
    assert "not up to date" in error.message
    assert asked == ["/v1/sessions/a/review/deny"] * 2
    body = {"request": "r58", "shown": f"{58:032x}", "ids": [3, 4], "text": "not yet"}
    assert bodies == [{**body, "tree": "b" * 40, "head": "", "base": "a" * 40}, body]


async def test_browser_names_no_object_of_git_in_a_denial(hub: Hub, link: DaemonLink) -> None:
    error = await refusal(
        hub, link, seen(hub), "deny", need="r57", shown=SHOWN, drafts=[3], reviewed={"tree": "b" * 40}
    )
    assert (type(error), error.message) == (UsageError, "unknown fields: reviewed")


async def test_rule_that_is_written_is_the_line_that_the_person_saw(
    hub: Hub, link: DaemonLink, tmp_path: Path
) -> None:
    asked = request(58, session_id="a", kind="permission", questions=[], always="- the line now")
    board_of(hub, [row_data("a")], asked)
    page, bodies = seen(hub), list[Any]()
    fields: dict[str, Any] = {"need": "r58", "text": "- the line that was shown"}
    async with answering_daemon(tmp_path, {"/v1/requests/r58/rule": {}}, bodies=bodies):
        frame = ActFrame(t="act", n=1, action="always", shown=f"{58:032x}", **fields)
        await Acts(hub, link, keep, page.tab).carry_out(frame)
        error = await refusal(hub, link, page, "always", shown="0" * 32, **fields)
        assert isinstance(error, ShownChanged)
        for scope in (WebScope.LOOK, WebScope.ANSWER):
            error = await refusal(hub, link, seen(hub, scope), "always", shown=f"{58:032x}", **fields)
            assert isinstance(error, NotPermitted)
    assert bodies == [{"line": "- the line that was shown"}]

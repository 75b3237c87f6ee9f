"""All equal requests are answered together in `sm top`, after a list of them."""

import asyncio
from collections.abc import Iterator

import pytest

from sm.cli.tui.screens import TextPage
from tests.cli.tui.view import top
from tests.integration.played_claude import Dialog, Stage
from tests.waits import until_async


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as found:
        yield found


def dialogs(stage: Stage, *commands: str) -> list[Dialog]:
    return [stage.agent().open_dialog("Bash", {"command": command}) for command in commands]


async def take(found: list[Dialog]) -> list[str]:
    """The decisions that the agents get, one after the other. An allowed tool ends then."""

    def decision(dialog: Dialog) -> str:
        dialog.start_wait()
        taken = dialog.take_decision()["hookSpecificOutput"]["decision"]
        if taken["behavior"] == "allow":
            dialog.agent.end_tool(dialog)
        return str(taken["behavior"])

    return [await asyncio.to_thread(decision, dialog) for dialog in found]


def answers(found: list[Dialog]) -> list[object]:
    return [dialog.request["answer"] and dialog.request["answer"]["approved"] for dialog in found]


async def test_equal_requests_are_approved_together_after_their_list_is_shown(stage: Stage) -> None:
    *equal, other = dialogs(stage, "npm test", "npm test", "npm test", "make")
    names = [dialog.name for dialog in equal]
    async with top(stage, (100, 30)) as view:
        await view.until(lambda: len(view.app.found) == 4, "four requests")
        await view.select_request(other.name)
        await view.hides("equal")
        await view.press("=")
        await view.shows("not possible: no other open request asks for the same")
        await view.select_request(names[1])
        await view.shows("a: approve  d: deny  =: all 3 equal")
        await view.press("=")
        await view.shows("3 equal requests (Esc: back)", "npm test", "a: approve all 3", *names)
        assert f"  {other.name}" not in view.text()
        assert answers(equal) == [None] * 3

        async def has_pressed() -> bool:
            await view.press("a")  # dead in the first moment
            return not isinstance(view.app.screen, TextPage)

        await until_async(has_pressed, "the page is closed")
        assert await take(equal) == ["allow"] * 3
        await view.shows("approved: 3 of 3")
    assert answers([*equal, other]) == [True, True, True, None]


async def test_equal_requests_are_denied_together_with_a_reason(stage: Stage) -> None:
    equal = dialogs(stage, "npm test", "npm test")
    async with top(stage, (100, 30)) as view:
        await view.until(lambda: len(view.app.found) == 2, "two requests")
        await view.select_request(equal[0].name)
        await view.press("=")
        await view.shows("2 equal requests (Esc: back)")

        async def has_pressed() -> bool:
            await view.press("d")
            return not isinstance(view.app.screen, TextPage)

        await until_async(has_pressed, "the page is closed")
        await view.shows("Deny 2 requests. Reason, may be empty:")
        await view.press(*"no", "enter")
        assert await take(equal) == ["deny"] * 2
        await view.shows("denied: 2 of 2")
    found = [dialog.request["answer"] for dialog in equal]
    assert [(answer["approved"], answer["message"]) for answer in found] == [(False, "no")] * 2

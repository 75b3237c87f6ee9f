"""The pure readers on the recordings of the real claude: each prompt, dialog, screen, title and state is understood."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import pytest

from sm.core.observation import Activity
from sm.core.states import RequestKind
from sm.core.text import MARK
from sm.providers.claude.decisions import read_dialog
from sm.providers.claude.hooks import EVENTS, read_hook
from sm.providers.claude.pasted_text import accepted_form
from sm.providers.claude.permissions import canonical
from sm.providers.claude.screen import Obstacle, State, find_start_dialog, read_end, read_screen, read_title
from sm.providers.claude.state import ClaudeStateReader
from sm.providers.readers import AcceptedInput, HookEvent
from tests.record.placeholders import compact
from tests.record.readings import AT, PROCESS, deltas
from tests.record.recording import Scene, read, versions

OLD = "2.1.197"

IDLE, WORKING = State.IDLE, State.WORKING
STATES: Mapping[str, Mapping[str, State]] = {
    "api-error": {"error 1": IDLE, "error 2": IDLE, "error 3": IDLE},
    "api-key": {"api key": State.BLOCKED},
    "bypass-warning": {"bypass warning": State.BLOCKED},
    "clear": {"cleared": IDLE},
    "compact": {"compacted": IDLE},
    "draft": {"draft": IDLE, "put aside": IDLE, "shell mode": IDLE, "command list": IDLE},
    "exit": {"ended": State.EXITED},
    "fork": {"forked": IDLE},
    "interrupt": {
        "streaming": WORKING,
        "stopped in a text": IDLE,
        "running a tool": WORKING,
        "stopped in a tool": IDLE,
        "stopped before the first word": IDLE,
    },
    "kill": {"ended": State.EXITED},
    "no-login": {"idle": State.BLOCKED, "refused": State.BLOCKED},
    "modes": dict.fromkeys(("after 1", "after 2", "after 3"), IDLE),
    "paste": {"folded": IDLE},
    "permission": {"permission to run": State.PERMISSION, "after both": IDLE},
    "permission-at-the-terminal": {
        "permission to write": State.PERMISSION,
        "permission to fetch": State.PERMISSION,
        "refused": IDLE,
    },
    "plan": {"plan mode": IDLE, "plan": State.PERMISSION, "after the plan": IDLE},
    "question": {"question": State.QUESTION, "two questions": State.QUESTION, "answered": IDLE},
    "queue": {"queued": WORKING, "read between": IDLE},
    "recall": {"recalled": WORKING},
    "resume": {"resumed": IDLE},
    "retry": {"retrying": WORKING},
    "shell": {"one shell": IDLE, "ended": IDLE},
    "start": {"idle": IDLE},
    "start-with-prompt": {"working": WORKING, "answered": IDLE},
    "sub-agent": {"working": WORKING, "ended": IDLE},
    "text": {"answered": IDLE},
    "theme": {"theme": State.BLOCKED},
    "tools": {"used": IDLE},
    "trust": {"trust": State.BLOCKED},
    "unknown-option": {"ended": State.EXITED},
    "urgent": {"answered": IDLE},
    "usage-limit": {"usage limit": State.DIALOG, "after Escape": IDLE},
}
"""The state that each screen shows. `menus` and `views` are dialogs, but for those that only print a text."""
NEWER: Mapping[str, Mapping[str, State]] = {"sub-agent": {"working": IDLE, "ended": IDLE}}
"""The same since sub-agents run in the background by default."""
PRINTED = frozenset({"mcp", "agents", "tasks", "shortcuts"})
"""Views of `menus` and `views` that are no dialog in some version: they print a text or change the footer."""
UNREAD = frozenset({(OLD, "menus", "config"), (OLD, "menus", "resume")})
"""Tall menus of a session with a name. The state file says `waiting`, so sm types nothing into them."""
OBSTACLES: Mapping[tuple[str, str], Obstacle] = {
    ("api-error", "error 3"): Obstacle.BAD_MODEL,
    ("api-key", "api key"): Obstacle.API_KEY,
    ("bypass-warning", "bypass warning"): Obstacle.BYPASS_WARNING,
    ("no-login", "idle"): Obstacle.LOGIN,
    ("no-login", "refused"): Obstacle.LOGIN,
    ("theme", "theme"): Obstacle.ONBOARDING,
    ("unknown-option", "ended"): Obstacle.UNKNOWN_OPTION,
    ("trust", "trust"): Obstacle.TRUST,
}
DIALOGS: Mapping[str, Sequence[tuple[RequestKind, str]]] = {
    "permission": [(RequestKind.PERMISSION, "Bash")] * 2,
    "permission-at-the-terminal": [(RequestKind.PERMISSION, "Write"), (RequestKind.PERMISSION, "WebFetch")],
    "question": [(RequestKind.QUESTION, "AskUserQuestion")] * 2,
    "plan": [(RequestKind.PERMISSION, "ExitPlanMode")] * 2,
}
MODES = {"plan": {"plan"}, "permission": {"default"}, "tools": {"acceptEdits"}}
"""The permission modes that hooks report in a scene; those after an approved plan are left out."""
WAITING = frozenset({State.PERMISSION, State.QUESTION, State.DIALOG})
STATE_FILE = {IDLE: Activity.IDLE, WORKING: Activity.BUSY, **dict.fromkeys(WAITING, Activity.BLOCKED)}

pytestmark = pytest.mark.parametrize("version", versions())


@cache
def recorded(version: str) -> dict[str, Scene]:
    return read(version)


def views(version: str, *scenes: str) -> Iterator[tuple[str, str, Any]]:
    """The views with the names of their scenes and their own."""
    for scene in scenes or recorded(version):
        for view in recorded(version)[scene]["views"]:
            yield scene, view["name"], view


def accepted(scene: Scene) -> tuple[list[AcceptedInput], list[AcceptedInput]]:
    """The accepted texts by the hooks and by the transcripts of a scene."""
    hooked = [read_hook(hook, AT, expects_turn=False).accepted for hook in scene["hooks"]]
    written = [
        text
        for file in scene["transcripts"]
        if file["of"] == "main"
        for delta in deltas(file)
        for text in delta.accepted
    ]
    return [text for text in hooked if text is not None], written


def expected_states(version: str, scene: str) -> Mapping[str, State]:
    return NEWER.get(scene, STATES[scene]) if version != OLD else STATES[scene]


def test_each_screen_is_read_as_what_it_shows(version: str) -> None:
    for scene in STATES:
        expected = expected_states(version, scene)
        seen = {
            (name, view["size"]): read_screen(view["screen"]).state for _, name, view in views(version, scene)
        }
        assert seen == {(name, size): expected[name] for name, size in seen}, scene
        assert {name for name, _ in seen} == set(expected), scene


def test_each_menu_is_read_as_a_dialog(version: str) -> None:
    for scene, name, view in views(version, "menus", "views"):
        state = read_screen(view["screen"]).state
        allowed = {State.DIALOG} | ({IDLE} if name in PRINTED else set())
        assert state in allowed or (version, scene, name) in UNREAD, name


def test_unknown_screens_are_the_listed_ones_and_their_state_file_tells(version: str) -> None:
    unknown = [
        (version, scene, name, view["state"])
        for scene, name, view in views(version)
        if read_screen(view["screen"]).state is State.UNKNOWN
    ]
    assert {about[:3] for about in unknown} == {about for about in UNREAD if about[0] == version}
    assert all(state["status"] == "waiting" for *_, state in unknown)


def test_each_obstacle_is_recognized(version: str) -> None:
    seen = {(scene, name): read_screen(view["screen"]).obstacle for scene, name, view in views(version)}
    assert {about: obstacle for about, obstacle in seen.items() if obstacle} == OBSTACLES
    for scene in ("trust", "bypass-warning"):
        assert all(find_start_dialog(view["screen"]) for _, _, view in views(version, scene)), scene
    ((_, _, ended),) = views(version, "unknown-option")
    assert read_end(ended["screen"]).obstacle is Obstacle.UNKNOWN_OPTION
    limits = {name for _, name, view in views(version) if read_screen(view["screen"]).usage_limit}
    assert limits == {"usage limit"}


def test_screen_title_and_state_file_agree(version: str) -> None:
    for scene, name, view in views(version):
        screen = read_screen(view["screen"])
        title, about = read_title(view["title"]), (scene, name, view["size"])
        if view["state"] is None:
            assert screen.state in (State.EXITED, State.BLOCKED), about
            continue
        published = ClaudeStateReader().state(compact(view["state"]).encode(), PROCESS)
        assert published is not None, about
        if scene == "sub-agent" and version != OLD:
            assert (title, published.activity) == (WORKING, Activity.BUSY) or name == "ended", about
            continue
        if screen.state in STATE_FILE and scene not in ("menus", "views"):
            assert published.activity is STATE_FILE[screen.state], about
        if title is not None:
            assert (title is WORKING) == (screen.state is WORKING), about


def test_each_prompt_is_accepted_with_its_own_text(version: str) -> None:
    for name, scene in recorded(version).items():
        said = [accepted_form(text) for text in scene["said"]]
        hooked, written = accepted(scene)
        for texts in (hooked, written):
            entered = [accepted_form(text.text) for text in texts if text.text and not text.command]
            assert [text for text in entered if text not in said and not is_own(text)] == [], name
        for texts, own in ((written, [text for text in said if MARK in text]), ([*hooked, *written], said)):
            seen = {accepted_form(text.text) for text in texts}
            assert [text for text in own if text not in seen] == [], name


def is_own(text: str) -> bool:
    """A text that claude itself enters: the end of background work."""
    return text.startswith("<task-notification>")


def test_message_to_a_busy_claude_is_queued_and_then_entered(version: str) -> None:
    _, written = accepted(recorded(version)["queue"])
    for text in ("later1 [[text:yes]]", "later2"):
        assert [each.queued for each in written if each.text.endswith(text)] == [True, False], text
    _, written = accepted(recorded(version)["recall"])
    taken = [each for each in written if each.text.endswith("taken back")]
    assert [(each.queued, each.withdrawn) for each in taken] == [(True, False), (False, True)]


def test_paste_of_a_person_is_accepted_without_its_wrapper(version: str) -> None:
    scene = recorded(version)["paste"]
    for texts in accepted(scene):
        (text,) = texts
        assert (accepted_form(text.text), text.pasted) == (accepted_form(scene["said"][0]), version != OLD)


def test_each_dialog_is_a_request_of_its_kind(version: str) -> None:
    for name, scene in recorded(version).items():
        dialogs = [read_dialog(hook, cut=False) for hook in scene["hooks"]]
        seen = [(dialog.kind, dialog.tool) for dialog in dialogs if dialog is not None]
        assert seen == DIALOGS.get(name, []), name


def test_each_hook_has_a_meaning(version: str) -> None:
    for name, scene in recorded(version).items():
        for hook in scene["hooks"]:
            event = read_hook(hook, AT, expects_turn=False)
            assert event.name in EVENTS, name
            assert event != HookEvent(event.name) or hook.get("reason") == "clear", (name, hook)
    for name, modes in MODES.items():
        hooks = recorded(version)[name]["hooks"]
        seen = {read_hook(hook, AT, expects_turn=False).permission_mode for hook in hooks} - {""}
        assert modes <= {canonical(mode) for mode in seen}, name


def test_tokens_of_each_answer_are_those_of_the_api(version: str) -> None:
    for name, scene in recorded(version).items():
        for file in scene["transcripts"]:
            used = {usage.message_id: usage for delta in deltas(file) for usage in delta.usage}
            answers = {
                line["message"]["id"]
                for line in file["lines"]
                if line["type"] == "assistant" and line["message"]["model"] != "<synthetic>"
            }
            assert set(used) == answers, name
            assert {(usage.input, usage.sidechain) for usage in used.values()} <= {
                (10, file["of"] == "agent")
            }, name

"""One contract suite per reader protocol, which runs for claude and for a scripted agent CLI."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sm.core.models import Process
from sm.core.observation import Activity, Source
from sm.core.requests import Answer, Request
from sm.core.states import RequestState
from sm.providers.claude.plan import ClaudeProvider
from sm.providers.readers import HookReader, Readers, ScreenReader, StateReader, TranscriptReader
from tests import samples
from tests.providers import scripted

AT = 1_790_000_000.0
PROCESS = Process(4711, "boot/123")
ID = "5e55aaaa-0000-4000-8000-000000000001"
MESSAGE = "[sm] from operator, message 7\ngo"
HOME = {"HOME": "/home/me"}
SCREENS = Path(__file__).parents[1] / "data" / "screens" / "claude"


def to_json(value: object) -> bytes:
    return json.dumps(value).encode()


@dataclass(frozen=True)
class Sample:
    """A provider's readers, and samples of its agent's output."""

    readers: Readers
    prompt: Mapping[str, Any]
    """The hook event of a prompt `go`."""
    asks: Mapping[str, Any]
    """The hook event of a permission dialog."""
    ends: Mapping[str, Any]
    idle: bytes
    """The state file of PROCESS in the conversation ID."""
    prompt_line: bytes
    """The transcript line of MESSAGE."""
    screen: Sequence[str]
    """The screen of an agent that waits for input."""
    login: Sequence[str]
    """The screen of an agent that needs a login before it starts."""
    title: str
    """The title of an agent that works."""


CLAUDE = Sample(
    ClaudeProvider.readers,
    {"hook_event_name": "UserPromptSubmit", "prompt": "go"},
    {"hook_event_name": "PermissionRequest", "tool_name": "Bash", "tool_input": {"command": "ls"}},
    {"hook_event_name": "SessionEnd", "reason": "other"},
    to_json(
        {"pid": 4711, "sessionId": ID, "status": "idle", "statusUpdatedAt": AT * 1000, "procStart": "123"}
    ),
    to_json(
        {
            "type": "user",
            "timestamp": "2026-11-21T16:22:32.123Z",
            "message": {"content": MESSAGE},
            "promptSource": "typed",
        }
    ),
    (SCREENS / "idle-fresh-01.txt").read_text().splitlines(),
    (SCREENS / "trust-dialog-01.txt").read_text().splitlines(),
    "⠂",
)
SCRIPTED = Sample(
    scripted.READERS,
    {"event": "prompt", "text": "go"},
    {"event": "asks", "tool": "ls"},
    {"event": "end"},
    to_json({"pid": 4711, "state": "idle", "conversation": ID}),
    to_json({"prompt": MESSAGE}),
    ["idle"],
    ["login"],
    "*",
)
SHARED = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
"""Function-scoped fixtures are safe here, because they hold no state."""
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.fixture(params=[CLAUDE, SCRIPTED], ids=["claude", "scripted"])
def sample(request: pytest.FixtureRequest) -> Sample:
    sample = request.param
    assert isinstance(sample, Sample)
    return sample


# ---------------------------------------------------------------------------------------------------- HookReader


@pytest.fixture
def hooks(sample: Sample) -> HookReader:
    assert sample.readers.hooks is not None
    return sample.readers.hooks


def test_hook_reader_reads_a_prompt_as_input_that_opens_a_turn(hooks: HookReader, sample: Sample) -> None:
    event = hooks.event(sample.prompt, AT, expects_turn=False)
    assert event.accepted is not None
    assert event.observation is not None
    assert (event.accepted.text, event.accepted.at, event.accepted.hook) == ("go", AT, event.name)
    assert (event.observation.source, event.observation.activity) == (Source.HOOK, Activity.BUSY)
    assert event.observation.opens


def test_hook_reader_reads_a_dialog_as_blocked_with_a_tool_digest(hooks: HookReader, sample: Sample) -> None:
    event, dialog = (hooks.event(sample.asks, AT, expects_turn=False), hooks.dialog(sample.asks, cut=False))
    assert dialog is not None
    assert event.observation is not None
    assert event.observation.activity is Activity.BLOCKED
    assert dialog.tool_digest == event.tool_digest != ""
    assert hooks.dialog(sample.asks, cut=True) == replace(dialog, cut=True)
    assert hooks.dialog(sample.prompt, cut=False) is None
    assert hooks.plan(dialog.tool, dialog.arguments) is None


def test_hook_reader_reads_the_end_from_the_ending_event(hooks: HookReader, sample: Sample) -> None:
    event = hooks.event(sample.ends, AT, expects_turn=False)
    assert (event.name, bool(event.ending)) == (hooks.ending_event, True)


def test_decision_needs_an_answer(hooks: HookReader, sample: Sample) -> None:
    dialog = hooks.dialog(sample.asks, cut=False)
    assert dialog is not None
    request = Request(1, "1a2b3c4d", dialog.kind, RequestState.OPEN, samples.AT, samples.AT, tool=dialog.tool)
    assert hooks.decision(request, "operator") is None
    yes, no = (
        hooks.decision(replace(request, answer=Answer(approved)), "operator") for approved in (True, False)
    )
    assert None not in (yes, no)
    assert yes != no


@SHARED
@given(value=JSON, name=st.sampled_from(["", "prompt", "asks", "UserPromptSubmit", "PreToolUse", "Stop"]))
def test_hook_reader_never_raises_and_is_deterministic(
    hooks: HookReader, sample: Sample, value: object, name: str
) -> None:
    for known in (sample.prompt, sample.asks, sample.ends):
        for payload in ({**known, key: value} for key in known):
            first = hooks.event(payload, AT, expects_turn=True)
            assert hooks.event(payload, AT, expects_turn=True) == first
            assert hooks.dialog(payload, cut=False) == hooks.dialog(payload, cut=False)


# --------------------------------------------------------------------------------------------------- StateReader


@pytest.fixture
def state(sample: Sample) -> StateReader:
    assert sample.readers.state is not None
    return sample.readers.state


def test_state_path_differs_for_each_process(state: StateReader) -> None:
    assert state.path(HOME, 1).startswith("/home/me/")
    assert state.path(HOME, 1) != state.path(HOME, 2)


def test_state_reader_reads_activity_and_conversation(state: StateReader, sample: Sample) -> None:
    published = state.state(sample.idle, PROCESS)
    assert published is not None
    assert (published.source, published.activity) == (Source.STATE_FILE, Activity.IDLE)
    assert state.conversation(sample.idle, PROCESS) == ID


def test_state_reader_returns_none_for_another_process(state: StateReader, sample: Sample) -> None:
    other = Process(4712, "boot/123")
    assert state.state(sample.idle, other) is None
    assert state.conversation(sample.idle, other) is None


@SHARED
@given(content=st.binary() | JSON.map(to_json))
def test_state_reader_never_raises(state: StateReader, content: bytes) -> None:
    assert state.state(content, PROCESS) is None
    assert state.conversation(content, PROCESS) is None


# ---------------------------------------------------------------------------------------------- TranscriptReader


@pytest.fixture
def transcripts(sample: Sample) -> TranscriptReader:
    assert sample.readers.transcripts is not None
    return sample.readers.transcripts


def test_transcript_path_is_below_the_root(transcripts: TranscriptReader) -> None:
    root = transcripts.root(HOME)
    assert root.startswith("/home/me/")
    assert transcripts.path(HOME, "/srv/../shop", ID).startswith(f"{root}/")


def test_transcript_reader_reads_accepted_input(transcripts: TranscriptReader, sample: Sample) -> None:
    delta = transcripts.delta([b"no JSON", sample.prompt_line], sidechain=False, todo=())
    assert [prompt.text for prompt in delta.accepted] == [MESSAGE]
    assert [(observation.source, observation.activity) for observation in delta.observations] == [
        (Source.TRANSCRIPT, Activity.BUSY)
    ]


def test_prompt_of_a_sub_agent_is_not_reported_as_accepted_input(
    transcripts: TranscriptReader, sample: Sample
) -> None:
    delta = transcripts.delta([sample.prompt_line], sidechain=True, todo=())
    assert (delta.observations, delta.accepted, delta.turn_finished) == ((), (), None)


def test_transcript_reader_reads_the_last_actions(transcripts: TranscriptReader, sample: Sample) -> None:
    lines = [sample.prompt_line, sample.prompt_line.replace(b"message 7", b"message 8")]
    (last,) = transcripts.actions(lines, 1, "/srv/shop")
    assert "message 8" in last.text
    assert list(transcripts.actions(lines, 0, "/srv/shop")) == []


def test_last_turn_that_has_only_begun_is_not_finished(transcripts: TranscriptReader, sample: Sample) -> None:
    assert transcripts.last_turn([sample.prompt_line]) is None
    assert transcripts.last_turn([]) is None


@SHARED
@given(lines=st.lists(st.binary() | JSON.map(to_json)), sidechain=st.booleans())
def test_transcript_reader_never_raises(
    transcripts: TranscriptReader, lines: list[bytes], sidechain: bool
) -> None:
    assert transcripts.delta(lines, sidechain=sidechain, todo=()).accepted == ()
    assert len(transcripts.actions(lines, 3, "/srv/shop")) <= 3
    assert transcripts.last_turn(lines) is None


# -------------------------------------------------------------------------------------------------- ScreenReader


@pytest.fixture
def screen(sample: Sample) -> ScreenReader:
    assert sample.readers.screen is not None
    return sample.readers.screen


def test_screen_reader_reads_an_agent_at_its_prompt_as_idle(screen: ScreenReader, sample: Sample) -> None:
    observation = screen.screen(sample.screen, AT)
    assert observation is not None
    assert (observation.source, observation.activity, observation.at) == (Source.SCREEN, Activity.IDLE, AT)
    assert screen.start_problem(sample.screen, "/srv/shop") is None


def test_screen_reader_leaves_the_input_out_of_the_output(screen: ScreenReader, sample: Sample) -> None:
    assert list(screen.output(["said", *sample.screen]))[:1] == ["said"]
    assert len(screen.output(["said", *sample.screen])) < len(sample.screen) + 1


def test_start_problem_has_a_message_and_a_hint(screen: ScreenReader, sample: Sample) -> None:
    problem = screen.start_problem(sample.login, "/srv/shop")
    assert problem is not None
    assert problem.message
    assert problem.hint


def test_screen_reader_reads_the_title_of_a_busy_agent(screen: ScreenReader, sample: Sample) -> None:
    observation = screen.title(sample.title, AT)
    assert observation is not None
    assert (observation.source, observation.activity) == (Source.TITLE, Activity.BUSY)
    assert screen.title("x", AT) is None


@SHARED
@given(lines=st.lists(st.text(alphabet="x >\u276f\u2500\u25021.")))
def test_screen_reader_never_raises_and_is_deterministic(screen: ScreenReader, lines: list[str]) -> None:
    assert screen.screen(lines, AT) == screen.screen(lines, AT)
    assert {row.rstrip() for row in screen.output(lines)} <= {line.rstrip() for line in lines}
    assert screen.start_problem(lines, "/srv/shop") == screen.start_problem(lines, "/srv/shop")
    assert screen.setup_dialog(lines, "/srv/shop") == screen.setup_dialog(lines, "/srv/shop")

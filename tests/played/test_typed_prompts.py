"""A prompt is typed as the first message where no hook can hold the first turn until the agent has the tools of sm."""

import json
import random
from collections.abc import Iterator

import pytest

from sm.monitor.own_tools import LIMIT_S, SETTLES_S, SLOW_LIMIT_S
from tests.played.test_first_turns import MISSED, list_tools
from tests.played_agent import CONFIG
from tests.sim.claude import Habits, Journal, PlayedClaude
from tests.sim.programs import Running
from tests.sim.pump import played_pumps
from tests.sim.stage import Instance, until

PROMPT = "Read the README,\nthen say what it is for,\nin one sentence."
TYPES_S = 4.0
"""More than the played claude needs to start and to take a message."""


class Unhooked(Instance):
    """An instance whose claudes run no hooks, as the settings of its user say."""

    def __init__(self, settings: object, habits: Habits, more: str = "") -> None:
        super().__init__(config=CONFIG.format(claude="/usr/bin/stand-in") + more)
        self.heard: list[tuple[str, float]] = []
        journal = Journal(lambda session_id, text: self.heard.append((text, self.loop.time())))

        async def claude(program: Running) -> int:
            chance = random.Random(program.session_id)
            return await PlayedClaude(program, self.world.clocks, chance, habits, journal).run()

        self.world.programs.installed["stand-in"] = claude
        (self.home / ".claude").mkdir(exist_ok=True)
        (self.home / ".claude" / "settings.json").write_text(json.dumps(settings))
        self.start_daemon()

    def first(self) -> tuple[str, float]:
        """The first prompt that a claude has accepted, and its time."""
        until(lambda: bool(self.heard), "the first turn")
        return self.heard[0]

    def argv(self, session_id: str) -> list[str]:
        return list(self.world.programs.running[session_id].argv)


QUIET = Habits(tools_max=0, permission=0, question=0, done=0, hooks=False)


@pytest.fixture
def stage() -> Iterator[Unhooked]:
    with Unhooked({"disableAllHooks": True}, QUIET) as opened:
        opened.enter(played_pumps(opened.loop))
        yield opened


def missed(stage: Unhooked, session_id: str) -> list[str]:
    stage.settle()
    return [fact for fact in stage.json("why", session_id)["facts"] if MISSED in fact]


def test_short_prompt_is_typed_once_the_tools_were_listed(stage: Unhooked) -> None:
    spawned = stage.spawn("Plain", PROMPT)
    session_id = spawned["session_id"]
    assert "--" not in stage.argv(session_id)
    until(lambda: stage.session(session_id)["status"] == "idle", "the agent is ready")
    assert stage.heard == []
    list_tools(stage, session_id)
    listed_s = stage.loop.time()
    text, at = stage.first()
    assert text == f"[sm] from operator, message 1\n{PROMPT}"
    assert listed_s + SETTLES_S[0] <= at
    assert missed(stage, session_id) == []
    until(lambda: stage.json("log", session_id)[0]["status"] == "acknowledged", "the message is read")


def test_typed_prompt_ends_with_the_line_of_its_file(stage: Unhooked) -> None:
    shot = stage.work / "shot.png"
    shot.write_bytes(b"a picture")
    session_id = stage.spawn("Plain", "look", "--file", str(shot))["session_id"]
    until(lambda: stage.session(session_id)["status"] == "idle", "the agent is ready")
    list_tools(stage, session_id)
    text, _ = stage.first()
    (copy,) = (stage.launch_dir / f"{session_id}.files").glob("*/shot.png")
    assert text == f"[sm] from operator, message 1\nlook\n[sm] file 1: {copy} (image/png, 9 bytes)"
    until(lambda: stage.json("log", session_id)[0]["status"] == "acknowledged", "the message is read")


def test_short_prompt_is_typed_at_the_limit_when_no_tools_are_listed(stage: Unhooked) -> None:
    begun_s = stage.loop.time()
    session_id = stage.spawn("Plain", "work")["session_id"]
    _, at = stage.first()
    assert LIMIT_S <= at - begun_s <= SLOW_LIMIT_S + TYPES_S
    (said,) = missed(stage, session_id)
    assert said.endswith("s, and has not listed them since")


def test_longer_prompt_stays_an_argument_and_why_names_the_missing_tools(stage: Unhooked) -> None:
    prompt = f"{PROMPT}\nThen stop."
    spawned = stage.spawn("Plain", prompt)
    assert stage.argv(spawned["session_id"])[-2:] == ["--", prompt]
    (warning,) = spawned["warnings"]
    assert "may have no tools of sm if its prompt has more than 3 lines" in warning
    until(lambda: warning in stage.json("why", spawned["session_id"])["facts"], "the agent is ready")
    assert stage.json("log", spawned["session_id"]) == []


def test_prompt_of_an_agent_without_the_tools_of_sm_stays_an_argument() -> None:
    with Unhooked({"disableAllHooks": True}, QUIET, "mcp: {enabled: false}\n") as stage:
        session_id = stage.spawn("Plain", PROMPT)["session_id"]
        assert stage.argv(session_id)[-2:] == ["--", PROMPT]


def test_prompt_stays_an_argument_when_hooks_run() -> None:
    with Unhooked({}, Habits(tools_max=0, permission=0, question=0, done=0)) as stage:
        session_id = stage.spawn("Plain", PROMPT)["session_id"]
        assert stage.argv(session_id)[-2:] == ["--", PROMPT]


def test_first_message_to_an_agent_without_a_prompt_waits_for_the_tools_too(stage: Unhooked) -> None:
    session_id = stage.spawn("Plain")["session_id"]
    until(lambda: stage.session(session_id)["status"] == "idle", "the agent is ready")
    stage.sm("send", "--no-wait", session_id, "work")
    sent_s = stage.loop.time()
    list_tools(stage, session_id)
    assert stage.first()[1] - sent_s >= SETTLES_S[0]
    assert missed(stage, session_id) == []


def test_parent_sends_the_typed_prompt_of_its_child(stage: Unhooked) -> None:
    parent = stage.spawn("Plain")["session_id"]
    child = stage.json("spawn", "Plain", "help", env=stage.as_session(parent))["session_id"]
    assert stage.first()[0].startswith(f"[sm] from plain-{parent}")
    assert [message["text"] for message in stage.json("log", child)] == ["help"]


def test_typed_prompt_is_sent_again_when_the_agent_is_restored_before_its_first_turn(stage: Unhooked) -> None:
    session_id = stage.spawn("Plain", "work")["session_id"]
    stage.sm("kill", session_id)
    assert stage.heard == []
    stage.sm("restore", session_id)
    assert "--" not in stage.argv(session_id)
    assert stage.first()[0].endswith("\nwork")
    stage.settle()
    assert len(stage.heard) == 1


def test_typed_prompt_survives_the_daemon(stage: Unhooked) -> None:
    stage.spawn("Plain", "work")
    stage.kill_daemon()
    stage.start_daemon()
    assert stage.first()[0].endswith("\nwork")
    stage.settle()
    assert len(stage.heard) == 1

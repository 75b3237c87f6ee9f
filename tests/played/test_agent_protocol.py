"""An agent that reports over a link: its status, its reasons and its measurements."""

from collections.abc import Iterator

import pytest

from sm.core.faults import Fault, FaultKind
from sm.core.usage import Todo, ToolUse, Usage
from sm.providers.links import (
    Answerer,
    ContextUpdate,
    ConversationEnded,
    ConversationStarted,
    PlanUpdate,
    StateUnknown,
)
from sm.providers.readers import ToolEnd
from tests.played.linked_stage import LinkedAgent, LinkedStage
from tests.sim.live_board import board


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[LinkedStage]:
    with LinkedStage(monkeypatch) as stage:
        yield stage


def test_status_follows_the_words_of_the_link(stage: LinkedStage) -> None:
    agent = stage.agent()
    agent.begin_turn()
    assert stage.in_status(agent.id, "running")["status_source"] == "protocol"
    agent.ask(1)
    assert stage.in_status(agent.id, "waiting_input")["status_reason"] == "waits: run"
    agent.resolve(1, Answerer.TERMINAL)
    stage.in_status(agent.id, "running")
    agent.end_turn("I am done.")
    session = stage.in_status(agent.id, "idle")
    with board(stage) as shown:
        shown.shows(agent.id, lambda row: "I am done." in str(row))
    assert (session["status_source"], session["status_reason"]) == ("protocol", "the turn ended")
    assert "protocol" in stage.sm("why", agent.id)


def test_start_is_over_only_when_the_turn_of_the_prompt_began(stage: LinkedStage) -> None:
    agent = LinkedAgent(stage, stage.spawn("Linked", "do it")["session_id"])
    agent.reconnect()
    agent.become_idle()
    stage.settle(5)
    assert stage.session(agent.id)["status"] == "starting"
    agent.begin_turn()
    stage.in_status(agent.id, "running")


def test_agent_that_never_begins_the_turn_of_its_prompt_counts_as_started_after_a_while(
    stage: LinkedStage,
) -> None:
    agent = LinkedAgent(stage, stage.spawn("Linked", "do it")["session_id"])
    agent.reconnect()
    agent.become_idle()
    stage.wait(60)
    assert stage.session(agent.id)["status"] == "idle"


def test_failure_of_a_turn_is_told_although_the_program_was_idle_before(stage: LinkedStage) -> None:
    agent = stage.agent()
    agent.begin_turn()
    stage.in_status(agent.id, "running")
    agent.become_idle()
    stage.in_status(agent.id, "idle")
    agent.end_turn(fault=Fault(FaultKind.OVERLOADED, "no room"), finished=False)
    stage.settle()
    assert stage.session(agent.id)["status_reason"].startswith("the turn ended; retry 1 of 3")
    assert stage.sm("events", agent.id).count("no room") == 1


def test_status_is_stale_while_the_link_is_lost_and_right_when_it_is_back(stage: LinkedStage) -> None:
    agent = stage.agent()
    agent.begin_turn()
    stage.in_status(agent.id, "running")
    agent.program.lose()
    stage.until(lambda: stage.session(agent.id)["status_stale"], "the status is stale")
    assert stage.session(agent.id)["status"] == "running"
    assert "its link does not tell its state: the link was lost" in stage.sm("why", agent.id)
    stage.wait(30)
    assert "its link does not tell its state: no link: the program is away" in stage.sm("why", agent.id)
    agent.end_turn("done meanwhile")
    stage.settle()
    assert stage.session(agent.id)["status"] == "running"
    agent.reconnect()
    assert not stage.in_status(agent.id, "idle")["status_stale"]


def test_title_speaks_while_the_link_is_lost_and_not_while_it_is_open(stage: LinkedStage) -> None:
    agent = stage.agent()
    terminal = stage.world.programs.running[agent.id]
    terminal.title("+ works")
    stage.wait(30)
    assert stage.session(agent.id)["status"] == "idle"
    agent.program.lose()
    session = stage.in_status(agent.id, "running")
    assert (session["status_source"], session["status_stale"]) == ("title", False)
    agent.reconnect()
    assert stage.in_status(agent.id, "idle")["status_source"] == "protocol"


def test_status_of_a_silent_agent_is_not_stale_while_its_link_is_open(stage: LinkedStage) -> None:
    agent = stage.agent()
    agent.begin_turn()
    stage.in_status(agent.id, "running")
    stage.wait(600)
    assert not stage.session(agent.id)["status_stale"]


@pytest.mark.parametrize("closes", [True, False])
def test_status_is_stale_when_the_program_does_not_know_the_state(
    stage: LinkedStage, *, closes: bool
) -> None:
    agent = stage.agent()
    now = agent.now()
    agent.program.say(ConversationEnded("c1", now) if closes else StateUnknown(now, "an unknown status"))
    stage.until(lambda: stage.session(agent.id)["status_stale"], "the status is stale")
    agent.become_idle()
    stage.until(lambda: not stage.session(agent.id)["status_stale"], "the status is known")


def test_link_is_opened_again_by_the_next_daemon(stage: LinkedStage) -> None:
    agent = stage.agent()
    agent.program.say(ConversationStarted("c1", Answerer.LINK))
    agent.begin_turn()
    stage.in_status(agent.id, "running")
    stage.kill_daemon()
    agent.end_turn("done without a daemon")
    stage.start_daemon()
    assert stage.in_status(agent.id, "idle")["status_source"] == "protocol"
    assert [target.conversation for target in agent.program.targets] == [None, "c1"]


def test_link_ends_with_its_session_and_a_restored_one_has_another(stage: LinkedStage) -> None:
    agent = stage.agent()
    agent.program.say(ConversationStarted("c1", Answerer.LINK))
    stage.settle()
    stage.sm("kill", agent.id, "--force")
    stage.ended(agent.id)
    stage.settle()
    assert agent.program.link is None
    agent.program.state = None
    stage.sm("restore", agent.id)
    stage.until(lambda: agent.program.link, "the new process has a link")
    agent.become_idle()
    stage.in_status(agent.id, "idle")
    pids = [target.process.pid for target in agent.program.targets]
    assert len(set(pids)) == 2


def test_measurements_of_the_link_are_in_the_progress(stage: LinkedStage) -> None:
    agent = stage.agent()
    agent.program.say(ConversationStarted("c1", Answerer.LINK, model="m1"))
    agent.begin_turn()
    at = stage.now().isoformat().replace("+00:00", "Z")
    agent.program.say(
        ToolUse("u1", "run", at, {"line": "make"}),
        ToolEnd("u1", True, agent.now()),
        ToolUse("u1", "run", at, {"line": "make"}),
        Usage("m-1", "m1", at, input=10, output=5, cache_read=100),
        Usage("m-1", "m1", at, input=10, output=5, cache_read=100),
        PlanUpdate((Todo("wash", "completed"), Todo("dry", "pending"))),
        ContextUpdate(115, 230),
    )
    stage.settle()
    shown = stage.json("progress", agent.id)
    assert (shown["tokens_used"], shown["total_tools"], shown["context_percent"]) == (15, 1, 50)
    assert [entry["status"] for entry in shown["todo"]] == ["completed", "pending"]
    agent.program.say(ConversationStarted("c2", Answerer.TERMINAL, model="m1"))
    stage.settle()
    shown = stage.json("progress", agent.id)
    assert (shown["tokens_used"], shown["todo"], shown["context_percent"]) == (15, None, None)

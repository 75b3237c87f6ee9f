"""Requests over a link: the first answer wins, and each side learns whose answer decided."""

from collections.abc import Iterator
from typing import Any

import pytest

from sm.core.requests import Question
from sm.core.states import RequestKind
from sm.providers.links import Answerer, RequestResolved
from sm.providers.readers import Dialog, ToolEnd
from tests.played.linked_stage import LinkedAgent, LinkedStage


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[LinkedStage]:
    with LinkedStage(monkeypatch) as stage:
        yield stage


@pytest.fixture
def agent(stage: LinkedStage) -> LinkedAgent:
    agent = stage.agent()
    agent.begin_turn()
    stage.in_status(agent.id, "running")
    return agent


def request(agent: LinkedAgent, name: str) -> dict[str, Any]:
    found: dict[str, Any] = agent.stage.get(f"/v1/requests/{name}")
    return found


def opened(agent: LinkedAgent, count: int = 1) -> list[str]:
    """Wait until so many requests are open; return their names."""

    def look() -> list[str] | None:
        found = [r["request_id"] for r in agent.stage.get("/v1/requests")]
        return found if len(found) == count else None

    return agent.stage.until(look, f"{count} requests are open")


def in_state(agent: LinkedAgent, name: str, state: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found = request(agent, name)
        return found if found["state"] == state else None

    return agent.stage.until(look, f"{name} is {state}")


def answer_arrives(agent: LinkedAgent, count: int = 1) -> Any:
    agent.stage.until(lambda: len(agent.program.answers) >= count, f"{count} answers arrive")
    return agent.program.answers[count - 1]


@pytest.mark.parametrize(("command", "approved"), [("approve", True), ("deny", False)])
def test_answer_goes_over_the_link_and_is_final_when_the_program_says_so(
    agent: LinkedAgent, command: str, *, approved: bool
) -> None:
    agent.ask(7)
    (name,) = opened(agent)
    asked = request(agent, name)
    assert (asked["kind"], asked["tool"], asked["arguments"]) == ("permission", "run", {"line": "rm 7"})
    answering = agent.stage.start_command(command, name)
    id, answer = answer_arrives(agent)
    assert (id, answer.approved, answer.decision) == (7, approved, None)
    assert request(agent, name)["state"] == "open"
    agent.resolve(7, Answerer.LINK)
    assert answering.wait() == 0
    done = in_state(agent, name, "answered")
    assert (done["answered_by"], done["answer"]["approved"], done["confirmed"]) == (
        "operator",
        approved,
        True,
    )
    agent.stage.in_status(agent.id, "running")


def test_words_of_a_denial_go_over_the_link_and_those_of_an_approval_are_a_message(
    agent: LinkedAgent,
) -> None:
    for number, command in enumerate(("deny", "approve"), 1):
        agent.ask(number)
        (name,) = opened(agent)
        answering = agent.stage.start_command(command, name, *(["use make"] if command == "deny" else []))
        _, answer = answer_arrives(agent, number)
        assert answer.message == ("use make" if command == "deny" else None)
        agent.resolve(number, Answerer.LINK)
        assert answering.wait() == 0


def test_offered_decisions_are_shown_and_one_of_them_is_chosen(agent: LinkedAgent) -> None:
    agent.ask(1)
    (name,) = opened(agent)
    shown = agent.stage.sm("requests", name)
    assert "Decisions: 1: accept" in shown
    assert f"sm answer {name} NUMBER" in shown
    assert "does not offer the decision" in agent.stage.refused("answer", name, "acceptAll", exit_code=2)
    answering = agent.stage.start_command("answer", name, "2")
    _, answer = answer_arrives(agent)
    assert (answer.approved, answer.decision.value) == (True, {"for": "session"})
    agent.resolve(1, Answerer.LINK)
    assert answering.wait() == 0
    assert in_state(agent, name, "answered")["answer"]["answers"] == ["acceptForSession"]


def test_question_is_answered_with_its_texts(agent: LinkedAgent) -> None:
    question = Dialog(RequestKind.QUESTION, "ask", {}, (Question("Which colour?", ("red", "blue")),))
    agent.ask("q1", question, ())
    (name,) = opened(agent)
    answering = agent.stage.start_command("answer", name, "2")
    id, answer = answer_arrives(agent)
    assert (id, answer.answers) == ("q1", ("blue",))
    agent.resolve("q1", Answerer.LINK)
    assert answering.wait() == 0


def test_rule_answers_a_request_of_a_link(stage: LinkedStage) -> None:
    agent = stage.agent("Ruled")
    agent.begin_turn()
    agent.ask(1, Dialog(RequestKind.PERMISSION, "run", {"line": "make test"}))
    _, answer = answer_arrives(agent)
    agent.resolve(1, Answerer.LINK)
    assert answer.approved
    assert in_state(agent, "r1", "answered")["answered_by"] == "rule"


def test_answer_in_the_terminal_closes_the_request(agent: LinkedAgent) -> None:
    agent.ask(1)
    (name,) = opened(agent)
    agent.resolve(1, Answerer.TERMINAL)
    done = in_state(agent, name, "answered")
    assert (done["answered_by"], done["answer"]) == ("terminal", None)
    assert agent.program.answers == []
    assert "in the terminal" in agent.stage.refused("approve", name, exit_code=4)


def test_person_in_the_terminal_wins_a_race_against_an_answer_that_was_sent(agent: LinkedAgent) -> None:
    agent.ask(1)
    (name,) = opened(agent)
    answering = agent.stage.start_command("approve", name)
    answer_arrives(agent)
    agent.resolve(1, Answerer.TERMINAL)
    assert answering.wait() == 4
    done = in_state(agent, name, "answered")
    assert (done["answered_by"], done["answer"]) == ("terminal", None)


def test_later_word_corrects_whose_answer_decided(agent: LinkedAgent) -> None:
    agent.ask(1)
    (name,) = opened(agent)
    answering = agent.stage.start_command("approve", name)
    answer_arrives(agent)
    agent.resolve(1, Answerer.LINK)
    assert answering.wait() == 0
    agent.program.say(RequestResolved(1, Answerer.TERMINAL))
    corrected = agent.stage.until(
        lambda: (r := request(agent, name))["answered_by"] == "terminal" and r, "the answer is corrected"
    )
    assert (corrected["answer"]["approved"], "came too late" in corrected["reason"]) == (False, True)


def test_turn_that_ends_without_an_answer_closes_the_request(agent: LinkedAgent) -> None:
    agent.ask(1)
    (name,) = opened(agent)
    agent.resolve(1, None)
    agent.end_turn(finished=False)
    assert in_state(agent, name, "cancelled")["reason"] == "the agent closed the request without an answer"


def test_two_requests_at_once_are_answered_each_by_its_own_id(agent: LinkedAgent) -> None:
    agent.ask(1)
    agent.ask(2)
    first, second = opened(agent, 2)
    late = agent.stage.start_command("approve", second)
    answer_arrives(agent)
    early = agent.stage.start_command("deny", first)
    answer_arrives(agent, 2)
    assert [(id, answer.approved) for id, answer in agent.program.answers] == [(2, True), (1, False)]
    agent.resolve(1, Answerer.LINK)
    assert early.wait() == 0
    agent.resolve(2, Answerer.TERMINAL)
    assert late.wait() == 4
    assert in_state(agent, first, "answered")["answered_by"] == "operator"
    assert in_state(agent, second, "answered")["answered_by"] == "terminal"


@pytest.mark.parametrize("daemon", ["runs", "is killed"])
def test_open_request_is_the_same_one_after_the_loss_of_the_link(agent: LinkedAgent, daemon: str) -> None:
    stage = agent.stage
    agent.ask(1)
    (name,) = opened(agent)
    if daemon == "runs":
        agent.program.lose()
        refused = stage.refused("approve", name, exit_code=4)
        assert "no longer waits for an answer" in refused
        assert "the link to the agent" in stage.refused("answer", name, "2", exit_code=4)
    else:
        stage.kill_daemon()
        stage.start_daemon()
    agent.reconnect()
    stage.wait(10)
    assert opened(agent) == [name]
    assert agent.program.answers == []
    answering = stage.start_command("approve", name)
    answer_arrives(agent)
    agent.resolve(1, Answerer.LINK)
    assert answering.wait() == 0


@pytest.mark.parametrize("arrived", [True, False])
@pytest.mark.parametrize("daemon", ["runs", "is killed"])
def test_answer_is_sent_again_if_the_request_is_still_open_after_the_loss(
    agent: LinkedAgent, daemon: str, *, arrived: bool
) -> None:
    stage = agent.stage
    agent.ask(1)
    (name,) = opened(agent)
    stage.start_command("approve", name)
    answer_arrives(agent)
    if daemon == "runs":
        agent.program.lose()
    else:
        stage.kill_daemon()
    if arrived:
        del agent.program.requests[1]
        agent.program.say(agent.observe_busy())
    if daemon == "is killed":
        stage.start_daemon()
    agent.reconnect()
    if arrived:
        done = in_state(agent, name, "answered")
        assert (done["answered_by"], done["confirmed"]) == ("operator", False)
        assert len(agent.program.answers) == 1
    else:
        answer_arrives(agent, 2)
        agent.resolve(1, Answerer.LINK)
        assert in_state(agent, name, "answered")["answered_by"] == "operator"


def test_answer_of_unknown_effect_is_decided_by_the_end_of_the_tool(agent: LinkedAgent) -> None:
    stage = agent.stage
    agent.ask(1)
    (name,) = opened(agent)
    stage.start_command("deny", name)
    answer_arrives(agent)
    agent.program.lose()
    del agent.program.requests[1]
    agent.program.say(agent.observe_busy())
    agent.reconnect()
    assert not in_state(agent, name, "answered")["confirmed"]
    agent.program.say(ToolEnd("use-1", True, agent.now()))
    corrected = stage.until(
        lambda: (r := request(agent, name))["answered_by"] == "terminal" and r, "the answer is corrected"
    )
    assert corrected["answer"]["approved"] is True


def test_request_of_a_program_that_began_again_is_another_one(agent: LinkedAgent) -> None:
    agent.ask(1)
    (name,) = opened(agent)
    agent.resolve(1, Answerer.TERMINAL)
    in_state(agent, name, "answered")
    agent.ask(1)
    (other,) = opened(agent)
    assert other != name


def test_answer_that_the_program_refuses_is_withdrawn(agent: LinkedAgent) -> None:
    agent.ask(1)
    (name,) = opened(agent)
    agent.program.refuses = True
    assert "accepts no answer" in agent.stage.refused("approve", name, exit_code=4)
    assert (request(agent, name)["state"], request(agent, name)["answer"]) == ("open", None)
    agent.program.refuses = False
    answering = agent.stage.start_command("approve", name)
    answer_arrives(agent)
    agent.resolve(1, Answerer.LINK)
    assert answering.wait() == 0


def test_request_stays_open_while_a_new_link_is_silent(agent: LinkedAgent) -> None:
    agent.ask(1)
    (name,) = opened(agent)
    agent.program.lose()
    agent.program.is_silent = True
    agent.reconnect()
    agent.stage.wait(60)
    assert opened(agent) == [name]
    agent.program.say(agent.observe_busy())
    closed = in_state(agent, name, "cancelled")
    assert closed["reason"] == "the request was closed while the link to the agent was lost"


@pytest.mark.parametrize("first", range(2))
def test_answer_of_a_caller_decides_once_wherever_the_daemon_is_dropped(
    agent: LinkedAgent, first: int
) -> None:
    stage = agent.stage
    agent.program.is_mute = True
    for id in range(first, 50, 2):
        agent.ask(id)
        (name,) = opened(agent)
        answering = stage.start_command("approve", name)
        stage.drop_after(3 * id)
        stage.wait(1)
        answering.kill()
        stage.kill_daemon()
        stage.start_daemon()
        agent.reconnect()
        stage.wait(8)
        answers = [answer for answer in agent.program.answers if answer[0] == id]
        assert len(answers) <= 1
        if answers and request(agent, name)["state"] == "open":  # this daemon has sent it
            agent.program.say(RequestResolved(id, Answerer.LINK))
        elif not answers:
            agent.resolve(id, Answerer.TERMINAL)
        done = in_state(agent, name, "answered")
        assert done["answered_by"] == ("operator" if answers else "terminal")


def test_request_ends_with_its_session(agent: LinkedAgent) -> None:
    agent.ask(1)
    (name,) = opened(agent)
    agent.stage.sm("kill", agent.id, "--force")
    in_state(agent, name, "cancelled")

"""Messages over a link: their receipts, their order, and the loss of a link or a daemon between two steps."""

from collections.abc import Iterator
from typing import Any

import pytest

from sm.providers.links import MessageUpdate, Receipt
from tests.played.linked_stage import LinkedAgent, LinkedStage


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[LinkedStage]:
    with LinkedStage(monkeypatch) as stage:
        yield stage


def send(agent: LinkedAgent, text: str, *options: str) -> int:
    return int(agent.stage.json("send", agent.id, text, *options)["message_id"])


def message(agent: LinkedAgent, number: int) -> dict[str, Any]:
    found: dict[str, Any] = agent.stage.get(f"/v1/messages/{number}")
    return found


def in_state(agent: LinkedAgent, number: int, state: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found = message(agent, number)
        return found if found["status"] == state else None

    return agent.stage.until(look, f"message {number} is {state}")


def test_message_is_submitted_by_its_id_alone_and_acknowledged_by_the_end_of_its_turn(
    stage: LinkedStage,
) -> None:
    agent = stage.agent()
    number = send(agent, "go on")
    sent = agent.sent(1)
    assert (sent.id, sent.waits) == (f"sm-{agent.id}-{number}", False)
    assert sent.text.endswith(f"message {number}\ngo on")
    agent.take(sent, Receipt.ACCEPTED)
    agent.begin_turn()
    stage.wait(1)
    assert message(agent, number)["status"] == "delivering"
    for stranger in (f"sm-other-{number}", f"{sent.id}0", "", "sm-", f"sm-{agent.id}-x"):
        agent.program.say(MessageUpdate(stranger, Receipt.SUBMITTED, agent.now()))
    stage.wait(1)
    assert message(agent, number)["status"] == "delivering"
    agent.take(sent)
    assert in_state(agent, number, "submitted")["evidence"] == "its link"
    agent.end_turn("done")
    in_state(agent, number, "acknowledged")
    assert len(agent.program.sent) == 1


def test_message_that_was_not_delivered_is_sent_again_after_a_pause(stage: LinkedStage) -> None:
    agent = stage.agent()
    number = send(agent, "go on")
    for count in range(1, 4):
        sent = agent.sent(count)
        agent.take(sent, Receipt.NOT_DELIVERED, "the turn ended before")
        stage.wait(0.05)
        assert message(agent, number)["reason"] == "not delivered: the turn ended before; sm sends it again"
    agent.take(agent.sent(4))
    in_state(agent, number, "submitted")


@pytest.mark.parametrize("mode", ["auto", "idle"])
def test_message_to_a_busy_agent_is_sent_at_once(stage: LinkedStage, mode: str) -> None:
    agent = stage.agent()
    agent.begin_turn()
    stage.in_status(agent.id, "running")
    number = send(agent, "go on", "--mode", mode)
    sent = agent.sent(1)
    assert sent.waits is (mode == "idle")
    stage.wait(3600)
    assert message(agent, number)["status"] == "delivering"
    agent.take(sent)
    in_state(agent, number, "submitted")


def test_messages_of_one_mode_keep_their_order_and_an_urgent_one_interrupts_first(stage: LinkedStage) -> None:
    agent = stage.agent()
    agent.begin_turn()
    stage.in_status(agent.id, "running")
    texts = {
        send(agent, "wait", "--mode", "idle"): "wait",
        send(agent, "one"): "one",
        send(agent, "two"): "two",
    }
    stage.wait(1)
    assert [sent.text.split("\n")[1] for sent in agent.program.sent] == ["wait", "one"]
    urgent = send(agent, "stop", "--urgent")
    stage.wait(1)
    assert agent.program.orders == ["queue", "send", "interrupt", "send"]
    agent.take(agent.program.sent[1], Receipt.NOT_DELIVERED, "interrupted")
    agent.take(agent.program.sent[2])
    in_state(agent, urgent, "submitted")
    assert agent.sent(4).text.endswith("\none")
    agent.take(agent.sent(4))
    assert agent.sent(5).text.endswith("\ntwo")
    assert len(texts) == 3


def test_interrupt_goes_over_the_link(stage: LinkedStage) -> None:
    agent = stage.agent()
    agent.begin_turn()
    stage.in_status(agent.id, "running")
    interrupt = stage.start_command("interrupt", agent.id)
    stage.until(lambda: agent.program.orders == ["interrupt"], "the interrupt has arrived")
    agent.end_turn(finished=False)
    assert interrupt.wait() == 0
    stage.in_status(agent.id, "idle")


def test_message_waits_for_the_link_and_for_the_end_of_a_pause(stage: LinkedStage) -> None:
    agent = stage.agent()
    agent.program.lose()
    number = send(agent, "go on")
    stage.wait(1)
    assert message(agent, number)["status"] == "queued"
    stage.sm("pause", agent.id)
    agent.reconnect()
    stage.wait(1)
    assert agent.program.sent == []
    stage.sm("resume", agent.id)
    agent.take(agent.sent(1))
    in_state(agent, number, "submitted")


@pytest.mark.parametrize("daemon", ["runs", "is killed"])
@pytest.mark.parametrize("outcome", ["arrived", "never", "unknown"])
def test_loss_between_a_message_and_its_receipt_is_decided_by_the_next_link(
    stage: LinkedStage, outcome: str, daemon: str
) -> None:
    agent = stage.agent()
    number = send(agent, "go on")
    sent = agent.sent(1)
    if daemon == "runs":
        agent.take(sent, Receipt.UNKNOWN, "the link was lost")
        agent.program.lose()
        stage.wait(60)
        assert message(agent, number)["status"] == "delivering"
    else:
        stage.kill_daemon()
    known = {"arrived": agent.program.conversation, "never": agent.program.never}
    known.get(outcome, set()).add(sent.id)
    if daemon == "is killed":
        stage.start_daemon()
    agent.reconnect()
    assert agent.program.targets[-1].unproven == (sent.id,)
    match outcome:
        case "arrived":
            in_state(agent, number, "submitted")
        case "never":
            again = agent.sent(2)
            assert again == sent
            agent.take(again)
            in_state(agent, number, "submitted")
        case _:
            in_state(agent, number, "unconfirmed")
            agent.take(sent)  # late evidence
            in_state(agent, number, "submitted")
    assert len(agent.program.sent) == (2 if outcome == "never" else 1)


def test_message_of_an_earlier_link_waits_on_while_the_program_has_accepted_it(stage: LinkedStage) -> None:
    agent = stage.agent()
    number = send(agent, "go on", "--mode", "idle")
    sent = agent.sent(1)
    stage.kill_daemon()
    stage.start_daemon()
    agent.reconnect()
    agent.take(sent, Receipt.ACCEPTED)
    stage.wait(60)
    assert message(agent, number)["status"] == "delivering"
    agent.take(sent)
    in_state(agent, number, "submitted")


def test_message_that_the_program_refuses_is_sent_again_on_the_same_link(stage: LinkedStage) -> None:
    agent = stage.agent()
    agent.begin_turn()
    stage.in_status(agent.id, "running")
    agent.program.refuses = True
    number = send(agent, "go on", "--urgent")
    stage.until(lambda: len(agent.program.orders) > 5, "the message is refused several times")
    assert message(agent, number)["reason"] == "not delivered: not now; sm sends it again"
    agent.program.refuses = False
    agent.take(agent.sent(1))
    in_state(agent, number, "submitted")
    assert len(agent.program.targets) == 1


def test_message_without_a_receipt_after_an_error_is_unconfirmed(stage: LinkedStage) -> None:
    agent = stage.agent()
    agent.program.refuses, agent.program.tells = True, False
    number = send(agent, "go on")
    assert "has not said whether" in in_state(agent, number, "unconfirmed")["reason"]
    assert agent.program.orders == ["refuse"]


def test_message_to_a_deaf_program_is_decided_by_the_next_link(stage: LinkedStage) -> None:
    agent = stage.agent()
    agent.program.is_deaf = True
    number = send(agent, "go on")
    stage.until(lambda: len(agent.program.targets) > 1, "the link is opened again")
    assert agent.program.targets[1].unproven == (f"sm-{agent.id}-{number}",)
    agent.program.is_deaf = False
    in_state(agent, number, "unconfirmed")
    assert agent.program.sent == []


def test_message_is_not_given_up_while_a_new_link_is_silent(stage: LinkedStage) -> None:
    agent = stage.agent()
    number = send(agent, "go on")
    agent.sent(1)
    agent.program.lose()
    agent.program.is_silent = True
    agent.reconnect()
    stage.wait(600)
    assert message(agent, number)["status"] == "delivering"
    assert stage.session(agent.id)["status_stale"]
    agent.become_idle()
    in_state(agent, number, "unconfirmed")


def test_message_under_way_is_unconfirmed_when_its_session_ends(stage: LinkedStage) -> None:
    agent = stage.agent()
    number = send(agent, "go on")
    agent.sent(1)
    stage.sm("kill", agent.id, "--force")
    stage.ended(agent.id)
    assert in_state(agent, number, "unconfirmed")["reason"].endswith("it may have received this message")


def test_message_is_never_sent_twice_wherever_the_daemon_is_dropped(stage: LinkedStage) -> None:
    agent = stage.agent()
    for steps in range(0, 60, 3):
        before = len(agent.program.sent)
        number = send(agent, f"part {steps}")
        stage.drop_after(steps)
        stage.wait(1)
        stage.kill_daemon()
        for sent in agent.program.sent[before:]:
            agent.program.conversation.add(sent.id)
        stage.start_daemon()
        agent.reconnect()
        stage.wait(20)
        for sent in agent.program.sent[before:]:
            agent.take(sent)
        stage.until(
            lambda number=number: message(agent, number)["status"] in ("submitted", "unconfirmed"),  # type: ignore[misc]  # bound now
            "the outcome is known",
        )
        ids = [sent.id for sent in agent.program.sent[before:]]
        assert len(ids) <= 1
        assert ids or message(agent, number)["status"] == "unconfirmed"

"""Told outside: the operator's program and webhooks, through failures, crashes and receivers that hang."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from sm.linux.processes import identify, is_alive
from tests.instance import Instance, until
from tests.integration.test_endings import rows, written
from tests.notifiers.receiver import Receiver
from tests.notifiers.test_webhook import signed

SECRET = "the operator's key"


def notifying(command: str | None = None, *urls: str, events: str | None = None) -> Instance:
    """An instance that tells a shell script, whose $1 is its directory, and webhooks."""
    made = Instance()
    secret = made.home / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    lines = [made.config.read_text(), "notify:"]
    if command is not None:
        lines.append(f"  command: {orjson.dumps(['sh', '-c', command, 'sh', str(made.home)]).decode()}")
    if urls:
        only = f", events: [{events}]" if events else ""
        lines.append("  webhooks:")
        lines += [f'    - {{url: "{url}", secret_file: "{secret}"{only}}}' for url in urls]
    made.config.write_text("\n".join(lines) + "\n")
    return made


KEEP = 'cat >> "$1/told"'


def told(instance: Instance) -> list[dict[str, Any]]:
    """What the program was told, in order."""
    path = instance.home / "told"
    return [orjson.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def about(bodies: list[dict[str, Any]], session: dict[str, Any]) -> list[str]:
    return [body["type"] for body in bodies if body["session_id"] == session["session_id"]]


def settled(instance: Instance) -> None:
    """Everything that was to be done outside is done, or given up."""
    until(
        lambda: rows(instance, "SELECT count(*) FROM outbox WHERE state IN ('pending', 'taken')") == [(0,)],
        "everything that was to be done is done",
    )


def end(instance: Instance, session: dict[str, Any]) -> dict[str, Any]:
    """By its own doing, not by a kill of ours."""
    os.kill(session["pid"], signal.SIGKILL)
    return instance.ended(session["session_id"])


def states(instance: Instance, kind: str) -> list[str]:
    return [s for (k, s) in rows(instance, "SELECT kind, state FROM outbox ORDER BY id") if k == kind]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def test_an_ending_without_a_parent_is_told_once_to_each(receiver: Receiver) -> None:
    with notifying(KEEP, receiver.url("/one"), receiver.url("/two")) as instance:
        done = instance.spawn("Sh", "sm complete 'all done' > o.txt; exec sleep 1000")
        failed = instance.spawn("Sh", "exit 3")
        for session in (done, failed):
            instance.ended(failed["session_id"])
            until(lambda s=session: about(told(instance), s), "the program is told")  # type: ignore[misc]  # bound
        until(lambda: len(receiver.got) == 4, "both webhooks are told")
        end(instance, done)  # its process; that it is done was told
        settled(instance)
        assert (about(told(instance), done), about(told(instance), failed)) == (["completed"], ["error"])
        for path in ("/one", "/two"):
            got = [each for each in receiver.got if each.path == path]
            assert sorted(each.delivery for each in got) == sorted(
                f"{s['session_id']}/ending:1" for s in (done, failed)
            )
            for each in got:
                at, _, version = each.headers["SM-Signature"].removeprefix("t=").partition(",")
                assert version == f"v1={signed(SECRET, at, each.body)}"
        assert len(receiver.got) == 4
        (body,) = [b for b in told(instance) if b["session_id"] == done["session_id"]]
        assert body in [each.json for each in receiver.got]
        assert (body["completion_message"], body["status"]) == ("all done", "completed")
        assert body["name"] == done["name"] and "all done" in body["text"]
        (body,) = [b for b in told(instance) if b["session_id"] == failed["session_id"]]
        assert (body["exit_code"], body["status"], body["agent_type"]) == (3, "error", "Sh")


def ended_child(instance: Instance) -> tuple[dict[str, Any], dict[str, Any]]:
    """A parent, and its child of whose end it is told."""
    parent = instance.spawn("Sleeper")
    child = instance.spawn("Sleeper", "--parent", parent["session_id"])
    end(instance, child)
    told_in = parent["session_id"]
    until(lambda: child["session_id"] in str(instance.json("log", told_in)), "its parent is told")
    return parent, child


def test_an_ending_with_a_parent_is_told_to_the_parent_and_not_outside(receiver: Receiver) -> None:
    with notifying(KEEP, receiver.url()) as instance:
        _, child = ended_child(instance)
        root = instance.spawn("Sleeper")
        end(instance, root)
        until(lambda: receiver.got and told(instance), "of another ending it is told outside")
        settled(instance)
        for bodies in (told(instance), [each.json for each in receiver.got]):
            assert about(bodies, child) == []
            assert about(bodies, root) == ["error"]


def test_an_ending_that_a_parent_did_not_live_to_hear_is_told_outside(receiver: Receiver) -> None:
    with notifying(KEEP, receiver.url()) as instance:
        parent, child = ended_child(instance)
        end(instance, parent)
        until(lambda: child["session_id"] in instance.sm("inbox"), "the operator is told")
        settled(instance)
        for bodies in (told(instance), [each.json for each in receiver.got]):
            assert (about(bodies, child), about(bodies, parent)) == (["error"], ["error"])


def test_a_request_is_told_outside(receiver: Receiver) -> None:
    with notifying(KEEP, receiver.url()) as instance:
        session = instance.spawn("Sh", "sm ask 'Which way?' --option left > q.txt; exec sleep 1000")
        until(lambda: receiver.got and told(instance), "the question is told outside")
        body = receiver.got[0].json
        assert (body, body["type"], body["status"]) == (told(instance)[0], "request", "running")
        assert "Which way?" in body["text"] and body["text"].endswith("sm answer r1 TEXT")
        assert receiver.got[0].delivery == f"{session['session_id']}/request:1"


def test_a_webhook_is_told_only_what_it_asks_for(receiver: Receiver) -> None:
    with notifying(KEEP, receiver.url(), events="completed") as instance:
        failed, done = instance.spawn("Sh", "exit 3"), instance.spawn("Sh", "exit 0")
        until(lambda: len(told(instance)) == 2, "the program is told of both")
        settled(instance)
        assert [each.delivery for each in receiver.got] == [f"{done['session_id']}/ending:1"]
        assert about(told(instance), failed) == ["error"]


def test_a_webhook_that_is_down_is_told_when_it_is_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = int(nobody.getsockname()[1])
    with notifying(KEEP, f"http://127.0.0.1:{port}/hook") as instance:
        sessions = [instance.spawn("Sh", "exit 3") for _ in range(2)]
        until(lambda: len(told(instance)) == 2, "the program is told, whatever the webhook does")
        until(
            lambda: "will tell later" in (instance.state / "log" / "daemon.log").read_text(), "it was tried"
        )
        assert states(instance, "webhook") == ["pending", "pending"]
        assert instance.json("status")["dead_letters"] == 0
        with Receiver(port) as receiver:
            until(lambda: len(receiver.got) == 2, "it is told of both")
            settled(instance)
            order = [each.delivery for each in receiver.got]
            assert sorted(order) == sorted(f"{s['session_id']}/ending:1" for s in sessions)
            assert order == [body["occasion"] for body in told(instance)]  # in the order in which it happened


def test_a_webhook_that_fails_twice_is_told_until_it_accepts(receiver: Receiver) -> None:
    receiver.answers = [500, 503]
    with notifying(None, receiver.url()) as instance:
        session = instance.spawn("Sh", "exit 3")
        until(lambda: len(receiver.got) == 3, "it is told three times")
        settled(instance)
        assert {each.delivery for each in receiver.got} == {f"{session['session_id']}/ending:1"}
        assert len({each.body for each in receiver.got}) == 1
        assert states(instance, "webhook") == ["done"]
        assert instance.json("status")["dead_letters"] == 0
        assert len(receiver.got) == 3


def test_a_refusal_for_good_and_a_failed_program_are_dead_letters_with_their_reasons(
    receiver: Receiver,
) -> None:
    receiver.answer = 410
    with notifying(f'{KEEP}; echo ran >> "$1/ran"; exit 7', receiver.url()) as instance:
        session = instance.spawn("Sh", "exit 3")
        until(lambda: instance.json("status")["dead_letters"] == 2, "both are dead letters")
        assert "Dead letters: 2" in instance.sm("status")
        warnings = [e["message"] for e in instance.events(session["session_id"]) if e["type"] == "warning"]
        assert sorted(w.partition(" - ")[2] for w in warnings) == [
            "notify.command ended with exit code 7",
            "the webhook answered 410",
        ]
        until(lambda: session["session_id"] in instance.sm("inbox"), "the operator hears of it all the same")
        instance.kill_daemon()
        assert instance.json("status")["dead_letters"] == 2
        settled(instance)
        assert (len(receiver.got), (instance.home / "ran").read_text()) == (1, "ran\n")


def test_a_webhook_hears_again_after_a_crash_of_the_daemon_and_knows_it_by_its_delivery(
    receiver: Receiver,
) -> None:
    receiver.hang()
    with notifying(None, receiver.url()) as instance:
        session = instance.spawn("Sh", "exit 3")
        until(lambda: len(receiver.got) == 1, "the webhook has it, and has not answered")
        instance.kill_daemon()
        receiver.go_on()
        instance.sm("status")
        until(lambda: len(receiver.got) == 2, "the next daemon tells it")
        settled(instance)
        assert {each.delivery for each in receiver.got} == {f"{session['session_id']}/ending:1"}
        assert receiver.got[0].body == receiver.got[1].body
        instance.kill_daemon()
        instance.sm("status")
        settled(instance)
        assert len(receiver.got) == 2  # it has accepted: that is known to every later daemon
        assert instance.json("status")["dead_letters"] == 0


def test_a_program_that_a_crash_interrupts_is_not_run_again_and_that_is_told() -> None:
    with notifying(f'{KEEP}; echo $$ >> "$1/ran"; exec sleep 1000') as instance:
        session = instance.spawn("Sh", "exit 3")
        pid = int(written(instance.home / "ran"))
        instance.kill_daemon()
        until(lambda: instance.json("status")["dead_letters"] == 1, "it is a dead letter")
        settled(instance)
        assert (instance.home / "ran").read_text() == f"{pid}\n"
        warnings = [e["message"] for e in instance.events(session["session_id"]) if e["type"] == "warning"]
        assert [w for w in warnings if "the daemon ended while it" in w]
        assert len(told(instance)) == 1
        _end_program(pid)


def _end_program(pid: int) -> None:
    """What the killed daemon has left: nobody else knows of it."""
    process = identify(pid)
    assert process is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_alive(process), "it is gone")


def test_what_a_program_was_to_be_told_before_a_crash_is_told_after_it() -> None:
    with notifying(f'{KEEP}; echo $$ >> "$1/ran"; while [ ! -e "$1/go" ]; do sleep 0.05; done') as instance:
        first = instance.spawn("Sh", "exit 3")
        pid = int(written(instance.home / "ran"))
        second = instance.spawn("Sh", "exit 4")
        instance.ended(second["session_id"])
        assert states(instance, "notify_command") == ["taken", "pending"]
        instance.kill_daemon()
        (instance.home / "go").touch()
        instance.sm("status")
        until(lambda: about(told(instance), second), "the next daemon tells of the second")
        settled(instance)
        assert (about(told(instance), first), about(told(instance), second)) == (["error"], ["error"])
        assert states(instance, "notify_command") == ["dead", "done"]
        until(lambda: identify(pid) is None, "the first program has ended")


def test_a_webhook_that_hangs_delays_nobody_else(receiver: Receiver) -> None:
    with Receiver() as other:
        receiver.hang()
        instance = notifying(KEEP, receiver.url(), other.url())
        try:
            first = instance.spawn("Sh", "exit 3")
            until(lambda: receiver.got, "the webhook hangs")
            second, third = instance.spawn("Sleeper"), instance.spawn("Sleeper")
            end(instance, third)
            instance.sm("kill", second["session_id"])
            for session in (first, second, third):
                occasion = f"{session['session_id']}/ending:1"
                until(lambda o=occasion: o in [b["occasion"] for b in told(instance)], "the program is told")  # type: ignore[misc]  # bound
                until(lambda o=occasion: o in [g.delivery for g in other.got], "the other webhook is told")  # type: ignore[misc]  # bound
            until(lambda: third["session_id"] in instance.sm("inbox"), "the operator is told")
            path: Path = instance.state / "archives" / f"{first['session_id']}.txt"
            until(path.exists, "the output is kept")
            assert states(instance, "webhook").count("pending") == 3
            assert len(receiver.got) == 1  # nothing overtakes there what is not accepted yet
            receiver.go_on()
            until(lambda: len({each.delivery for each in receiver.got}) == 3, "it is told of all of them")
            settled(instance)
        finally:
            receiver.go_on()
            instance.end()


def test_a_program_that_hangs_delays_nobody_else(receiver: Receiver) -> None:
    instance = notifying(
        f'{KEEP}; echo $$ >> "$1/ran"; while [ ! -e "$1/go" ]; do sleep 0.05; done', receiver.url()
    )
    try:
        first = instance.spawn("Sh", "exit 3")
        written(instance.home / "ran")
        second = instance.spawn("Sleeper")
        instance.sm("kill", second["session_id"])
        third = instance.spawn("Sh", "exit 4")
        for session in (first, second, third):
            occasion = f"{session['session_id']}/ending:1"
            until(lambda o=occasion: o in [g.delivery for g in receiver.got], "the webhook is told")  # type: ignore[misc]  # bound
        until(lambda: third["session_id"] in instance.sm("inbox"), "the operator is told")
        assert len(told(instance)) == 1  # one program at a time
        (instance.home / "go").touch()
        until(lambda: len(told(instance)) == 3, "the program is told of the rest")
        settled(instance)
        assert states(instance, "notify_command") == ["done"] * 3
    finally:
        (instance.home / "go").touch()
        instance.end()


def test_what_is_told_outside_after_a_removal_is_kept_no_longer(receiver: Receiver) -> None:
    receiver.hang()
    instance = notifying(None, receiver.url())
    try:
        script = "sm complete plain-words-that-it-said > o.txt; exec sleep 1000"
        session = instance.spawn("Sh", script)
        until(lambda: receiver.got, "the webhook has it, and has not answered")
        instance.sm("kill", session["session_id"])
        instance.sm("rm", session["session_id"])
        receiver.go_on()
        settled(instance)
        assert states(instance, "webhook") == ["done"]
        assert "plain-words" not in str(rows(instance, "SELECT payload FROM outbox"))
    finally:
        receiver.go_on()
        instance.end()

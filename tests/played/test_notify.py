"""Notifications to the operator's program and webhooks: retries, crashes and receivers that hang."""

import asyncio
from typing import Any

from tests.archived import Archived
from tests.integration.ended_agents import end_process, rows, wait_line, wait_outbox
from tests.notifiers.test_webhook import signature
from tests.played.notified_instance import SECRET, home_of, inputs, instance_with, keep
from tests.sim.outside import Outside
from tests.sim.receiver import PlayedReceiver
from tests.sim.stage import Instance, until


async def note_run(outside: Outside) -> int:
    """Keep the notification, and note the run with its pid."""
    await keep(outside)
    with (home_of(outside) / "ran").open("a") as file:
        file.write(f"{outside.process.pid}\n")
    return 0


async def fail(outside: Outside) -> int:
    await note_run(outside)
    return 7


async def run_for_ever(outside: Outside) -> int:
    await note_run(outside)
    await asyncio.sleep(1_000_000)
    return 0


async def wait_for_go(outside: Outside) -> int:
    """Run until the file `go` exists."""
    await note_run(outside)
    while not (home_of(outside) / "go").exists():  # noqa: ASYNC110 - as a script does
        await asyncio.sleep(0.05)
    return 0


def types(bodies: list[dict[str, Any]], session: dict[str, Any]) -> list[str]:
    return [body["type"] for body in bodies if body["session_id"] == session["session_id"]]


def states(instance: Instance, kind: str) -> list[str]:
    return [s for (k, s) in rows(instance, "SELECT kind, state FROM outbox ORDER BY id") if k == kind]


def test_ending_without_a_parent_notifies_the_program_and_each_webhook_once() -> None:
    receiver = PlayedReceiver()
    with instance_with(keep, receiver, paths=("/one", "/two")) as instance:
        receiver.serve(instance)
        done = instance.spawn("Sh", "sm complete 'all done' > o.txt; exec sleep 1000")
        failed = instance.spawn("Sh", "exit 3")
        for session in (done, failed):
            instance.ended(failed["session_id"])
            until(lambda s=session: types(inputs(instance), s), "the program's notification")  # type: ignore[misc]  # bound
        until(lambda: len(receiver.got) == 4, "both webhooks")
        end_process(instance, done)  # the completion was notified before
        wait_outbox(instance)
        assert (types(inputs(instance), done), types(inputs(instance), failed)) == (["completed"], ["error"])
        for path in ("/one", "/two"):
            got = [request for request in receiver.got if request.path == path]
            assert sorted(request.delivery for request in got) == sorted(
                f"{s['session_id']}/ending:1" for s in (done, failed)
            )
            for request in got:
                at, _, version = request.headers["SM-Signature"].removeprefix("t=").partition(",")
                assert version == f"v1={signature(SECRET, at, request.body)}"
        assert len(receiver.got) == 4
        (body,) = [b for b in inputs(instance) if b["session_id"] == done["session_id"]]
        assert body in [request.json for request in receiver.got]
        assert (body["completion_message"], body["status"]) == ("all done", "completed")
        assert body["name"] == done["name"] and "all done" in body["text"]
        (body,) = [b for b in inputs(instance) if b["session_id"] == failed["session_id"]]
        assert (body["exit_code"], body["status"], body["agent_type"]) == (3, "error", "Sh")


def test_message_to_the_operator_notifies_the_program_and_webhooks() -> None:
    receiver = PlayedReceiver()
    with instance_with(keep, receiver) as instance:
        receiver.serve(instance)
        session = instance.spawn("Sleeper", "x")
        sent = instance.json(
            "send", "operator", "half is done", env=instance.as_session(session["session_id"])
        )
        wait_outbox(instance)
        (body,) = inputs(instance)
        assert [request.json for request in receiver.got] == [body]
        number = sent["message_id"]
        assert (body["type"], body["occasion"]) == ("message", f"{session['session_id']}/message:{number}")
        label = f"{session['name']} ({session['session_id']})"
        assert body["text"] == f'message {number} from {label}: "half is done"'


def ended_child(instance: Instance) -> tuple[dict[str, Any], dict[str, Any]]:
    """A parent, and its ended child; the parent has the notice."""
    parent = instance.spawn("Sleeper")
    child = instance.spawn("Sleeper", "--parent", parent["session_id"])
    end_process(instance, child)
    until(lambda: child["session_id"] in str(instance.json("log", parent["session_id"])), "the notice")
    return parent, child


def test_ending_with_a_parent_notifies_only_the_parent() -> None:
    receiver = PlayedReceiver()
    with instance_with(keep, receiver) as instance:
        receiver.serve(instance)
        _, child = ended_child(instance)
        root = instance.spawn("Sleeper")
        end_process(instance, root)
        until(lambda: receiver.got and inputs(instance), "the notification of the root session")
        wait_outbox(instance)
        for bodies in (inputs(instance), [request.json for request in receiver.got]):
            assert types(bodies, child) == []
            assert types(bodies, root) == ["error"]


def test_ending_is_notified_outside_when_the_parent_ended_before_reading_it() -> None:
    receiver = PlayedReceiver()
    with instance_with(keep, receiver) as instance:
        receiver.serve(instance)
        parent, child = ended_child(instance)
        end_process(instance, parent)
        until(lambda: child["session_id"] in instance.sm("inbox"), "the operator's notice")
        wait_outbox(instance)
        for bodies in (inputs(instance), [request.json for request in receiver.got]):
            assert (types(bodies, child), types(bodies, parent)) == (["error"], ["error"])


def test_request_notifies_the_program_and_the_webhook() -> None:
    receiver = PlayedReceiver()
    with instance_with(keep, receiver) as instance:
        receiver.serve(instance)
        session = instance.spawn("Sh", "sm ask 'Which way?' --option left > q.txt; exec sleep 1000")
        until(lambda: receiver.got and inputs(instance), "the notifications")
        body = receiver.got[0].json
        assert (body, body["type"], body["status"]) == (inputs(instance)[0], "request", "running")
        assert "Which way?" in body["text"] and body["text"].endswith("sm answer r1 TEXT")
        assert receiver.got[0].delivery == f"{session['session_id']}/request:1"


def test_webhook_gets_only_the_configured_events() -> None:
    receiver = PlayedReceiver()
    with instance_with(keep, receiver, events="completed") as instance:
        receiver.serve(instance)
        failed, done = instance.spawn("Sh", "exit 3"), instance.spawn("Sh", "exit 0")
        until(lambda: len(inputs(instance)) == 2, "both notifications")
        wait_outbox(instance)
        assert [request.delivery for request in receiver.got] == [f"{done['session_id']}/ending:1"]
        assert types(inputs(instance), failed) == ["error"]


def test_webhook_gets_notifications_later_when_it_was_down() -> None:
    receiver = PlayedReceiver()  # down until it serves
    with instance_with(keep, receiver) as instance:
        sessions = [instance.spawn("Sh", "exit 3") for _ in range(2)]
        until(lambda: len(inputs(instance)) == 2, "the program's notifications")
        until(
            lambda: (
                "could not deliver a notice, will retry"
                in (instance.state / "log" / "daemon.log").read_text()
            ),
            "a retry",
        )
        assert states(instance, "webhook") == ["pending", "pending"]
        assert instance.json("status")["dead_letters"] == 0
        receiver.serve(instance)
        until(lambda: len(receiver.got) == 2, "both webhook requests")
        wait_outbox(instance)
        order = [request.delivery for request in receiver.got]
        assert sorted(order) == sorted(f"{s['session_id']}/ending:1" for s in sessions)
        assert order == [body["occasion"] for body in inputs(instance)]  # in order of the events


def test_webhook_is_retried_until_it_accepts() -> None:
    receiver = PlayedReceiver()
    receiver.answers = [500, 503]
    with instance_with(None, receiver) as instance:
        receiver.serve(instance)
        session = instance.spawn("Sh", "exit 3")
        until(lambda: len(receiver.got) == 3, "three attempts")
        wait_outbox(instance)
        assert {request.delivery for request in receiver.got} == {f"{session['session_id']}/ending:1"}
        assert len({request.body for request in receiver.got}) == 1
        assert states(instance, "webhook") == ["done"]
        assert instance.json("status")["dead_letters"] == 0
        assert len(receiver.got) == 3


def test_permanent_refusal_and_failed_program_are_dead_letters_with_reasons() -> None:
    receiver = PlayedReceiver()
    receiver.answer = 410
    with instance_with(fail, receiver) as instance:
        receiver.serve(instance)
        session = instance.spawn("Sh", "exit 3")
        until(lambda: instance.json("status")["dead_letters"] == 2, "both are dead letters")
        assert "Dead letters: 2" in instance.sm("status")
        warnings = [e["message"] for e in instance.events(session["session_id"]) if e["type"] == "warning"]
        assert sorted(w.partition(" - ")[2] for w in warnings) == [
            "notify.command ended with exit code 7",
            "the webhook answered 410",
        ]
        until(lambda: session["session_id"] in instance.sm("inbox"), "the operator's notice")
        instance.kill_daemon()
        assert instance.json("status")["dead_letters"] == 2
        wait_outbox(instance)
        assert (len(receiver.got), len((instance.home / "ran").read_text().splitlines())) == (1, 1)


def test_webhook_gets_the_same_delivery_id_when_the_daemon_crashes_and_retries() -> None:
    receiver = PlayedReceiver()
    receiver.hang()
    with instance_with(None, receiver) as instance:
        receiver.serve(instance)
        session = instance.spawn("Sh", "exit 3")
        until(lambda: len(receiver.got) == 1, "the webhook's request")
        instance.kill_daemon()
        receiver.go_on()
        instance.sm("status")
        until(lambda: len(receiver.got) == 2, "the second request")
        wait_outbox(instance)
        assert {request.delivery for request in receiver.got} == {f"{session['session_id']}/ending:1"}
        assert receiver.got[0].body == receiver.got[1].body
        instance.kill_daemon()
        instance.sm("status")
        wait_outbox(instance)
        assert len(receiver.got) == 2  # the webhook has accepted, and later daemons know it
        assert instance.json("status")["dead_letters"] == 0


def test_program_is_not_run_again_when_a_crash_interrupts_it() -> None:
    with instance_with(run_for_ever) as instance:
        session = instance.spawn("Sh", "exit 3")
        pid = int(wait_line(instance.home / "ran", until))
        instance.kill_daemon()
        until(lambda: instance.json("status")["dead_letters"] == 1, "a dead letter")
        wait_outbox(instance)
        assert (instance.home / "ran").read_text() == f"{pid}\n"
        warnings = [e["message"] for e in instance.events(session["session_id"]) if e["type"] == "warning"]
        assert [w for w in warnings if "the daemon ended during the effect notify_command" in w]
        assert len(inputs(instance)) == 1
        assert instance.lives(pid), "the killed daemon leaves the program running"


def test_pending_notifications_reach_the_program_after_a_crash() -> None:
    with instance_with(wait_for_go) as instance:
        first = instance.spawn("Sh", "exit 3")
        pid = int(wait_line(instance.home / "ran", until))
        second = instance.spawn("Sh", "exit 4")
        instance.ended(second["session_id"])
        assert states(instance, "notify_command") == ["taken", "pending"]
        instance.kill_daemon()
        (instance.home / "go").touch()
        instance.sm("status")
        until(lambda: types(inputs(instance), second), "the second notification")
        wait_outbox(instance)
        assert (types(inputs(instance), first), types(inputs(instance), second)) == (["error"], ["error"])
        assert states(instance, "notify_command") == ["dead", "done"]
        until(lambda: not instance.lives(pid), "the first program has ended")


def test_hanging_webhook_delays_no_other_receiver() -> None:
    receiver, other = PlayedReceiver(), PlayedReceiver(8001)
    receiver.hang()
    with instance_with(keep, receiver, other) as instance:
        for each in (receiver, other):
            each.serve(instance)
        first = instance.spawn("Sh", "exit 3")
        until(lambda: receiver.got, "the webhook's request")
        second, third = instance.spawn("Sleeper"), instance.spawn("Sleeper")
        end_process(instance, third)
        instance.sm("kill", second["session_id"])
        for session in (first, second, third):
            occasion = f"{session['session_id']}/ending:1"
            until(lambda o=occasion: o in [b["occasion"] for b in inputs(instance)], "program")  # type: ignore[misc]  # bound
            until(lambda o=occasion: o in [g.delivery for g in other.got], "the other webhook's request")  # type: ignore[misc]  # bound
        until(lambda: third["session_id"] in instance.sm("inbox"), "the operator's notice")
        path = Archived(instance.state / "archives" / first["session_id"]) / "terminal.txt"
        until(path.exists, "the output is archived")
        assert states(instance, "webhook").count("pending") == 3
        # Later deliveries wait for the first, which the daemon repeats after a timeout.
        assert {g.delivery for g in receiver.got} == {f"{first['session_id']}/ending:1"}
        receiver.go_on()
        until(lambda: len({request.delivery for request in receiver.got}) == 3, "all webhook requests")
        wait_outbox(instance)


def test_hanging_program_delays_no_other_receiver() -> None:
    receiver = PlayedReceiver()
    with instance_with(wait_for_go, receiver) as instance:
        receiver.serve(instance)
        first = instance.spawn("Sh", "exit 3")
        wait_line(instance.home / "ran", until)
        second = instance.spawn("Sleeper")
        instance.sm("kill", second["session_id"])
        third = instance.spawn("Sh", "exit 4")
        for session in (first, second, third):
            occasion = f"{session['session_id']}/ending:1"
            until(lambda o=occasion: o in [g.delivery for g in receiver.got], "the webhook's request")  # type: ignore[misc]  # bound
        until(lambda: third["session_id"] in instance.sm("inbox"), "the operator's notice")
        assert len(inputs(instance)) == 1  # one program at a time
        (instance.home / "go").touch()
        until(lambda: len(inputs(instance)) == 3, "the other notifications")
        wait_outbox(instance)
        assert states(instance, "notify_command") == ["done"] * 3


def test_notification_text_is_deleted_after_delivery_when_the_session_was_removed() -> None:
    receiver = PlayedReceiver()
    receiver.hang()
    with instance_with(None, receiver) as instance:
        receiver.serve(instance)
        script = "sm complete plain-words-that-it-said > o.txt; exec sleep 1000"
        session = instance.spawn("Sh", script)
        until(lambda: receiver.got, "the webhook's request")
        instance.sm("kill", session["session_id"])
        instance.sm("rm", session["session_id"])
        receiver.go_on()
        wait_outbox(instance)
        assert states(instance, "webhook") == ["done"]
        assert "plain-words" not in str(rows(instance, "SELECT payload FROM outbox"))

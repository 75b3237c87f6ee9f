"""The digest that is sent each day: to the inbox, programs, webhooks and Telegram."""

import sqlite3
from contextlib import closing

from tests.played.notified_instance import inputs, instance_with, keep
from tests.sim.receiver import PlayedReceiver
from tests.sim.stage import Instance, until
from tests.sim.telegram import PlayedTelegramApi
from tests.telegram_instance import configure, start


def with_digest_at(instance: Instance, at: str) -> Instance:
    instance.config.write_text(instance.config.read_text() + f'  digest_at: "{at}"\n')
    return instance


def timer(instance: Instance) -> tuple[str, str]:
    """The time at which the next digest is due, and the data of its timer."""
    with closing(sqlite3.connect(instance.state / "sm.db")) as db:
        rows = db.execute("SELECT due_at, data FROM timers WHERE kind = 'digest'").fetchall()
    (row,) = rows
    return str(row[0]), str(row[1])


def make_due(instance: Instance) -> None:
    """As if the time had come while the daemon was away."""
    instance.kill_daemon()
    with closing(sqlite3.connect(instance.state / "sm.db")) as db, db:
        db.execute("UPDATE timers SET due_at = '2026-01-01T07:00:00.000Z' WHERE kind = 'digest'")
    instance.start_daemon()


def make_long(instance: Instance, endings: int) -> None:
    """Add copies of the ended sessions, each with a long result, while the daemon is away."""
    with closing(sqlite3.connect(instance.state / "sm.db")) as db, db:
        db.execute("UPDATE sessions SET completion_message = ?", ("\N{COLLISION SYMBOL}" * 150,))
        db.execute("CREATE TEMP TABLE copies AS SELECT * FROM sessions")
        for number in range(endings):
            name = f"copy{number:04}"
            db.execute("UPDATE copies SET id = ?, friendly_name = ?", (name, name))
            db.execute("INSERT INTO sessions SELECT * FROM copies")


def digests(instance: Instance) -> list[str]:
    return [m["text"] for m in instance.json("inbox") if m["text"].startswith("Since ")]


def test_digest_is_sent_once_a_day_to_the_inbox_the_program_and_webhooks() -> None:
    receiver = PlayedReceiver()
    with with_digest_at(instance_with(keep, receiver, events="digest"), "07:00") as instance:
        receiver.serve(instance)
        failed = instance.spawn("Sh", "exit 3", "--name", "bad")["session_id"]
        instance.ended(failed)
        before = timer(instance)
        make_due(instance)
        until(lambda: digests(instance), "the digest arrives")
        after = timer(instance)
        assert after[0] >= before[0] > "2026-01-01T07:00:00.000Z"
        assert '"since": null' not in after[1] and '"since":null' not in after[1]
        (text,) = digests(instance)
        assert "sh-bad error" in text
        until(lambda: [b for b in inputs(instance) if b["type"] == "digest"], "the program gets the digest")
        until(lambda: [r for r in receiver.got if r.json["type"] == "digest"], "the webhook gets the digest")
        # A daemon that starts again sends nothing more, and the next digest has nothing old.
        instance.kill_daemon()
        instance.start_daemon()
        assert len(digests(instance)) == 1
        assert timer(instance) == after
        make_due(instance)
        until(lambda: len(digests(instance)) == 2, "the next digest arrives")
        assert "sh-bad" not in digests(instance)[1]


def test_long_digest_arrives_whole_in_telegram() -> None:
    with PlayedTelegramApi() as api, Instance() as instance:
        api.serve(instance)
        api.person(1001, "Ann", has_started=True)
        configure(instance, api, 'notify: {digest_at: "07:00"}')
        start(instance, api)
        instance.ended(instance.spawn("Sh", "exit 3")["session_id"])
        instance.kill_daemon()
        make_long(instance, 40)
        instance.start_daemon()
        make_due(instance)
        until(lambda: digests(instance), "the digest arrives in the inbox")
        (text,) = digests(instance)
        # Telegram removes the spaces at the beginning of a message.
        lines = [line.strip() for line in text.splitlines() if line]

        def received() -> list[str]:
            texts = [message.text or "" for message in api.messages(1001)]
            shown = [line.strip() for text in texts for line in text.splitlines()]
            return [line for line in shown if line in lines]

        until(lambda: received()[-1:] == lines[-1:], "the last line arrives in the chat")
        assert received() == lines


def test_timer_follows_the_configuration() -> None:
    with with_digest_at(instance_with(keep), "07:00") as instance:
        instance.spawn("Sleeper", "x")
        assert timer(instance)[1].find("07:00") > 0
        instance.config.write_text(instance.config.read_text().replace("07:00", "08:30"))
        instance.restart_daemon()
        until(lambda: timer(instance)[1].find("08:30") > 0, "the timer has the new time")
        instance.config.write_text(
            instance.config.read_text().replace('digest_at: "08:30"', "digest_at: null")
        )
        instance.restart_daemon()

        def is_gone() -> bool:
            with closing(sqlite3.connect(instance.state / "sm.db")) as db:
                return not db.execute("SELECT 1 FROM timers WHERE kind = 'digest'").fetchall()

        until(is_gone, "the timer is removed")

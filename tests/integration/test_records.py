"""Removal of a session whose notifications a program has received."""

from tests.instance import Instance
from tests.integration.ended_agents import wait_outbox
from tests.played.test_records import SAID, everything_in_tables


def test_rm_deletes_the_payload_of_sent_notifications(instance: Instance) -> None:
    instance.config.write_text(instance.config.read_text() + "notify: {command: ['true']}\n")
    session_id = instance.spawn("Sh", f"sm complete {SAID} > out.txt; exec sleep 1000")["session_id"]
    instance.in_status(session_id, "completed")
    instance.sm("kill", session_id)
    wait_outbox(instance)
    instance.sm("rm", session_id)
    wait_outbox(instance)
    assert SAID not in everything_in_tables(instance)["outbox"]

"""The end of a completed session's processes, when the configuration asks for it."""

import signal

from tests.instance import Instance, until
from tests.integration.ended_agents import ENDED, gone, outcome, wait_line


def test_completed_session_is_killed_with_its_descendants_when_configured() -> None:
    with Instance("child_agents: {cleanup: {auto_kill_on_complete: true}}") as instance:
        script = "sleep 1000 & echo $! > below; sm complete 'all done' > o.txt 2>&1; exec sleep 1000"
        session = instance.spawn("Sh", script)
        descendant = int(wait_line(instance.work / "below"))
        until(lambda: gone(session["pid"]) and gone(descendant), "its processes are ended")
        ended = until(
            lambda: (s := instance.session(session["session_id"]))["exit_signal"] and s, "its end is known"
        )
        assert outcome(ended) == ("completed", None, signal.SIGTERM)
        assert ended["completion_message"] == "all done"
        assert [e["type"] for e in instance.events() if e["type"] in ENDED] == ["completed"]

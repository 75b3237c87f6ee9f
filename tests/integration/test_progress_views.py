"""A change of a transcript that the system does not report."""

import mmap
from datetime import UTC, datetime, timedelta

from tests.instance import until
from tests.integration.played_claude import Stage
from tests.played.test_progress_views import MORE, message


def soon(seconds: int) -> str:
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_change_that_the_system_does_not_report_is_found_after_the_snapshot_interval() -> None:
    """inotify does not report a write to mapped memory. The default interval of 30 s is longer than the wait."""
    with Stage(MORE) as stage:
        agent = stage.agent()
        first, second = (f"{message(soon(seconds))}\n" for seconds in (30, 31))
        agent.transcript.parent.mkdir(parents=True)
        agent.transcript.write_text(first + " " * len(second))  # a line without its end is not read
        agent.send_event("PreToolUse", tool_name="Bash", tool_input={"command": "x"}, tool_use_id="t1")

        def is_counted(tokens: int) -> bool:
            return bool(stage.get(f"/v1/sessions/{agent.id}/progress")["tokens_used"] == tokens)

        until(lambda: is_counted(15), "its tokens are counted")
        with agent.transcript.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[len(first) :] = second.encode()
            mapped.flush()
        until(lambda: is_counted(30), "the second line is counted")

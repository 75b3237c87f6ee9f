"""The rows of a live view, as a client keeps them.

`python -m tests.live_board SOCKET OPTIONS` prints each update as a line of JSON, for a caller in a process of its own.
"""

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sm.client import live_stream
from sm.client.http import Client
from tests.waits import until as wait_until


class LiveBoard:
    """`until`: waits until the result of a function is true."""

    def __init__(self, until: Callable[[Callable[[], Any], str], Any] = wait_until) -> None:
        self._until = until
        self.rows: dict[str, live_stream.Json] = {}
        self.updates: list[live_stream.Json] = []
        self.revision: str | None = None
        self.earlier: list[tuple[str | None, bool, int]] = []
        """The numbers of sessions without rows, by workspace and by whether they are archived."""

    def follow(self, updates: Iterator[live_stream.Json]) -> None:
        """Add updates until the stream ends."""
        for update in updates:
            self.add(update)

    def add(self, update: live_stream.Json) -> None:
        if update["snapshot"]:
            self.rows, self.earlier = {}, []
        if (counts := update.get("earlier")) is not None:
            self.earlier = [(each["workspace"], each["archived"], each["sessions"]) for each in counts]
        self.rows |= {row["session_id"]: row for row in update["rows"]}
        for session_id in update["removed"]:
            self.rows.pop(session_id, None)
        self.updates.append(update)
        self.revision = update["revision"] or self.revision

    def shows(self, session_id: str, condition: Callable[[live_stream.Json], object]) -> live_stream.Json:
        """Wait until the row of the session fulfils the condition."""

        def look() -> live_stream.Json | None:
            row = self.rows.get(session_id)
            return row if row is not None and condition(row) else None

        found: live_stream.Json = self._until(look, f"the row of {session_id} has changed")
        return found


@contextlib.contextmanager
def board(socket: object, env: Mapping[str, str] | None = None, **options: Any) -> Iterator[LiveBoard]:
    """A board after its first update, of the session that `env` identifies, or of the operator if None.

    `options`: of `live.updates`.
    """
    argv = [sys.executable, "-m", "tests.live_board", str(socket), json.dumps(options)]
    with subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            updates = map(json.loads, process.stdout)
            shown = LiveBoard()
            shown.add(next(updates))
            thread = threading.Thread(target=shown.follow, args=(updates,))
            thread.start()
            yield shown
        finally:
            process.kill()
        thread.join()


if __name__ == "__main__":
    for printed in live_stream.updates(Client(sys.argv[1]), **json.loads(sys.argv[2])):
        sys.stdout.write(json.dumps(printed) + "\n")
        sys.stdout.flush()

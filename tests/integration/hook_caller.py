"""The hook of an agent, as a process of its session: each line of stdin is a request, each line of stdout its answer.

    SM_SESSION_ID=1a2b3c4d SM_TOKEN_FILE=FILE python -m tests.integration.hook_caller SOCKET

A request is `[path, key, body]`; an answer `["ok", JSON]`, or the refusal as `[code, message, hint]`. The process
retries while the daemon is away, as `sm hook` does.
"""

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from queue import Queue
from threading import Thread
from typing import TYPE_CHECKING, Any

from sm.client.http import Client
from sm.errors import DaemonUnavailable, SmError

if TYPE_CHECKING:  # the process has to start quickly
    from tests.instance import Instance

_AWAY_S = 20.0


class HookCaller:
    """A process of session `session_id` that sends requests one after the other."""

    def __init__(self, instance: "Instance", session_id: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.hook_caller", str(instance.socket)],
            env={**instance.env, **instance.as_session(session_id)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answers: Queue[list[Any]] = Queue()
        self._reading = Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(json.loads(line))

    def send(self, path: str, key: str, body: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps([path, key, body])}\n")
        self._process.stdin.flush()

    def receive(self) -> list[Any]:
        """Return the answer to the oldest request whose answer was not received yet."""
        return self._answers.get()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reading.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def _answer(client: Client, path: str, key: str, body: Mapping[str, object]) -> list[Any]:
    over_s = time.monotonic() + _AWAY_S
    while True:
        try:
            return ["ok", json.loads(client.text("POST", path, body=body, key=key))]
        except DaemonUnavailable as error:
            if time.monotonic() > over_s:
                return [error.code, error.message, error.hint]
            time.sleep(0.05)
        except SmError as error:
            return [error.code, error.message, error.hint]


if __name__ == "__main__":
    client = Client(sys.argv[1])
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_answer(client, *json.loads(line))) + "\n")
        sys.stdout.flush()

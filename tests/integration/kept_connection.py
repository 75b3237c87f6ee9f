"""A program of an agent that leaves the tree of the agent, and keeps two connections to $SM_SOCKET.

On one it waits for messages. Once the file `go` exists, it uses the other: it lists and notes. The file `done` then has
the statuses of the three answers, that of the wait first.
"""

import http.client
import json
import os
import socket
import threading
import time
from pathlib import Path

WAIT_S = 300


class Connection(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["SM_SOCKET"])

    def status_of(self, method: str, path: str, body: object = None) -> int:
        headers = {"SM-Protocol": "1", "Content-Type": "application/json"}
        self.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self.getresponse()
        answer.read()
        return answer.status


def main() -> None:
    statuses: list[int] = []
    waiting, kept = Connection("sm"), Connection("sm")
    me = "/v1/sessions/me"
    assert waiting.status_of("GET", me) == kept.status_of("GET", me) == 200
    os.setsid()

    def wait() -> None:
        statuses.append(waiting.status_of("POST", "/v1/inbox/take", {"wait_s": WAIT_S}))

    thread = threading.Thread(target=wait)
    thread.start()
    Path("asked").touch()
    while not Path("go").exists():
        time.sleep(0.02)
    thread.join()
    statuses.append(kept.status_of("GET", "/v1/sessions"))
    statuses.append(kept.status_of("POST", f"{me}/note", {"text": "after the end"}))
    Path("done.new").write_text(" ".join(map(str, statuses)) + "\n")
    Path("done.new").rename("done")


if __name__ == "__main__":
    main()

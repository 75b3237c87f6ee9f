"""Ask a daemon as one of its sessions: each line of stdin is a request, each line of stdout its answer.

    SM_SESSION_ID=1a2b3c4d python -m tests.asking SOCKET

A request is `[method, path, query, body]`; an answer `["ok", JSON]`, or the refusal as `[code, message, hint]`.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sm.client.http import Client, new_key
from sm.errors import SmError
from tests.load import scaled

if TYPE_CHECKING:  # the process has to start quickly
    from tests.instance import Instance

Query = Mapping[str, object]


def asked(
    instance: "Instance",
    session_id: str | None,
    *requests: tuple[Any, ...],
    marks: Mapping[str, str] | None = None,
) -> list[list[Any]]:
    """What the daemon answers a session (None: the operator) on `requests`: (method, path[, query[, body]])."""
    own = {} if session_id is None else {"SM_SESSION_ID": session_id}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.asking", str(instance.socket)],
        input="".join(f"{json.dumps(each)}\n" for each in requests),
        env={**instance.env, **own, **(marks or {})},
        capture_output=True,
        text=True,
        timeout=scaled(60),
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def _answer(
    client: Client, method: str, path: str, query: Query | None = None, body: Query | None = None
) -> Any:
    sent = (body or {}) if method == "POST" else None
    try:
        return ["ok", json.loads(client.text(method, path, query, body=sent, key=new_key()))]
    except SmError as error:
        return [error.code, error.message, error.hint]


if __name__ == "__main__":
    asking = Client(sys.argv[1])
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_answer(asking, *json.loads(line))) + "\n")

"""Sends requests to a daemon as one of its sessions, from a process of its own.

    SM_SESSION_ID=1a2b3c4d SM_TOKEN_FILE=FILE python -m tests.session_client SOCKET

Each line of stdin is a request `[method, path, query, body]`. Each line of stdout is the response: `["ok", JSON]`, or
an error as `[code, message, hint]`.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sm.client.http import Client, new_key
from sm.errors import SmError

if TYPE_CHECKING:  # not imported at run time, so that the process starts quickly
    from tests.instance import Instance

Query = Mapping[str, object]


def request_as(
    instance: "Instance",
    session_id: str | None,
    *requests: tuple[Any, ...],
    marks: Mapping[str, str] | None = None,
) -> list[list[Any]]:
    """The daemon's responses to requests (method, path[, query[, body]]) of a session (or the operator if None)."""
    identity = {} if session_id is None else instance.as_session(session_id)
    process = subprocess.run(
        [sys.executable, "-m", "tests.session_client", str(instance.socket)],
        input="".join(f"{json.dumps(request)}\n" for request in requests),
        env={**instance.env, **identity, **(marks or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]


def _answer(
    client: Client, method: str, path: str, query: Query | None = None, body: Query | None = None
) -> Any:
    request_body = (body or {}) if method == "POST" else None
    try:
        return ["ok", json.loads(client.text(method, path, query, body=request_body, key=new_key()))]
    except SmError as error:
        return [error.code, error.message, error.hint]


if __name__ == "__main__":
    session_client = Client(sys.argv[1])
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_answer(session_client, *json.loads(line))) + "\n")

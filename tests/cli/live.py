"""Questions of the tests of commands with a daemon. `live`: runs `sm`, as a process or played."""

import json
from collections.abc import Callable
from typing import Any

from tests.cli.conftest import Done


def health(live: Callable[..., Done]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(live("daemon", "status", "--json").out)
    return answer


def spawn(live: Callable[..., Done], script: str, *options: str) -> str:
    """Start an agent whose program is the script. Returns its id."""
    return str(json.loads(live("spawn", "Sh", script, "--json", *options).out)["session_id"])


def status(live: Callable[..., Done], session: str) -> str:
    return str(json.loads(live("status", session, "--json").out)["status"])

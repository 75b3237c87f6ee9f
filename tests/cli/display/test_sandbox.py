"""The lines of `sm sandbox status`."""

import pytest

from sm.cli.display.sandbox_tables import status_lines
from sm.core.lines import JsonObject

STATUS: JsonObject = {
    "engine": {"available": False, "problem": "no engine", "hint": None, "url": "unix:///s"},
    "image_name": "sm-sandbox",
    "image": None,
    "other_instances": 0,
}
CONTAINER: JsonObject = {
    "name": "sm-1a2b3c4d-shop", "workspace": "shop", "state": "running", "sessions": [], "usage": None,
    "home_bytes": 0, "current": False, "last_oom": None, "problem": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("sessions", "what"),
    [
        ([], "start a session, or: sm sandbox rm shop"),
        (["1a2b3c4d"], "end its sessions, then: sm sandbox rm shop"),
    ],
)
def test_outdated_container_shows_what_applies_the_current_configuration(
    sessions: list[str], what: str
) -> None:
    lines = status_lines({**STATUS, "containers": [{**CONTAINER, "sessions": sessions}]})
    outdated = "           made with another configuration or image; to apply the current one, "
    assert outdated + what in lines

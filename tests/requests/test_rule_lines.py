"""The lines of rules that the list of requests shows, when a directory does not answer."""

import asyncio
import os.path
import threading
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sm.core.models import Caller
from sm.core.requests import Request
from sm.core.states import CallerKind, RequestKind, RequestState
from sm.linux import file_threads
from sm.paths import InstancePaths
from sm.requests import RuleWriter
from tests.samples import AT, session

DEAD, FINE = "/net/dead/shop", "/work/shop"


@pytest.fixture
def _dead_mount(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A mount whose calls return at the end of the test only."""
    answers = threading.Event()

    def realpath(path: str) -> str:
        if path == DEAD:
            answers.wait(60)
        return path

    monkeypatch.setattr(file_threads, "mount_points", lambda pid: frozenset({"/", "/net/dead"}))
    monkeypatch.setattr(os.path, "realpath", realpath)
    yield
    answers.set()


def rule_writer(directories: dict[str, str]) -> RuleWriter:
    sessions = {
        name: replace(session(name), working_dir=path, agent_type="Plain")
        for name, path in directories.items()
    }
    providers = {each.provider: SimpleNamespace(agent_config=lambda kind: None) for each in sessions.values()}
    unused: Any = None
    return RuleWriter(
        cast(Any, SimpleNamespace(sessions=sessions)),
        unused,
        unused,
        unused,
        cast(Any, providers),
        InstancePaths("/home/me/.config/sm/config.yaml", "/home/me/.local/state/sm"),
        unused,
    )


def permission(number: int, session_id: str) -> Request:
    plain = Request(number, session_id, RequestKind.PERMISSION, RequestState.OPEN, AT, AT)
    return replace(plain, tool="Bash", arguments={"command": "npm test"})


@pytest.mark.usefixtures("_dead_mount")
async def test_list_of_requests_does_not_wait_for_a_directory_that_does_not_answer() -> None:
    rules = rule_writer({"aaaa1111": DEAD, "bbbb2222": FINE})
    asked = [permission(1, "aaaa1111"), permission(2, "bbbb2222")]
    line = '- {"agent_type": "Plain", "allow": "Bash(npm test)"}'
    async with asyncio.timeout(15):
        for _ in range(3):
            assert await rules.lines(Caller(CallerKind.OPERATOR), asked) == {2: line}

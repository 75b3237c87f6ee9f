"""Generated requests to every route are answered as docs/openapi.json says, and never with an internal error.

schemathesis makes valid and invalid requests from the document.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok

from sm.api.openapi import document
from sm.paths import InstancePaths
from tests.api_client import BASE_URL, ApiClient
from tests.instance import Instance

EXAMPLES = 6 if os.environ.get("SM_LONG") == "1" else 2
"""Examples for each route and generation mode."""
CONFIG = """
default_trust: direct
tmux: {socket_name: test}
commands:
  Brief: {command: ["true"]}
  Long: {command: [sh, -c, "trap '' INT; exec sleep 1000"], prompt: file}
limits: {spawn_interval_s: 0, max_children: 4, max_per_workspace: 8, messages_per_minute: 100000}
"""
LEFT_OUT = {
    "stopDaemon"  # the other routes need the daemon
}
LAST = ("archive", "reparent", "interrupt", "complete", "restore", "remove", "kill")
"""Operations that change the sessions; they come last."""
RARELY_VALID = set("args branch cwd model parent preset trust working_dir workspace worktree".split())
"""Fields of a spawn for which nearly every text is refused before the other fields are read."""


class Target:
    """An instance with sessions, a request, a message and a workspace. `refs` name sessions; `agent` is one of them."""

    def __init__(self) -> None:
        self.instance = Instance(config=CONFIG, contains_host=True)
        self._clients: list[ApiClient] = []
        try:
            self.operator = self._client(self.instance.socket)
            self.instance.start_daemon()
            self.refs = self._sessions()
            place = InstancePaths(str(self.instance.config), str(self.instance.state))
            token = Path(place.token_file(self.refs[0])).read_text().strip()
            self.agent = self._client(Path(place.agent_socket(None)), token)
            self.agent.post("/v1/requests", question="which?", options=["this", "that"])
            self.operator.post("/v1/messages", to=self.refs[1], text="hello")
            team = self.instance.work / "team"
            team.mkdir()
            self.operator.post("/v1/workspaces", slug="team", working_dir=str(team))
        except BaseException:
            self.end()
            raise

    def _client(self, path: Path, token: str | None = None) -> ApiClient:
        self._clients.append(ApiClient(path, token))
        return self._clients[-1]

    def _sessions(self) -> list[str]:
        first = self._spawn("Long")
        ids = [
            first,
            self._spawn("Long", parent=first),
            self._spawn("Brief", parent=first),
            self._spawn("Long"),
        ]
        # The sessions run without a container, so their rows are changed.
        self.instance.kill_daemon()
        with closing(sqlite3.connect(self.instance.state / "sm.db")) as database, database:
            database.execute("UPDATE sessions SET effective_mode = 'sandboxed'")
        self.instance.start_daemon()
        return [*ids, "me", "-", first[:4], f"long-{first}"]

    def _spawn(self, agent_type: str, **more: Any) -> str:
        spawned = self.operator.post(
            "/v1/sessions", agent_type=agent_type, cwd=str(self.instance.work), **more
        )
        return str(spawned["session_id"])

    def end(self) -> None:
        for client in self._clients:
            client.close()
        self.instance.end()


@pytest.fixture
def target() -> Iterator[Target]:
    target = Target()
    yield target
    target.end()


def operations(half: int) -> list[Any]:
    """Every second operation, starting at `half`; those in LAST come last."""
    written = document()
    for item in written["paths"].values():
        # The protocol header is checked the same way everywhere, so only routes without other input keep it.
        operations = [value for value in item.values() if isinstance(value, dict)]
        if all("parameters" in o or "requestBody" in o for o in operations):
            of_all = [p for p in item["parameters"] if p != {"$ref": "#/components/parameters/Protocol"}]
            item["parameters"] = of_all
    config = schemathesis.Config()
    config.projects.default.generation.update(with_security_parameters=False)
    schema = schemathesis.openapi.from_dict(written, config=config)
    found = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    chosen = [o for o in found if _id(o) not in LEFT_OUT]
    ordered = sorted(chosen, key=lambda o: LAST.index(_id(o)) + 1 if _id(o) in LAST else 0)
    return ordered[half::2]


def _id(operation: Any) -> str:
    return str(operation.definition.raw["operationId"])


def send_generated(operation: Any, clients: Sequence[ApiClient], refs: Sequence[str], work: str) -> None:
    """Send each generated request as every client: one may be refused where another is not."""
    aims = st.one_of(st.none(), st.sampled_from(refs))
    for mode in GenerationMode:

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode), ref=aims)
        def ask(case: Case[Any], ref: str | None) -> None:
            fill_in(case, ref, work)
            request = case.as_transport_kwargs(base_url=BASE_URL)
            for client in clients:
                client.send(operation.path, **request).close()  # the beginning of a stream is enough

        ask()


def fill_in(case: Case[Any], ref: str | None, work: str) -> None:
    """Name existing objects, so that requests are not refused as unknown, and wait 0 seconds.

    `ref` of None names only an agent type, so that few sessions are spawned.
    """
    named: dict[str, str | int] = {"agent_type": "Brief"}
    if ref is not None:
        request = "r1" if case.path.startswith("/v1/requests/") and len(ref) != 8 else ref
        named |= {"ref": request, "session": ref, "to": ref, "parent": ref}
        named |= {"id": 1, "slug": "team", "pane": "%0", "working_dir": work}
    for place in (case.path_parameters, case.query, case.body):
        if not isinstance(place, dict):
            continue
        if ref is not None and "agent_type" in place:
            for name in RARELY_VALID & place.keys():
                del place[name]
            place["cwd"] = work
        place.update({name: value for name, value in named.items() if name in place})
        wait_s = place.get("wait_s")
        if isinstance(wait_s, int | float) or f"{wait_s}".isdecimal():
            place["wait_s"] = 0


@pytest.mark.timeout(300)  # it makes hundreds of requests
@pytest.mark.parametrize("half", [0, 1])
def test_generated_requests_are_answered_as_documented(target: Target, half: int) -> None:
    operator, agent = target.operator, target.agent
    attacks = operations(half)
    for operation in attacks:
        for_agents = bool(operation.definition.raw["security"])
        clients = [operator, agent] if for_agents else [operator]
        send_generated(operation, clients, target.refs, str(target.instance.work))
    done = {name for client in (operator, agent) for name, status in client.responses if status == 200}
    assert len(done) > len(attacks) / 2, "too many operations were refused"

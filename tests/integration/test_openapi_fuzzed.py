"""Whatever is sent to any route, it is answered as docs/openapi.json says, and no answer is a defect of ours.

schemathesis makes the requests from the document: such as it allows, and such as it does not.
"""

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
from sm.paths import Places
from tests.instance import Instance
from tests.speaking import BASE_URL, Speaker

EXAMPLES = 6
"""For each route and kind of data: the whole of it is to take seconds."""
CONFIG = """
default_trust: direct
tmux: {socket_name: test}
commands:
  Brief: {command: ["true"]}
  Long: {command: [sh, -c, "trap '' INT; exec sleep 1000"], prompt: file}
limits: {spawn_interval_s: 0, max_children: 4, max_per_workspace: 8, messages_per_minute: 100000}
"""
LEFT_OUT = {
    "stopDaemon",  # nothing would be there to answer the rest
}
LAST = ("archive", "reparent", "interrupt", "complete", "restore", "remove", "kill")
"""Those after which sessions are not what they were."""
NEEDS_LUCK = set("args branch cwd model parent preset trust working_dir workspace worktree".split())
"""Fields of a spawn for which nearly any text is refused, before all the rest is looked at."""


class Attacked:
    """An instance with things to aim at: `refs` name sessions. `agent` speaks with the token of one of them."""

    def __init__(self) -> None:
        self.instance = Instance(config=CONFIG)
        self._speakers: list[Speaker] = []
        try:
            self.operator = self._speaker(self.instance.socket)
            self.instance.start_daemon()
            self.refs = self._sessions()
            place = Places(str(self.instance.config), str(self.instance.state))
            token = Path(place.token_file(self.refs[0])).read_text().strip()
            self.agent = self._speaker(Path(place.agent_socket(None)), token)
            self.agent.post("/v1/requests", question="which?", options=["this", "that"])
            self.operator.post("/v1/messages", to=self.refs[1], text="hello")
            team = self.instance.work / "team"
            team.mkdir()
            self.operator.post("/v1/workspaces", slug="team", working_dir=str(team))
        except BaseException:
            self.end()
            raise

    def _speaker(self, path: Path, token: str | None = None) -> Speaker:
        self._speakers.append(Speaker(path, token))
        return self._speakers[-1]

    def _sessions(self) -> list[str]:
        first = self._spawn("Long")
        ids = [
            first,
            self._spawn("Long", parent=first),
            self._spawn("Brief", parent=first),
            self._spawn("Long"),
        ]
        # As a sandbox would have them: there is none yet that could start them so.
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
        for speaker in self._speakers:
            speaker.close()
        self.instance.end()


@pytest.fixture
def attacked() -> Iterator[Attacked]:
    made = Attacked()
    yield made
    made.end()


def operations(half: int) -> list[Any]:
    """Every second route is attacked, in this order."""
    written = document()
    for item in written["paths"].values():
        # What becomes of another protocol is the same everywhere: asked where nothing else can be got wrong.
        asked = [each for each in item.values() if isinstance(each, dict)]
        if all("parameters" in each or "requestBody" in each for each in asked):
            of_all = [p for p in item["parameters"] if p != {"$ref": "#/components/parameters/Protocol"}]
            item["parameters"] = of_all
    config = schemathesis.Config()
    config.projects.default.generation.update(with_security_parameters=False)
    schema = schemathesis.openapi.from_dict(written, config=config)
    found = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    chosen = [each for each in found if _id(each) not in LEFT_OUT]
    ordered = sorted(chosen, key=lambda each: LAST.index(_id(each)) + 1 if _id(each) in LAST else 0)
    return ordered[half::2]


def _id(operation: Any) -> str:
    return str(operation.definition.raw["operationId"])


def attack(operation: Any, speakers: Sequence[Speaker], refs: Sequence[str], work: str) -> None:
    """Each speaker sends the same, since what is refused to one may be done for the other."""
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
            aim(case, ref, work)
            request = case.as_transport_kwargs(base_url=BASE_URL)
            for speaker in speakers:
                speaker.send(operation.path, **request).close()  # of a stream the beginning is enough

        ask()


def aim(case: Case[Any], ref: str | None, work: str) -> None:
    """Name what there is, or all would be refused for that; and wait for nothing, since nothing comes.

    With `ref` None only an agent type, lest much is spawned.
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
            for name in NEEDS_LUCK & place.keys():
                del place[name]
            place["cwd"] = work
        place.update({name: value for name, value in named.items() if name in place})
        wait_s = place.get("wait_s")
        if isinstance(wait_s, int | float) or f"{wait_s}".isdecimal():
            place["wait_s"] = 0


@pytest.mark.parametrize("half", [0, 1])
def test_whatever_is_sent_is_answered_as_documented(attacked: Attacked, half: int) -> None:
    operator, agent = attacked.operator, attacked.agent
    attacks = operations(half)
    for operation in attacks:
        for_agents = bool(operation.definition.raw["security"])
        speakers = [operator, agent] if for_agents else [operator]
        attack(operation, speakers, attacked.refs, str(attacked.instance.work))
    done = {name for speaker in (operator, agent) for name, status in speaker.heard if status == 200}
    assert len(done) > len(attacks) / 2, "more was refused than should be"

"""Drives one agent of the check through the API of the private daemon."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, TypeVar

from sm.client.http import START_TIMEOUT_S, Client, session_path
from sm.core.dataclass import dataclass
from sm.providers.claude.check.scripted_api import ModelRequest, ScriptedApi

KEY = "sk-ant-api03-none-of-any-account-0123456789"
"""An API key of nobody."""

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
}
"""Variables with which Claude Code calls nobody but its model."""
T = TypeVar("T")

PATIENCE_S = 20.0
"""The longest wait for one step, as a rule."""
_PAUSE_S = 0.05
_BEGINNING = 40
"""Characters of a message that tell it from the others."""
LONG_COMMAND = "echo a; sleep 60"
"""A command that still runs when it is looked at. claude 2.1.332 refuses a lone sleep."""
_AT_REST = ("idle", "completed")
FALSE_CLAIM = "sm was wrong: "
"""The beginning of the evidence of a FalseClaim."""


def seed(
    home: Path,
    place: Path | None = None,
    /,
    *,
    onboarded: bool = True,
    approved: bool = True,
    trusted: bool = True,
) -> Path:
    """Make a home with the answers to claude's first-start dialogs, and return its configuration directory.

    A False argument leaves an answer out, so that claude opens the dialog: the theme, the API key, trust in `home`
    and everything below, or in `place`. Trust is one entry for the parent directory, because running claudes rewrite
    the file and would drop entries added later.
    """
    config = home / ".claude"
    config.mkdir(parents=True)
    answers: dict[str, object] = {}
    if onboarded:
        answers["hasCompletedOnboarding"] = True
    if approved:
        answers["customApiKeyResponses"] = {"approved": [KEY[-20:]], "rejected": []}
    if trusted:
        answers["projects"] = {str(place or home): {"hasTrustDialogAccepted": True}}
    (config / ".claude.json").write_text(json.dumps(answers))
    return config


def locations(home: Path, url: str) -> Mapping[str, str]:
    """The variables that send claude to this home and to the API at this address."""
    return {
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_CODE_TMPDIR": str(home / ".claude" / "tmp"),  # otherwise the output of tools stays in /tmp
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
    }


class ContractBroken(Exception):
    """The program does not behave as the contract says. The text is for people."""


class FalseClaim(ContractBroken):
    """`sm` said what was not so, which is worse than a contract that does not hold."""

    def __init__(self, evidence: str) -> None:
        super().__init__(f"{FALSE_CLAIM}{evidence}")


@dataclass(slots=True)
class Play:
    """The stage of one contract: its agents run in a project of their own."""

    name: str
    client: Client
    api: ScriptedApi
    directory: Path
    home: Path
    """The home of the agents' user."""
    patience: float = 1
    """The factor of all time limits."""
    ran: set[str] = field(default_factory=set)
    """As in `CheckStage`."""
    sessions: list[str] = field(default_factory=list)
    sent: list[tuple[int, str]] = field(default_factory=list)
    """The numbers of messages, with their texts."""
    answered: list[str] = field(default_factory=list)
    """The ids of the requests that were answered."""

    @property
    def project(self) -> Path:
        return self.home / self.name

    def spawn(
        self,
        agent_type: str,
        prompt: str = "",
        environment: Mapping[str, str] | None = None,
        *,
        skip_checks: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> str:
        """Start an agent and return the id of its session. `variables` come before those of sm."""
        self.project.mkdir(exist_ok=True)
        body: dict[str, object] = {
            "agent_type": agent_type,
            "cwd": str(self.project),
            "working_dir": str(self.project),
            "skip_checks": skip_checks,
            "environment": {**locations(self.home, self.api.url), **(environment or {})},
        }
        if prompt:
            body["prompt"] = prompt
        if variables:
            body["env"] = variables
        session = self.client.post("/v1/sessions", body, timeout_s=START_TIMEOUT_S)
        self.sessions.append(str(session["session_id"]))
        return self.sessions[-1]

    def other_home(self, *, trusted: bool = True) -> Mapping[str, str]:
        """The variables of a user who has started no claude yet, and trusts the project unless told otherwise."""
        home = self.directory / f"{self.name}-home"
        seed(home, self.home, trusted=trusted)
        return locations(home, self.api.url)

    def session(self, session_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(session_path(session_id))
        return found

    def until(
        self, look: Callable[[], T | Literal[False] | None], what: str, timeout_s: float = PATIENCE_S
    ) -> T:
        """Call `look` until its result is true, and return the result.

        Raises ContractBroken with `what` and the state of the agents after `timeout_s`.
        """
        timeout_s *= self.patience
        deadline = time.monotonic() + timeout_s
        while True:
            if found := look():
                return found
            if time.monotonic() > deadline:
                raise ContractBroken(f"{what}: not within {timeout_s:.0f} s ({self._state()})")
            time.sleep(_PAUSE_S)

    def _state(self) -> str:
        states = [self.session(session_id) for session_id in self.sessions]
        return "; ".join(f"{state['status']}: {state['status_reason']}" for state in states)

    def wait_status(self, session_id: str, *statuses: str) -> dict[str, Any]:
        """Wait until the session has one of these statuses, and return it."""

        def look() -> dict[str, Any] | None:
            found = self.session(session_id)
            return found if found["status"] in statuses else None

        return self.until(look, f"the agent is {' or '.join(statuses)}")

    def start_idle(self, agent_type: str) -> str:
        """Start an agent without a prompt, and wait until it waits for input."""
        session_id = self.spawn(agent_type)
        self.wait_status(session_id, "idle")
        return session_id

    def send(self, session_id: str, text: str, mode: str = "auto") -> int:
        """Send a message as the operator, and return its number."""
        sent = self.client.post("/v1/messages", {"to": session_id, "text": text, "mode": mode})
        self.sent.append((int(sent["message_id"]), text))
        return self.sent[-1][0]

    def message(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"/v1/messages/{number}")
        return found

    def wait_message(self, number: int, *states: str) -> dict[str, Any]:
        """Wait until the message has one of these states, and return it."""

        def look() -> dict[str, Any] | None:
            found = self.message(number)
            return found if found["status"] in states else None

        return self.until(look, f"the message is {' or '.join(states)}")

    def turn(self, words: str, results: int = 0, timeout_s: float = PATIENCE_S) -> ModelRequest:
        """Wait for a request to the model whose newest prompt contains `words`, with so many results of tools."""

        def look() -> ModelRequest | None:
            return next((turn for turn in self.api.turns(words) if len(turn.results) >= results), None)

        return self.until(look, f"the model is asked {words[:40]!r}, {results} results", timeout_s)

    def turns_of(self, session_id: str) -> list[ModelRequest]:
        """The requests to the model by the session, which its briefing names."""
        return [turn for turn in self.api.turns() if f"(session {session_id})" in turn.system]

    def turn_of(self, session_id: str) -> ModelRequest:
        """Wait for the first request to the model by the session."""
        return self.until(lambda: next(iter(self.turns_of(session_id)), None), "the model is asked")

    def has_said(self, session_id: str, text: str) -> bool:
        """Return whether the model was asked with this text in a request of the session."""
        return any(text in said for turn in self.turns_of(session_id) for said in turn.user_texts)

    def hold(self, name: str) -> ModelRequest:
        """Wait for a request that is held there."""
        return self.until(
            lambda: next((request for request in self.api.requests if request.held == name), None),
            f"a turn reaches {name}",
        )

    def request(self, session_id: str) -> dict[str, Any]:
        """Wait for an open request of the session, and return it."""

        def look() -> dict[str, Any] | None:
            found = self.client.get("/v1/requests")
            return next((one for one in found if one["session_id"] == session_id), None)

        return self.until(look, "the agent's question or permission is a request")

    def answer(self, request: Mapping[str, Any], **answer: object) -> None:
        self.client.post(f"/v1/requests/{request['request_id']}/answer", answer)
        self.answered.append(str(request["request_id"]))

    def is_last_answer_confirmed(self) -> bool:
        """Return whether sm says that the agent has acted on the last answer."""
        if not self.answered:
            return False
        return bool(self.client.get(f"/v1/requests/{self.answered[-1]}")["confirmed"])

    def false_claim(self) -> str:
        """Return what sm says of the messages and agents and is not so. Empty if all is so."""
        for number, text in self.sent:
            if self.message(number)["status"] == "acknowledged" and not self._is_read(text):
                return f"message {number} is called acknowledged, but the model never got it"
        for session_id in self.sessions:
            status = self.session(session_id)["status"]
            if status in _AT_REST and any(turn.held for turn in self.turns_of(session_id)):
                return f"the agent is called {status}, but its turn runs"
        return ""

    def _is_read(self, text: str) -> bool:
        begins = text[:_BEGINNING]
        return any(begins in said for turn in self.api.turns() for said in turn.user_texts)

    def output(self, session_id: str, lines: int = 200) -> str:
        """The end of the terminal's text."""
        shown = self.client.get(session_path(session_id, "/output"), {"lines": lines})
        return "\n".join(shown["lines"])

    def evidence(self, session_id: str, source: str) -> tuple[str, str]:
        """Return what a source of the status says, such as `idle`, and its reason. Both are empty without a report."""
        found = self.client.get(session_path(session_id, "/why"))["evidence"]
        told = next((entry for entry in found if entry["source"] == source), {"says": "", "reason": ""})
        return str(told["says"]), str(told["reason"])

    def facts(self, session_id: str) -> list[str]:
        """The sentences of `sm why`."""
        found: list[str] = self.client.get(session_path(session_id, "/why"))["facts"]
        return found

    def screen(self, session_id: str) -> list[str]:
        """The visible rows of the terminal."""
        _, first = next(self.client.events(session_path(session_id, "/screen/stream")))
        shown = json.loads(first)
        rows = {row["row"]: "".join(run[0] for run in row["runs"]) for row in shown["rows"]}
        return [rows.get(number, "") for number in range(shown["height"])]

    def kill(self, session_id: str, *, force: bool = False) -> None:
        self.client.post(session_path(session_id, "/kill"), {"force": force}, timeout_s=START_TIMEOUT_S)


def expect_true_claim(is_so: bool, evidence: str) -> None:
    """Raises FalseClaim with the evidence unless it is so."""
    if not is_so:
        raise FalseClaim(evidence)


def expect(is_so: bool, evidence: str) -> None:
    """Raises ContractBroken with the evidence unless it is so."""
    if not is_so:
        raise ContractBroken(evidence)

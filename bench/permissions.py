"""`python -m bench permissions`: plays races for the answer to a request, and compares what sm says with what ran.

Each tool adds a line to a file of its own, so that the file shows whether the tool ran, and how often. A request must
end, its answer must be the one that claude acted on, and only one of two answers may be taken.
"""

import argparse
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sm.client.http import Client, new_key
from sm.errors import SmError
from tests.claude_cli import BINARY
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import ScriptedApi, tool
from tests.waits import failure_checks, repeat_until

_LIMIT_S = 90.0
"""How long one race may take."""
_POINTER = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
_SETTLE_S = 15.0
"""How long sm may take to learn how claude has acted."""
_QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "multiSelect": False,
    "options": [{"label": "red", "description": "r"}, {"label": "blue", "description": "b"}],
}


@dataclass(slots=True)
class Answered:
    """An answer through sm. Without an error, sm took it."""

    what: str
    error: str = ""


@dataclass(slots=True)
class Race:
    """One request of one agent, and everything that answered it."""

    claudes: ClaudeInstance
    api: ScriptedApi
    session_id: str
    name: str
    request: dict[str, Any] = field(default_factory=dict)
    answers: list[Answered] = field(default_factory=list)

    @property
    def client(self) -> Client:
        return Client(str(self.claudes.socket))

    @property
    def file(self) -> Path:
        return self.claudes.work / f"ran-{self.name}"

    @property
    def tool(self) -> str:
        return tool("Bash", command=f'python3 -c \'print(1, file=open("{self.file.name}", "a"))\'')

    def ask(self, call: str = "") -> None:
        """Let claude ask, and wait for the request."""
        self.claudes.prompt(self.session_id, f"{self.name} {call or self.tool}[[then]][[text:so]]")
        self.find_request()

    def find_request(self) -> None:
        found = until(lambda: self.claudes.get("/v1/requests", session=self.session_id), "a request is open")
        self.request = found[0]

    def approve(self) -> None:
        self._answer("approve", {"approved": True})

    def deny(self) -> None:
        self._answer("deny", {"approved": False, "message": "not today"})

    def choose(self, choice: str) -> None:
        self._answer(f"answer {choice}", {"answers": [choice]})

    def _answer(self, what: str, body: Mapping[str, Any]) -> None:
        answered = Answered(what)
        try:
            self.client.post(f"/v1/requests/{self.request['request_id']}/answer", body, key=new_key())
        except SmError as error:
            answered.error = f"{error.code}: {error.message}"
        self.answers.append(answered)

    def at_terminal(self, key: str) -> None:
        """Press a key if the dialog is still open, and again if claude has lost the key: two Escapes open a menu."""
        if self.is_drawn():
            repeat_until(
                lambda: self.claudes.keys(self.session_id, key),
                lambda: not self.is_drawn(),
                "the dialog is closed",
            )

    def is_drawn(self) -> bool:
        return f"{_POINTER} 1. " in self.claudes.screen(self.session_id)

    def wait_drawn(self) -> None:
        until(self.is_drawn, "the dialog is drawn")

    def together(self, *acts: Callable[[], object]) -> None:
        """Do all acts at the same moment."""
        gate = threading.Barrier(len(acts))

        def run(act: Callable[[], object]) -> None:
            gate.wait()
            act()

        threads = [threading.Thread(target=run, args=(act,)) for act in acts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    # The outcome

    def runs(self) -> int:
        return len(self.file.read_text().splitlines()) if self.file.exists() else 0

    def look(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"/v1/requests/{self.request['request_id']}")
        return found

    def settle(self, faults: Callable[[], list[str]]) -> list[str]:
        """The faults that are left when sm has learned how claude acted."""
        deadline_s = time.monotonic() + _SETTLE_S
        while (found := faults()) and time.monotonic() < deadline_s:
            time.sleep(0.2)
        return found


# ------------------------------------------------------------------------------------------------------- races


def _approved(race: Race) -> Iterator[str]:
    race.ask()
    race.approve()
    yield from _judged(race, ran=True)


def _denied(race: Race) -> Iterator[str]:
    race.ask()
    race.deny()
    yield from _judged(race, ran=False)


def _approved_twice(race: Race) -> Iterator[str]:
    race.ask()
    race.together(race.approve, race.approve)
    yield from _judged(race, ran=True, taken=1)


def _approved_and_denied(race: Race) -> Iterator[str]:
    race.ask()
    race.together(race.approve, race.deny)
    yield from _judged(race, taken=1)


def _approved_and_refused_at_the_terminal(race: Race) -> Iterator[str]:
    race.ask()
    race.wait_drawn()
    race.together(race.approve, lambda: race.at_terminal("Escape"))
    yield from _judged(race, interrupts=True)


def _denied_and_allowed_at_the_terminal(race: Race) -> Iterator[str]:
    race.ask()
    race.wait_drawn()
    race.together(race.deny, lambda: race.at_terminal("Enter"))
    yield from _judged(race)


def _approved_and_allowed_at_the_terminal(race: Race) -> Iterator[str]:
    race.ask()
    race.wait_drawn()
    race.together(race.approve, lambda: race.at_terminal("Enter"))
    yield from _judged(race, ran=True)


def _late(race: Race) -> Iterator[str]:
    race.ask()
    race.wait_drawn()
    race.at_terminal("Escape")
    until(lambda: race.look()["state"] != "open", "the request is closed")
    race.approve()
    yield from _judged(race, ran=False, taken=0)


def _after_an_interrupt(race: Race) -> Iterator[str]:
    race.ask()
    race.claudes.sm("interrupt", race.session_id)
    race.approve()
    yield from _judged(race, ran=False, taken=0)


def _with_an_interrupt(race: Race) -> Iterator[str]:
    race.ask()
    race.together(race.approve, lambda: race.claudes.run("interrupt", race.session_id))
    yield from _judged(race, interrupts=True)


def _daemon_killed(race: Race) -> Iterator[str]:
    race.ask()
    race.together(lambda: _suppressed(race.approve), race.claudes.kill_daemon)
    race.claudes.start_daemon()
    race.approve()  # refused if the first answer was stored
    yield from _judged(race, ran=True)


def _suppressed(act: Callable[[], object]) -> None:
    with suppress(SmError, OSError):
        act()


def _sub_agent(race: Race) -> Iterator[str]:
    race.ask(_part(race))
    race.approve()
    yield from _judged(race, ran=True)


def _background_sub_agent(race: Race) -> Iterator[str]:
    race.ask(_part(race, run_in_background=True))
    time.sleep(3)  # no dialog is on the screen meanwhile
    race.deny()
    yield from _judged(race, ran=False, taken=1)


def _part(race: Race, **more: Any) -> str:
    prompt = f"part-{race.name} {race.tool}[[then]][[text:x]]"
    more = {"run_in_background": False, **more}
    return tool("Agent", description="d", prompt=prompt, subagent_type="general-purpose", **more)


def _question_twice(race: Race) -> Iterator[str]:
    race.ask(tool("AskUserQuestion", questions=[_QUESTION]))
    race.together(*(lambda choice=choice: race.choose(choice) for choice in ("1", "2")))
    yield from _judged(race, taken=1, is_question=True)


def _question_and_terminal(race: Race) -> Iterator[str]:
    race.ask(tool("AskUserQuestion", questions=[_QUESTION]))
    race.wait_drawn()
    race.together(lambda: race.choose("2"), lambda: race.at_terminal("Enter"))
    yield from _judged(race, is_question=True)


def _judged(
    race: Race,
    *,
    ran: bool | None = None,
    taken: int | None = None,
    is_question: bool = False,
    interrupts: bool = False,
) -> Iterator[str]:
    """The faults of a race. `ran`: True if the tool must run, `taken`: how many answers sm may take.

    `interrupts`: an Escape may end the tool that was approved before it has an effect. claude reports that in the same
    words as a refusal (measured).
    """
    yield from race.settle(lambda: [*_faults(race, ran, taken, is_question, interrupts)])
    if race.runs() > 1:
        yield f"the tool ran {race.runs()} times"


def _faults(
    race: Race, ran: bool | None, taken: int | None, is_question: bool, interrupts: bool
) -> Iterator[str]:
    request = race.look()
    state, by, answer = request["state"], request["answered_by"], request["answer"] or {}
    said = f"{state} by {by}, {answer}, {[f'{a.what} {a.error}' for a in race.answers]}"
    status = race.claudes.session(race.session_id)["status"]
    if state == "open" or status != "idle":
        yield f"the agent is {status}, and its request is not over: {said}"
    accepted = [each for each in race.answers if not each.error]
    if taken is not None and len(accepted) != taken:
        yield f"{len(accepted)} answers were taken in place of {taken}: {said}"
    if is_question:
        told = [word for word in ("red", "blue") if any(f'="{word}"' in text for _, text in _results(race))]
        if by == "operator" and not any(word in str(answer) for word in told):
            yield f"the agent was told {told}: {said}"
        return
    has_run = race.runs() > 0
    if ran is not None and has_run is not ran:
        yield f"the tool {'ran' if has_run else 'did not run'}: {said}"
    approved = None if interrupts and answer.get("approved") else answer.get("approved")
    if state == "answered" and approved not in (None, has_run):
        yield f"the tool {'ran' if has_run else 'did not run'}, and sm says otherwise: {said}"


def _results(race: Race) -> Sequence[tuple[bool, str]]:
    turns = [turn for turn in race.api.turns(race.name) if not turn.agent_id]
    return turns[-1].results[-1:] if len(turns) > 1 else ()  # the first has the results of earlier tools


# ------------------------------------------------------------------------------------------------------- plans


def _plan(
    race: Race, *acts: Callable[[], object], carried_out: bool | None = None, interrupts: bool = False
) -> Iterator[str]:
    """Do the acts when the agent asks for the approval of its plan. Yields the faults. `interrupts`: see `_judged`."""
    race.find_request()
    race.wait_drawn()
    race.together(*acts)

    def faults() -> list[str]:
        request = race.look()
        approved = (request["answer"] or {}).get("approved")
        done = any(not failed for failed, _ in _results(race))
        said = f"{request['state']} by {request['answered_by']}, approved: {approved}, carried out: {done}"
        unknown = interrupts and approved
        wrong = (not unknown and approved not in (None, done)) or (
            carried_out is not None and done is not carried_out
        )
        return [said] if wrong or request["state"] == "open" else []

    yield from race.settle(faults)
    if len([each for each in race.answers if not each.error]) > 1:
        yield "two answers were taken"


def _plan_approved(race: Race) -> Iterator[str]:
    yield from _plan(race, race.approve, carried_out=True)


def _plan_denied(race: Race) -> Iterator[str]:
    yield from _plan(race, race.deny, carried_out=False)


def _plan_twice(race: Race) -> Iterator[str]:
    yield from _plan(race, race.approve, race.approve, carried_out=True)


def _plan_and_terminal(race: Race) -> Iterator[str]:
    yield from _plan(race, race.approve, lambda: race.at_terminal("Escape"), interrupts=True)


_RACES: Mapping[str, Callable[[Race], Iterator[str]]] = {
    "approved": _approved,
    "denied": _denied,
    "approved twice at once": _approved_twice,
    "approved and denied at once": _approved_and_denied,
    "approved, and refused at the terminal": _approved_and_refused_at_the_terminal,
    "denied, and allowed at the terminal": _denied_and_allowed_at_the_terminal,
    "approved, and allowed at the terminal": _approved_and_allowed_at_the_terminal,
    "approved late": _late,
    "approved after an interrupt": _after_an_interrupt,
    "approved and interrupted at once": _with_an_interrupt,
    "daemon killed at the answer": _daemon_killed,
    "sub-agent": _sub_agent,
    "background sub-agent": _background_sub_agent,
    "question answered twice at once": _question_twice,
    "question, and the terminal": _question_and_terminal,
}
_PLANS: Mapping[str, Callable[[Race], Iterator[str]]] = {
    "plan approved": _plan_approved,
    "plan denied": _plan_denied,
    "plan approved twice at once": _plan_twice,
    "plan approved, and refused at the terminal": _plan_and_terminal,
}
"""Each needs an agent of its own, because the approval of a plan ends the mode."""

_LETS_RUN: Mapping[str, tuple[str, str]] = {
    "plan": ("Plan", "asks asks"),
    "dontAsk": ("Unasked", "refused refused"),
    "manual": ("Plain", "asks asks"),
    "acceptEdits": ("Editor", "runs asks"),
}
"""By mode: the agent type, and what becomes of a write to a file and of a command that is not known to be harmless."""


def _mode(claudes: ClaudeInstance, api: ScriptedApi, mode: str) -> Iterator[str]:
    """The faults of an agent in this mode: how sm shows the mode, and what claude lets run."""
    agent_type, wanted = _LETS_RUN[mode]
    session_id = claudes.spawn(agent_type, "begin")["session_id"]
    claudes.idle(session_id)
    facts = claudes.why(session_id)["facts"]
    if not any(f"permission mode {mode}" in fact for fact in facts):
        yield f"sm does not show the mode: {facts}"
    written = claudes.work / f"written-{mode}"
    calls = (tool("Write", file_path=str(written), content="x"), Race(claudes, api, "", f"mode-{mode}").tool)
    seen = []
    for number, call in enumerate(calls):
        name = f"mode-{mode}-{number}"
        claudes.prompt(session_id, f"{name} {call}[[then]][[text:so]]")

        def outcome(name: str = name) -> str | None:
            if claudes.get("/v1/requests", session=session_id):
                return "asks"
            results = _results(Race(claudes, api, session_id, name))
            return ("refused" if results[-1][0] else "runs") if results else None

        seen.append(until(outcome, f"{name} runs, asks or is refused"))
        if seen[-1] == "asks":
            claudes.answer_dialog(session_id, "Escape")
        claudes.idle(session_id)
    if " ".join(seen) != wanted:
        yield f"a write and a command: {' '.join(seen)} in place of {wanted}"
    claudes.sm("kill", session_id)


# --------------------------------------------------------------------------------------------------------- run


class Bench:
    """Plays races with one agent as long as it is idle, and modes and plans with agents of their own."""

    def __init__(self, claudes: ClaudeInstance, api: ScriptedApi) -> None:
        self._claudes, self._api = claudes, api
        self._agent = ""

    def race(self, name: str, number: int) -> list[str]:
        def play() -> Iterator[str]:
            if not self._agent or self._claudes.session(self._agent)["status"] != "idle":
                self._agent = self._claudes.spawn("Plain", "begin")["session_id"]
                self._claudes.idle(self._agent)
            slug = f"{name.replace(' ', '-').replace(',', '')}-{number}"
            yield from _RACES[name](Race(self._claudes, self._api, self._agent, slug))

        return self._limited(play)

    def plan(self, name: str, number: int) -> list[str]:
        def play() -> Iterator[str]:
            slug = f"{name.replace(' ', '-').replace(',', '')}-{number}"
            prompt = f"{slug} {tool('ExitPlanMode', plan='1. do it')}[[then]][[text:so]]"
            session_id = self._claudes.spawn("Planner", prompt)["session_id"]
            yield from _PLANS[name](Race(self._claudes, self._api, session_id, slug))
            self._claudes.sm("kill", session_id)

        return self._limited(play)

    def mode(self, name: str) -> list[str]:
        return self._limited(lambda: _mode(self._claudes, self._api, name))

    def _limited(self, play: Callable[[], Iterator[str]]) -> list[str]:
        """The faults, among them that the race has not ended in time."""
        until_s = time.monotonic() + _LIMIT_S

        def check() -> str | None:
            return "its time is over" if time.monotonic() > until_s else None

        failure_checks.append(check)
        try:
            return [*play()]
        except (AssertionError, SmError) as error:
            self._agent = ""
            return [f"not played: {error}"]
        finally:
            failure_checks.remove(check)


def main(arguments: Sequence[str]) -> int:
    """Print one line for each kind of race. Return 0 when there is no fault."""
    parser = argparse.ArgumentParser(
        prog="python -m bench permissions", description="Compare answers to requests with what claude did."
    )
    parser.add_argument("--claude", default=str(BINARY), metavar="PATH", help="the program to test")
    parser.add_argument("--count", type=int, default=5, help="races of each kind (default: 5)")
    parser.add_argument(
        "--only",
        nargs="*",
        default=(),
        metavar="NAME",
        help="races to play, as the table names them (default: all)",
    )
    given = parser.parse_args(arguments)
    version = subprocess.run([given.claude, "--version"], capture_output=True, text=True, check=True)
    print(f"claude {version.stdout.strip()}\n{'race':<44}{'played':>8}{'faults':>8}")
    types = '    Plan: {args: ["--permission-mode", "plan"]}\n    Unasked: {args: ["--permission-mode", "dontAsk"]}'
    faults: Counter[str] = Counter()
    with ScriptedApi() as api, ClaudeInstance(api, program=given.claude, more=types) as claudes:
        bench = Bench(claudes, api)
        played: list[tuple[str, Callable[[int], list[str]], int]] = [
            *((name, lambda n, name=name: bench.race(name, n), given.count) for name in _RACES),
            *((name, lambda n, name=name: bench.plan(name, n), given.count) for name in _PLANS),
            *((f"mode {name}", lambda n, name=name: bench.mode(name), 1) for name in _LETS_RUN),
        ]
        for name, play, times in played:
            if given.only and name not in given.only:
                continue
            found = [fault for number in range(times) for fault in play(number)]
            faults[name] = len(found)
            print(f"{name:<44}{times:>8}{len(found):>8}", *(f"    {each}" for each in found), sep="\n")
            sys.stdout.flush()
    print(f"{faults.total()} faults")
    return int(faults.total() > 0)

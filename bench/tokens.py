"""`python -m bench tokens`: compares the tokens and the cost that sm counts with what the scripted API has sent.

Every number of every message is another one, so that a message that is counted twice, late or for another session
shows. The tokens must be equal to the unit, and the cost to the last digit that sm shows.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from sm.errors import SmError
from tests.claude_cli import BINARY
from tests.claude_instance import ClaudeInstance
from tests.claude_usage import Agent, answers, cost, dollars, sub_agent, tokens
from tests.instance import until
from tests.scripted_api import Kind, ScriptedApi, Usage, usage
from tests.waits import failure_checks

_OPUS, _HAIKU = "claude-opus-4-8", "claude-haiku-5-5"
_COUNTED_WITHIN_S = 30.0
_LOOK_S = 0.2
_QUIET_S = 1.0
"""How long nothing may happen before a scenario is over."""
_STEP_S = 120.0
"""How long one scenario may take."""
_ROUNDED_USD = 4e-6
"""sm rounds the cost of each session to a millionth of a dollar."""
_KINDS = ("input", "output", "cache_read", "cache_write")


@dataclass(frozen=True)
class Sums:
    """Tokens by their kinds, and dollars."""

    tokens: Mapping[str, int]
    cost_usd: float

    def __sub__(self, other: "Sums") -> "Sums":
        left = {name: self.tokens[name] - other.tokens[name] for name in _KINDS}
        return Sums(left, self.cost_usd - other.cost_usd)

    def equals(self, other: "Sums") -> bool:
        return self.tokens == other.tokens and abs(self.cost_usd - other.cost_usd) < _ROUNDED_USD


class Bill:
    """The sessions of one instance, and all that the API has sent to them."""

    def __init__(self, instance: ClaudeInstance, api: ScriptedApi) -> None:
        self.instance, self.api = instance, api
        self.agents: list[Agent] = []
        self.begun: list[tuple[str, Usage]] = []
        """The model and the usage of answers that ended early: their input, and one token of output."""
        self._numbers = count()

    def spawn(self, model: str, prompt: str) -> Agent:
        spawned = self.instance.spawn("Editor", "--model", model, prompt)
        agent = Agent(self.instance, spawned["session_id"])
        self.agents.append(agent)
        agent.answered(prompt)
        return agent

    def fork(self, agent: Agent) -> Agent:
        self.instance.idle(agent.id)
        fork = Agent(self.instance, self.instance.json("fork", agent.id)["session_id"])
        self.agents.append(fork)
        self.instance.idle(fork.id)
        return fork

    def used(self, **more: int) -> str:
        """The marker of a usage that no other message has. `more`: numbers to set."""
        n = next(self._numbers)
        return usage(replace(Usage(97 + 13 * n, 10 * n + 1, 100 * n + 2, 1000 + 3 * n, 7 * n), **more))

    def is_quiet(self) -> bool:
        """Nobody waits for the API, and every agent is idle."""
        idle = all(self.instance.session(agent.id)["status"] == "idle" for agent in self.agents)
        return idle and all(request.over for request in list(self.api.requests))

    def sent(self) -> Sums:
        begun = [used for _, used in self.begun]
        total = sum(begun, self.api.usage(Kind.TURN))
        return Sums(tokens(total), dollars(self.api) + sum(cost(model, used) for model, used in self.begun))

    def counted(self, sessions: Sequence[str] | None = None) -> Sums:
        """The sums of sm for these sessions, or for all."""
        found = [agent.progress() for agent in self.agents if sessions is None or agent.id in sessions]
        summed = {name: sum((each["tokens"] or {}).get(name, 0) for each in found) for name in _KINDS}
        return Sums(summed, sum(each["cost_usd"] or 0.0 for each in found))


# ------------------------------------------------------------------------------------------------- scenarios


def _one_turn(bill: Bill, agent: Agent) -> Agent:
    agent.turn(f"one [[text:hello]]{bill.used()}")
    return agent


def _many_parts(bill: Bill, agent: Agent) -> Agent:
    tools = "[[tool:Bash:echo a]][[tool:Bash:echo b]][[tool:Bash:echo c]]"
    agent.turn(f"parts [[think:hm]][[text:so]]{tools}{bill.used()}[[then]][[text:done]]{bill.used()}")
    return agent


def _sub_agent(bill: Bill, agent: Agent) -> Agent:
    within = f"[[tool:Bash:echo within]]{bill.used()}[[then]][[text:it is done]]{bill.used()}"
    agent.turn(f"part {sub_agent(within)}{bill.used()}[[then]][[text:all]]{bill.used()}")
    return agent


def _two_sub_agents(bill: Bill, agent: Agent) -> Agent:
    parts = "".join(sub_agent(f"part {n} [[wait:1]][[text:x]]{bill.used()}") for n in (1, 2))
    agent.turn(f"two {parts}{bill.used()}[[then]][[text:all]]{bill.used()}")
    return agent


def _background_sub_agent(bill: Bill, agent: Agent) -> Agent:
    within = f"[[hold:behind]][[tool:Bash:echo behind]]{bill.used()}[[then]][[text:it is done]]{bill.used()}"
    call = sub_agent(within, behind=True)
    prompt = f"behind {call}{bill.used()}[[then]][[text:begun]]{bill.used()}"
    agent.turn(prompt)
    bill.api.release("behind")
    agent.has_heard(prompt)
    return agent


def _retries(bill: Bill, agent: Agent) -> Agent:
    agent.turn(f"overloaded [[error:529:2]][[text:at last]]{bill.used()}")
    agent.turn(f"cut [[text:half]][[cut]][[text: and half]]{bill.used()}")
    return agent


def _queued(bill: Bill, agent: Agent) -> Agent:
    prompt = f"busy [[hold:busy]][[tool:Bash:echo d]]{bill.used()}[[then]][[text:e]]{bill.used()}"
    bill.instance.prompt(agent.id, prompt)
    bill.api.wait_for_hold("busy")
    bill.instance.prompt(agent.id, f"and this too {bill.used()}")
    bill.api.release("busy")
    agent.answered(prompt)
    return agent


def _interrupted(bill: Bill, agent: Agent) -> Agent:
    """The API reports input and cache tokens when an answer begins, and output tokens when it ends."""
    stopped = Usage(4, 21, 202, 2003, 14)
    prompt = f"stopped [[think:hm]][[text:a]][[hold:stopped]][[text:b]]{usage(stopped)}"
    bill.instance.prompt(agent.id, prompt)
    request = bill.api.wait_for_hold("stopped")
    until(
        lambda: "hought for" in bill.instance.screen(agent.id).rpartition("stopped")[2],
        "the thoughts are whole",
    )
    bill.instance.keys(agent.id, "Escape")
    bill.api.wait_for(lambda: request.over, "claude hangs up", _STEP_S)
    assert request.answer is not None
    bill.begun.append((request.answer.model, replace(stopped, output=1)))
    bill.instance.idle(agent.id)
    agent.turn(f"after [[text:c]]{bill.used()}")
    return agent


def _daemon_killed(bill: Bill, agent: Agent) -> Agent:
    prompt = f"away [[tool:Bash:echo c]]{bill.used()}[[then]][[hold:away]][[text:d]]{bill.used()}"
    bill.instance.prompt(agent.id, prompt)
    bill.api.wait_for_hold("away")
    bill.instance.kill_daemon()
    bill.api.release("away")
    agent.answered(prompt)
    bill.instance.start_daemon()
    return agent


def _compaction(bill: Bill, agent: Agent) -> Agent:
    bill.instance.idle(agent.id)
    before = len([r for r in bill.api.requests if r.kind is Kind.COMPACTION and r.over])
    bill.instance.prompt(agent.id, "/compact")
    bill.api.wait_for(
        lambda: len([r for r in bill.api.requests if r.kind is Kind.COMPACTION and r.over]) > before,
        "the compaction",
        _STEP_S,
    )
    until(lambda: "ompacted" in bill.instance.screen(agent.id), "the conversation is small again")
    agent.turn(f"compacted [[tool:Bash:echo e]]{bill.used()}[[then]][[text:f]]{bill.used()}")
    return agent


def _cleared(bill: Bill, agent: Agent) -> Agent:
    bill.instance.idle(agent.id)
    bill.instance.prompt(agent.id, "/clear")
    until(lambda: "compacted [[" not in bill.instance.screen(agent.id), "an empty screen")
    agent.turn(f"cleared {sub_agent(f'[[text:x]]{bill.used()}')}{bill.used()}[[then]][[text:g]]{bill.used()}")
    return agent


def _forked(bill: Bill, agent: Agent) -> Agent:
    fork = bill.fork(agent)
    fork.turn(f"forked [[tool:Bash:echo f]]{bill.used()}[[then]][[text:b]]{bill.used()}")
    return fork


def _original_of_a_fork(bill: Bill, agent: Agent) -> Agent:
    agent.turn(f"original [[text:h]]{bill.used()}")
    return agent


def _restored(bill: Bill, agent: Agent) -> Agent:
    prompt = f"killed [[tool:Bash:echo c]]{bill.used()}[[then]][[hold:killed]][[text:c]]{bill.used()}"
    bill.instance.prompt(agent.id, prompt)
    bill.api.wait_for_hold("killed")
    bill.instance.sm("kill", agent.id)
    bill.instance.ended(agent.id)
    bill.api.release("killed")
    bill.instance.sm("restore", agent.id)
    bill.instance.idle(agent.id)
    agent.turn(f"restored [[text:d]]{bill.used()}")
    return agent


def _short_prompts(bill: Bill, agent: Agent) -> Agent:
    """100,000 tokens are not above the limit of the second tariff."""
    at = {"cache_read": 89_000, "cache_creation": 9_000, "cache_creation_1h": 500, "input": 1_500}
    return bill.spawn(_HAIKU, f"short [[text:a]]{bill.used(**at)}")


def _long_prompts(bill: Bill, agent: Agent) -> Agent:
    haiku = bill.agents[-1]
    above = {"cache_read": 89_000, "cache_creation": 9_000, "cache_creation_1h": 500, "input": 1_501}
    within = f"[[text:x]]{bill.used(cache_read=150_000)}"
    haiku.turn(f"long [[text:a]]{bill.used(**above)}")
    haiku.turn(f"longer {sub_agent(within)}{bill.used()}[[then]][[text:b]]{bill.used(input=200_000)}")
    return haiku


_SCENARIOS: Mapping[str, Callable[[Bill, Agent], Agent]] = {
    "one turn": _one_turn,
    "thoughts, text and three tools": _many_parts,
    "sub-agent": _sub_agent,
    "two sub-agents at once": _two_sub_agents,
    "background sub-agent": _background_sub_agent,
    "overloaded, and a cut connection": _retries,
    "prompt while busy": _queued,
    "interrupted answer": _interrupted,
    "daemon killed in a turn": _daemon_killed,
    "compaction": _compaction,
    "clear": _cleared,
    "fork": _forked,
    "original of a fork": _original_of_a_fork,
    "killed in a turn, and restored": _restored,
    "first tariff": _short_prompts,
    "second tariff": _long_prompts,
}
"""By their names. Each plays its turns with the agent that it gets, and returns the agent that has used the tokens."""


def _limit() -> Callable[[], str | None]:
    until_s = time.monotonic() + _STEP_S
    return lambda: "its time is over" if time.monotonic() > until_s else None


def _play(bill: Bill, agent: Agent, name: str) -> tuple[Sums, Sums, str]:
    """Play a scenario. Returns the sums that the API sent in it, the sums that sm counted, and the fault."""
    sent, before = bill.sent(), {each.id: bill.counted([each.id]) for each in bill.agents}
    counted_before = bill.counted()
    check = _limit()
    failure_checks.append(check)
    try:
        user = _SCENARIOS[name](bill, agent)
    except (AssertionError, TimeoutError, SmError) as error:
        return bill.sent() - sent, bill.counted() - counted_before, f"not played: {error}"
    finally:
        failure_checks.remove(check)
    deadline_s, quiet_s = time.monotonic() + _COUNTED_WITHIN_S, 0.0
    while True:
        wanted, counted = bill.sent() - sent, bill.counted() - counted_before
        quiet_s = quiet_s + _LOOK_S if bill.is_quiet() and counted.equals(wanted) else 0.0
        # A later claude runs sub-agents in the background: their ends begin further turns.
        if quiet_s >= _QUIET_S or time.monotonic() > deadline_s:
            break
        time.sleep(_LOOK_S)
    moved = [each for each in before if each != user.id and not bill.counted([each]).equals(before[each])]
    fault = "" if counted.equals(wanted) else "counted wrongly"
    return wanted, counted, fault or (f"counted for {', '.join(moved)}" if moved else "")


def _parts_are_right(bill: Bill) -> str:
    """The fault in the tokens that sm counts for sub-agents, or empty if none."""
    whole = {r.answer.message_id: r for r in bill.api.requests if r.answer and r.answer.whole and r.agent_id}
    wanted = tokens(sum((r.answer.usage for r in whole.values() if r.answer), Usage()))
    found: list[Mapping[str, Any]] = [agent.progress()["subagents"]["tokens"] for agent in bill.agents]
    counted = {name: sum(each[name] for each in found) for name in _KINDS}
    return "" if counted == wanted else f"the sub-agents used {wanted}, and sm counted {counted}"


def main(arguments: Sequence[str]) -> int:
    """Print the sums of each scenario. Return 0 when all are equal."""
    parser = argparse.ArgumentParser(
        prog="python -m bench tokens",
        description="Compare the tokens and the cost that sm counts with the truth.",
    )
    parser.add_argument("--claude", default=str(BINARY), metavar="PATH", help="the program to test")
    given = parser.parse_args(arguments)
    version = subprocess.run([given.claude, "--version"], capture_output=True, text=True, check=True)
    print(f"claude {version.stdout.strip()}")
    print(f"{'scenario':<34}{'input':>9}{'output':>8}{'cache read':>12}{'cache write':>13}{'dollars':>12}")
    faults = 0
    with ScriptedApi() as api, ClaudeInstance(api, program=given.claude) as instance:
        bill = Bill(instance, api)
        agent = bill.spawn(_OPUS, f"first [[text:hello]]{bill.used()}")
        until(lambda: bill.counted().equals(bill.sent()), "the first prompt is counted")
        for name in _SCENARIOS:
            print(f"  {name}", file=sys.stderr, flush=True)
            wanted, counted, fault = _play(bill, agent, name)
            print(_row(name, wanted) + (f"  {fault}" if fault else ""))
            if fault:
                faults += 1
                print(_row("  sm counted", counted))
        parts = _parts_are_right(bill)
        print(parts or "The tokens of the sub-agents are right too.")
        print(_row(f"{len(answers(api))} answers", bill.sent()))
        print(_row("  sm counted", bill.counted()))
        faults += bool(parts) + (not bill.counted().equals(bill.sent()))
    return int(faults > 0)


def _row(name: str, sums: Sums) -> str:
    used = sums.tokens
    return (
        f"{name:<34}{used['input']:>9}{used['output']:>8}{used['cache_read']:>12}{used['cache_write']:>13}"
        f"{sums.cost_usd:>12.6f}"
    )

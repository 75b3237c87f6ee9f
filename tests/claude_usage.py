"""The usage that the scripted API has sent, and that sm has counted, for tests and `python -m bench tokens`."""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from sm.providers.claude.check.scripted_api.script import parse
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import Answer, Kind, ScriptedApi, Usage, tool, usage
from tests.waits import explained


@dataclass(frozen=True)
class Prices:
    """US dollars per million tokens. A write to the cache costs 1.25 times the input, or twice for an hour."""

    input: float
    output: float
    cache_read: float
    long_prompt: "Prices | None" = None
    """For requests of more than `LONG_PROMPT` tokens, those in the cache included."""


LONG_PROMPT = 100_000
PRICES = {
    "claude-opus-4-8": Prices(5, 25, 0.5),
    "claude-opus-5-5": Prices(4, 20, 0.2),
    "claude-haiku-5-5": Prices(0.1, 0.5, 0.01, Prices(0.5, 2.5, 0.05)),
}
"""The public prices, which sm has in a list of its own."""
_LAUNCHED = re.compile(r"Async agent launched.*?agentId: (\w+)", re.DOTALL)
"""The result of a call that started a sub-agent in the background."""


def used(n: int) -> str:
    """Token counts that identify message `n` in any sum: its `input` is one bit."""
    return usage(Usage(1 << n, 10 * n + 1, 100 * n + 2, 1000 * n + 3, 7 * n))


def tokens(truth: Usage) -> dict[str, int]:
    """The counts under the names that `sm progress` uses."""
    return {
        "input": truth.input,
        "output": truth.output,
        "cache_read": truth.cache_read,
        "cache_write": truth.cache_creation + truth.cache_creation_1h,
    }


def answers(api: ScriptedApi) -> list[Answer]:
    """The complete answers to turns, each once."""
    sent = {r.answer.message_id: r.answer for r in list(api.requests) if r.kind is Kind.TURN and r.answer}
    return [answer for answer in sent.values() if answer.whole]


def dollars(api: ScriptedApi) -> float:
    """The cost of all complete answers to turns, by the public prices."""
    return sum(cost(answer.model, answer.usage) for answer in answers(api))


def cost(model: str, used: Usage) -> float:
    prices = PRICES[model.partition("[")[0]]
    prompt = used.input + used.cache_read + used.cache_creation + used.cache_creation_1h
    price = prices.long_prompt if prices.long_prompt and prompt > LONG_PROMPT else prices
    written = 1.25 * price.input * used.cache_creation + 2 * price.input * used.cache_creation_1h
    read = price.input * used.input + price.cache_read * used.cache_read
    return (read + written + price.output * used.output) / 1e6


class Agent:
    """A session of claude, and the person who types into its terminal."""

    def __init__(self, instance: ClaudeInstance, session_id: str) -> None:
        self.instance = instance
        self.api = instance.api
        self.id = session_id

    @classmethod
    def spawned(cls, instance: ClaudeInstance, prompt: str, hold: str = "") -> Self:
        """Spawn an agent; return when its first prompt is answered or the API holds at `hold`."""
        agent = cls(instance, instance.spawn("Editor", prompt)["session_id"])
        if hold:
            agent.api.wait_for_hold(hold)
        else:
            agent.answered(prompt)
        return agent

    def answered(self, prompt: str) -> None:
        """Wait until the last response scripted for this prompt is delivered."""
        steps = max(1, len(parse(prompt)))

        def whole() -> bool:
            turns = [turn for turn in self.api.turns(prompt) if not turn.agent_id]
            return sum(turn.answer is not None and turn.answer.whole for turn in turns) >= steps

        with explained(lambda: self.instance.screen(self.id)):
            self.api.wait_for(whole, f"the answers to {prompt[:60]}")

    def turn(self, prompt: str) -> None:
        self.instance.prompt(self.id, prompt)
        self.answered(prompt)

    def turn_with_sub_agents(self, prompt: str) -> None:
        self.turn(prompt)
        self.has_heard(prompt)

    def has_heard(self, prompt: str) -> None:
        """Wait until it has answered to the end of each sub-agent that this prompt started in the background."""
        texts = [text for turn in self.api.turns(prompt) for _, text in turn.results]
        for sub_agent_id in set(_LAUNCHED.findall("\n".join(texts))):
            self.api.wait_for(
                partial(self._has_answered, f"<task-id>{sub_agent_id}<"),
                f"the answer to the end of {sub_agent_id}",
            )

    def _has_answered(self, text: str) -> bool:
        return any(turn.over for turn in self.api.turns(text))

    def progress(self) -> dict[str, Any]:
        return self.instance.progress(self.id)

    def counted(self) -> dict[str, Any]:
        """The progress, once its tokens equal the usage that the API delivered."""
        truth = tokens(self.api.usage(Kind.TURN))
        with explained(lambda: f"{self.progress()['tokens']} is not {truth}"):
            return until(
                lambda: progress if (progress := self.progress())["tokens"] == truth else None, "counted"
            )

    def spooled(self, event: str, times: int = 1) -> None:
        """Wait until the spool holds this hook event `times` times."""
        spool = self.instance.spool(self.id)
        until(
            lambda: sum(f'"{event}"' in text for text in _texts(spool)) >= times, f"{event} is in the spool"
        )


def _texts(directory: Path) -> list[str]:
    return [file.read_text() for file in directory.glob("[0-9]*.json")] if directory.exists() else []


def sub_agent(prompt: str, *, behind: bool = False) -> str:
    """The call of a sub-agent. `behind`: in the background, which later versions do unless they are told not to."""
    return tool(
        "Agent",
        description="a part",
        prompt=prompt,
        subagent_type="general-purpose",
        run_in_background=behind,
    )

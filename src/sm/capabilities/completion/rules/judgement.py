"""A finished turn as the model judges it: the features of its message, and what the rules find in it."""

from collections.abc import Callable, Collection, Mapping
from functools import cached_property

from sm.capabilities.completion.model import Ending
from sm.capabilities.completion.rules import obstacles, questions
from sm.capabilities.completion.rules.features import of_message
from sm.capabilities.completion.rules.linear_model import Support, asks, fails, support
from sm.capabilities.completion.rules.turn import Turn
from sm.core.dataclass import dataclass

_FINDINGS: Mapping[str, Callable[[Turn], str | None]] = {
    "an offer or a decision": questions.offer_or_decision,
    "a question": questions.question,
    "a request": questions.asked,
    "an obstacle": obstacles.blocked,
    "a failure": obstacles.failed,
    "failing tests": obstacles.failing,
    "unfinished work": obstacles.unfinished,
    "work of others": obstacles.waiting,
    "a part of the work": obstacles.partial,
}
"""Rules whose findings are features: the model decides how far each of them can be trusted."""


@dataclass(frozen=True)
class JudgedTurn(Turn):
    """A turn with the judgement of the model."""

    @cached_property
    def features(self) -> Collection[str]:
        """The features of the whole message, and the claims and obstacles that rules find in it."""
        found = set(of_message(self.message, self.weighed, self.task, self.inquiry, self.facts))
        found.update(f"found {name}" for name, find in _FINDINGS.items() if find(self) is not None)
        if self.done is not None:
            found.add("claims done")
        if self.work is not None:
            found.add("claims work")
        return found

    @cached_property
    def support(self) -> Support:
        """How much the model trusts that the task is done."""
        return support(self.features, self.weighed)

    @cached_property
    def asks(self) -> float:
        """The probability that the message asks for a decision."""
        return asks(self.features)

    @cached_property
    def fails(self) -> float:
        """The probability that the message tells of a failure or of an obstacle."""
        return fails(self.features)


@dataclass(frozen=True, slots=True)
class EndingRule:
    """Decides for `ending` if `find` returns the quote that the rule rests on."""

    name: str
    ending: Ending
    find: Callable[[JudgedTurn], str | None]
    yields: bool = False
    """The rule does not decide if the model is certain that the task is done."""
    passes: bool = False
    """The rule rests on work or a request that may end without another turn of the agent."""

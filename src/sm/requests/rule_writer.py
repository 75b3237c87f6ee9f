"""Writes the rule that always allows what a request asks for, and takes back the newest one.

Only the operator may do so: neither an agent, nor anybody in a chat network. The person agrees to a line of the file
that the daemon shows before, and any other line is refused.
"""

import asyncio
import os.path
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import TypeVar

from sm.config import add_rule, is_agent_type, remove_newest_rule
from sm.config.changes import ConfigState
from sm.core.dataclass import dataclass
from sm.core.labels import short_label
from sm.core.models import Caller, Session
from sm.core.requests import BY_RULE, Answer, Request
from sm.core.states import RequestKind, RequestState, TrustLevel
from sm.errors import ExternalError, IllegalState, ShownChanged, UsageError
from sm.linux.file_threads import FileThreads
from sm.operations.daemon_operations import UNDO_RULE
from sm.operations.hints import Hint, Use
from sm.operations.request_operations import ANSWER_ALWAYS, APPROVE
from sm.paths import InstancePaths
from sm.policy.exact_rules import exact_rule
from sm.policy.relations import may_at_all
from sm.policy.tool_rules import PathContext, evaluate
from sm.policy.written_rules import WrittenRule
from sm.providers.base import Provider
from sm.requests.always_allowed import AlwaysAllowed
from sm.requests.answers import Requests
from sm.requests.auto_answers import real_directory, written_reason
from sm.requests.dialogs import TAKEN_WITHIN_S
from sm.sessions.authorizer import Authorizer
from sm.state.request_steps import IGNORED, too_late
from sm.store import Store

_WITHIN_S = 2.0
Result = TypeVar("Result")
ReadConfig = Callable[[], Awaitable[ConfigState]]
"""Applies a change of the configuration now, and returns its state."""


@dataclass(frozen=True, slots=True)
class RuleOfRequest:
    """The rule that always allows what a request asks for."""

    request: Request
    rule: WrittenRule
    path: str
    """The file that gets or has the rule."""
    answers: tuple[Request, ...] = ()
    """The open requests that it answers at once, or has answered."""


class RuleWriter:
    def __init__(
        self,
        store: Store,
        authorizer: Authorizer,
        requests: Requests,
        always: AlwaysAllowed,
        providers: Mapping[str, Provider],
        paths: InstancePaths,
        read_config: ReadConfig,
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._requests = requests
        self._always = always
        self._providers = providers
        self._path = paths.rules
        self._private = (
            paths.config,
            paths.rules,
            f"{paths.home}/agents",
            f"{paths.home}/dialect",
            paths.state,
        )
        self._read_config = read_config
        self._threads = FileThreads()
        self._one = asyncio.Lock()
        """Held while the file changes."""

    @property
    def rules(self) -> tuple[WrittenRule, ...]:
        """The rules that apply now, oldest first."""
        return self._always.rules

    def visible(self, caller: Caller) -> tuple[WrittenRule, ...]:
        """The rules that the caller may see: all or none."""
        return self.rules if may_at_all(caller, ANSWER_ALWAYS.audience) else ()

    @property
    def path(self) -> str:
        return self._path

    async def lines(self, caller: Caller, requests: Iterable[Request]) -> dict[int, str]:
        """The line that would be written for each of the requests, by its id, without those that get no rule.

        Empty for callers who may not write rules. Does not look at permission modes: `preview` does. Leaves out
        sessions whose directory does not answer in time: nobody could see any request otherwise.
        """
        if not may_at_all(caller, ANSWER_ALWAYS.audience):
            return {}
        asking = [
            (request, session)
            for request in requests
            if _is_waiting(request) and (session := self._store.sessions.get(request.session_id)) is not None
        ]
        real = await self._real_directories({session.working_dir for _, session in asking})
        found: dict[int, str] = {}
        for request, session in asking:
            if (real_dir := real.get(session.working_dir)) is not None:
                rule = self._rule(request, session, real_dir)
                if isinstance(rule, WrittenRule):
                    found[request.id] = rule.text
        return found

    async def _real_directories(self, paths: Iterable[str]) -> dict[str, str]:
        """The directories without links, without those whose file system does not answer."""

        def look(some: Iterable[str]) -> list[tuple[str, str]]:
            return [(path, os.path.realpath(path)) for path in some]

        answers = await self._threads.run_each({path: path for path in paths}, look, _WITHIN_S)
        return dict(chain.from_iterable(answers))

    async def preview(self, caller: Caller, reference: str) -> RuleOfRequest:
        """The rule for a request, with the open requests that it would answer.

        Raises IllegalState for a closed request, and UsageError with the reason for one that gets no rule.
        """
        self._authorizer.require(caller, ANSWER_ALWAYS.audience, reference, is_read=True)
        request = await self._requests.find(caller, reference)
        rule = await self._proposed(request)
        return RuleOfRequest(request, rule, self._path, tuple(await self._matching(rule)))

    async def write(self, caller: Caller, reference: str, line: str) -> RuleOfRequest:
        """Write the rule for a request, apply it, and let it answer all open requests that it matches.

        `line`: the line that the person saw. A repetition writes nothing. Raises ShownChanged if the line would be
        another one now, and errors as `preview` and `add_rule`.
        """
        self._authorizer.require(caller, ANSWER_ALWAYS.audience, reference, is_read=True)
        request = await self._requests.find(caller, reference)
        async with self._one:
            written = next((rule for rule in self.rules if rule.text == line), None)
            if written is not None and not _is_waiting(request):
                return RuleOfRequest(request, written, self._path)
            rule = await self._proposed(request)
            if rule.text != line:
                raise ShownChanged(
                    f"the rule for {request.name} would be another one now: {rule.text}",
                    Hint("see it again: ", Use(APPROVE, request.name, "--always")),
                )
            state = await self._read_config()
            if state.problem is not None:
                first = state.problem.splitlines()[0]
                raise IllegalState(f"the configuration has mistakes: {first}", "sm config --check")
            detail = f"a rule for agent type {rule.agent_type}"
            self._authorizer.require(caller, ANSWER_ALWAYS.audience, request.name, detail)
            await self._change(partial(add_rule, self._path, rule))
        return RuleOfRequest(request, rule, self._path, tuple(await self._answer(rule)))

    async def undo(self, caller: Caller, line: str) -> WrittenRule:
        """Remove the newest rule. Requests that it has answered stay answered.

        `line`: the line that the person saw. Raises IllegalState if the newest one is another, and errors as
        `add_rule`.
        """
        detail = "the newest permission rule"
        self._authorizer.require(caller, UNDO_RULE.audience, None, detail)
        async with self._one:
            return await self._change(partial(remove_newest_rule, self._path, line))

    async def _change(self, change: Callable[[], Result]) -> Result:
        """Change the file, and apply the change."""
        try:
            result = await asyncio.to_thread(change)
        except OSError as error:
            raise ExternalError(
                f"cannot write {self._path}: {(error.strerror or str(error)).lower()}"
            ) from None
        state = await self._read_config()
        if state.problem is not None:
            first = state.problem.splitlines()[0]
            raise IllegalState(f"{self._path} was changed, but is not applied: {first}", "sm config --check")
        return result

    async def _proposed(self, request: Request) -> WrittenRule:
        session = self._store.sessions.get(request.session_id)
        if session is None or not _is_waiting(request):
            raise too_late(request)
        rule = self._rule(request, session, await real_directory(session))
        if isinstance(rule, str):
            raise UsageError(f"request {request.name} gets no rule: {rule}", Hint(Use(APPROVE, request.name)))
        if await self._always.bypasses(session):
            raise UsageError(
                f"request {request.name} gets no rule: session {short_label(session)} bypasses permissions",
                Hint(Use(APPROVE, request.name)),
            )
        return rule

    def _rule(self, request: Request, session: Session, real_dir: str) -> WrittenRule | str:
        """The rule for a request, or the reason why there is none. `real_dir`: from `real_directory`."""
        if request.kind is not RequestKind.PERMISSION or request.tool is None or request.arguments is None:
            return "rules are for permissions only"
        if request.cut:
            return "its arguments are too long to be shown"
        if not is_agent_type(session.agent_type):
            return f"{session.agent_type!r} is no name of an agent type"
        bases = (session.working_dir, real_dir)
        try:
            text = exact_rule(request.tool, request.arguments, bases, self._private)
        except ValueError as error:
            return str(error)
        kind = self._providers[session.provider].agent_config(session.agent_type)
        deny = () if kind is None else kind.auto_deny
        place = PathContext(bases[0], bases)
        ruling = evaluate((text,), deny, request.tool, request.arguments, place, cut=False)
        if ruling is None or not ruling.approved:
            return f"auto_deny of agent type {session.agent_type} may match it, and overrides it"
        return WrittenRule(session.agent_type, text, session.effective_mode is TrustLevel.SANDBOXED)

    async def _matching(self, rule: WrittenRule) -> list[Request]:
        """The open requests that the rule answers, oldest first."""
        found = []
        for request in sorted(self._store.mail.open.requests.values(), key=lambda request: request.id):
            session = self._store.sessions.get(request.session_id)
            if (
                session is None
                or not _is_waiting(request)
                or request.hook is None
                or request.reason == IGNORED
            ):
                continue
            own = self._rule(request, session, await real_directory(session))
            if isinstance(own, str) or (own.agent_type, own.allow) != (rule.agent_type, rule.allow):
                continue
            if (own.sandboxed or not rule.sandboxed) and not await self._always.bypasses(session):
                found.append(request)
        return found

    async def _answer(self, rule: WrittenRule) -> list[Request]:
        """Propose the answer to the hooks of the open requests that the rule matches, and wait until they take it."""
        matching = await self._matching(rule)
        proposed = []
        async with self._store.transaction() as tx:
            for request in matching:
                now = await tx.mail.request(request.id)
                if _is_waiting(now) and now.hook is not None:
                    reason = written_reason(rule.allow)
                    tx.mail.change_request(now, answer=Answer(True), answered_by=BY_RULE, reason=reason)
                    proposed.append(now.id)
        known = self._store.mail.open.requests

        def are_taken() -> bool:
            return not any(number in known and known[number].has_proposed_answer for number in proposed)

        await self._store.wait_until(are_taken, TAKEN_WITHIN_S)
        after = [await self._store.mail.request(number) for number in proposed]
        return [r for r in after if r.state is RequestState.ANSWERED and r.answered_by == BY_RULE]


def _is_waiting(request: Request) -> bool:
    return request.open and not request.has_proposed_answer

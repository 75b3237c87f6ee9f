"""Turns dialogs of agents into requests: the agent's own hook or its link waits for the answer and takes it.

Such a request is open until its hook has taken the answer. Until then the answer is a proposed answer in the database,
so that a hook that attaches again after a restart gets the same answer. A person at the terminal may answer first;
then the hook learns that the dialog is over.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.labels import name_to_type, short_label
from sm.core.models import Caller, Session
from sm.core.program_states import PLAN, ProgramStateOf, unknown_program_state
from sm.core.requests import BY_RULE, BY_TERMINAL, Answer, Request, RequestOrigin
from sm.core.states import RequestKind, RequestState
from sm.core.statuses import Status
from sm.core.text import folded
from sm.core.timestamps import epoch_s, later
from sm.core.wording import sender_label
from sm.errors import IllegalState, LimitReached, NotFound, SmError, StorageFull, UsageError
from sm.operations.hints import Hint, Use
from sm.operations.request_operations import LIST_REQUESTS, SEE_REQUESTS
from sm.providers.base import Provider
from sm.providers.links import RequestOpened
from sm.providers.readers import Dialog, HookReader, ToolEnd
from sm.requests.always_allowed import AlwaysAllowed
from sm.requests.auto_answers import real_directory, rule_decision
from sm.requests.confirmations import Confirmations, DialogScreens, answered_by_caller, name_of
from sm.requests.link_requests import LinkRequests, asked_key, with_decisions
from sm.requests.truncation import asked_of
from sm.state.notices import Notices
from sm.state.request_steps import (
    EXPIRES_S,
    IGNORED,
    OPEN_MAX,
    NewRequest,
    answer_ignored,
    correct_answer,
    finish_request,
    finish_with_proposed_answer,
    open_of,
    open_request,
)
from sm.store import Store, Transaction, durable
from sm.terminals.base import Screen
from sm.wire_types.event_answers import DialogOutcome

log = logging.getLogger(__name__)

TAKEN_WITHIN_S = 5.0
"""How long an answer waits for its hook, which may be between two polls or reconnecting to a restarted daemon."""
_PRINTED_WITHIN_S = 3.0
"""How long a hook that got the answer may take to print the answer and confirm."""
_QUIET_S = 1.5
"""A dialog counts as answered when its session has not waited for this time: another dialog may open immediately."""
_LOOK_EVERY_S = 0.5
_AT_ITS_TERMINAL = "answered in the terminal"


@dataclass(frozen=True, slots=True)
class HookReply:
    outcome: DialogOutcome
    output: str | None = field(default=None, repr=False)
    """The text that the hook prints."""


class Dialogs:
    """The requests that hooks wait for. `answers` and `messaging` bring the answers, the API brings the hooks."""

    def __init__(
        self,
        store: Store,
        notices: Notices,
        providers: Mapping[str, Provider],
        terminals: Screen,
        always: AlwaysAllowed,
        program_state: ProgramStateOf = unknown_program_state,
    ) -> None:
        self.links = LinkRequests(store, notices)
        self._store = store
        self._notices = notices
        self._providers = providers
        self._always = always
        self._program_state = program_state
        self._screens = DialogScreens(providers, terminals)
        self._confirmations = Confirmations(store, notices, self._screens)
        self._from_before = {
            r.id for r in store.mail.open.requests.values() if r.hook and r.has_proposed_answer
        }
        """Requests with an answer that an earlier daemon proposed, and may have handed to the hook."""
        self._handed: dict[int, float] = {}
        """The time at which a hook got the answer (time.monotonic())."""
        self._withdrawing: set[int] = set()
        self._quiet: dict[int, float] = {}
        """The time since which the session of a request has not been waiting (time.monotonic())."""
        self._proposed_at: dict[int, float] = {}
        """The time at which a proposed answer was first seen (time.monotonic())."""
        self._hooks = Counter[int]()
        """How many hooks wait for the answer to a request now."""
        self._hook_left: dict[int, float] = {}
        """The time at which a hook of a request last ended its wait (time.monotonic())."""
        self._began = time.monotonic()

    # Calls of hooks

    def dialog(self, session_id: str, payload: Mapping[str, Any], *, cut: bool) -> Dialog | None:
        """The dialog in a hook event of this session's agent; None without one."""
        session = self._store.sessions.get(session_id)
        reader = None if session is None else self._hook_reader(session)
        return None if reader is None else reader.dialog(payload, cut=cut)

    def _hook_reader(self, session: Session) -> HookReader | None:
        return self._providers[session.provider].readers.hooks

    async def find(self, session_id: str, key: str) -> Request | None:
        """The request that this session's hook opened with `key`; None if the hook has to attach (again).

        Raises NotFound for the key of another session.
        """
        request = _own_request(await self._store.mail.request_of_hook(key), session_id)
        return None if request is None or self._has_outdated_ruling(request) else request

    def _has_outdated_ruling(self, request: Request) -> bool:
        """True if rules of an earlier daemon decided it: the configuration may have changed."""
        return (
            request.has_proposed_answer and request.answered_by == BY_RULE and request.id in self._from_before
        )

    async def attach(self, session_id: str, dialog: Dialog, key: str, tool_use: str | None) -> Request:
        """The request of `key`, opened if it is new. If a rule decides, its answer is proposed immediately.

        Raises NotFound for the key of another session, IllegalState if the session's process is gone, LimitReached.
        """
        session, asked = self._store.sessions.get(session_id), asked_of(dialog, key, tool_use)
        if session is not None:
            plan = self.plan(session, asked.tool, asked.arguments)
            asked = replace(asked, plan=plan, reason=self._terminal_only(session, asked, plan))
        real_dir = await real_directory(session)
        always = () if session is None else await self._always.of(session)
        async with self._store.transaction() as tx:
            request = await self._attached(tx, session_id, dialog, asked, real_dir, always)
        self._from_before.discard(request.id)
        self._confirmations.dialog_opened(request)
        return request

    async def open_on_link(self, session_id: str, event: RequestOpened) -> None:
        """Open the request that an agent makes over its link, or find it again. Raises ConnectionError."""
        session = self._store.sessions.get(session_id)
        if session is None:
            return
        opened, key = with_decisions(event), asked_key(session, event)
        known = await self._store.mail.request_of_hook(key)
        while known is not None and not known.open:
            key = asked_key(session, event, known.id)
            known = await self._store.mail.request_of_hook(key)
        try:
            request = await durable(self.attach)(session_id, opened.dialog, key, opened.tool_use or None)
        except SmError as error:  # a person at the terminal can answer
            log.warning("could not open a request: %s", error.message, extra={"sm_session": session_id})
            return
        self.links.attach(session_id, request, opened)
        await self.links.send_proposed(session_id)

    @contextmanager
    def attached(self, request_id: int) -> Iterator[None]:
        """Note that a hook waits for the answer while the block runs."""
        self._hooks[request_id] += 1
        try:
            yield
        finally:
            self._hooks[request_id] -= 1
            self._hook_left[request_id] = time.monotonic()

    async def _attached(
        self,
        tx: Transaction,
        session_id: str,
        dialog: Dialog,
        asked: NewRequest,
        real_dir: str,
        always: Sequence[str],
    ) -> Request:
        request = _own_request(await tx.mail.request_of_hook(asked.hook or ""), session_id)
        if request is not None and not self._has_outdated_ruling(request):
            return request
        session = tx.session(session_id)
        provider = self._providers[session.provider]
        decided = rule_decision(provider, session, dialog, real_dir, always, cut=asked.cut)
        if request is not None and decided is not None:
            return tx.mail.change_request(request, answer=decided.answer, reason=decided.reason)
        if request is not None:
            return await self._reopen(tx, session, request)
        if session.exit is not None:
            raise IllegalState(
                f"session {short_label(session)} has ended ({session.status}): it cannot ask questions"
            )
        if len(open_of(tx.mail.open.requests, session.id, list(RequestKind))) >= OPEN_MAX:
            raise LimitReached(
                f"session {short_label(session)} already has {OPEN_MAX} open requests",
                Hint(Use(LIST_REQUESTS)),
            )
        expires_at = later(tx.now, EXPIRES_S)
        return await open_request(tx, self._notices, session, asked, tx.now, expires_at, decided)

    async def _reopen(self, tx: Transaction, session: Session, request: Request) -> Request:
        """Drop the proposed answer. A request that a rule had decided needs a notice now."""
        after = tx.mail.change_request(request, answer=None, answered_by=None, reason=None)
        if request.answered_by == BY_RULE:
            plan = self.plan(session, after.tool, after.arguments)
            await self._notices.add_for_request(tx, session, after, plan)
        return after

    def _terminal_only(self, session: Session, asked: NewRequest, plan: str | None) -> str | None:
        """The reason to answer at the terminal: the program of the agent breaks the contract about such answers."""
        state, contract = self._program_state(session), str(asked.kind) if plan is None else PLAN
        if state is None or not state.breaks(contract):
            return None
        return f"{state.label} may not carry out an answer given through sm; answer it at its terminal"

    def plan(self, session: Session, tool: str | None, arguments: Mapping[str, Any] | None) -> str | None:
        """The plan for which this tool use requests approval, or None for another tool."""
        reader = self._hook_reader(session)
        return None if reader is None else reader.plan(tool or "", arguments or {})

    def is_decided(self, request_id: int) -> bool:
        """True if the request's hook can return: there is an answer, or the request is closed."""
        now = self._store.mail.open.requests.get(request_id)
        return (
            now is None or not now.open or (now.has_proposed_answer and request_id not in self._withdrawing)
        )

    async def reply(self, request_id: int) -> HookReply:
        """The current reply to the request's hook. The caller must pass it on immediately."""
        if not self.is_decided(request_id):
            return HookReply(DialogOutcome.OPEN)
        request = await self._store.mail.request(request_id)  # does not block for an open request
        session = self._store.sessions.get(request.session_id)
        if session is None or request.answer is None or request.answered_by == BY_TERMINAL:
            return HookReply(DialogOutcome.OVER)
        if request.has_proposed_answer:
            # Only the first time counts, so that a hook which never confirms cannot extend the wait.
            self._handed.setdefault(request.id, time.monotonic())
        output = self._decision(session, request)
        return HookReply(DialogOutcome.OVER) if output is None else HookReply(DialogOutcome.DECIDED, output)

    def _decision(self, session: Session, request: Request) -> str | None:
        reader, answered_by = self._hook_reader(session), request.answered_by or ""
        by = sender_label(answered_by, self._store.sessions.get(answered_by))
        if answered_by == BY_RULE:
            by = f"a rule ({folded(request.reason or '-', 300)})"
        return None if reader is None else reader.decision(request, by)

    async def confirm_answer(self, session_id: str, key: str) -> Request:
        """Record that the hook has passed the answer on. Idempotent. Raises NotFound."""
        async with self._store.transaction() as tx:
            request = _own_request(await tx.mail.request_of_hook(key), session_id)
            if request is None:
                raise NotFound(
                    "no such request: this hook did not open a request",
                    SEE_REQUESTS,
                )
            if request.has_proposed_answer:
                request = await finish_with_proposed_answer(tx, request, tx.now, confirmed=False)
        return request

    # Calls of answerers

    async def refresh(self, request_id: int) -> None:
        """Close a request whose dialog is gone: a waiting hook would still take the answer."""
        request = self._store.mail.open.requests.get(request_id)
        if request is None or request.origin is not RequestOrigin.HOOK:
            return
        if not request.open or request.has_proposed_answer:
            return
        age_s = time.time() - epoch_s(request.created_at)
        if age_s > _QUIET_S and await self._is_over(request):  # a younger dialog may not be drawn yet
            await self._close(request.id)

    def propose_answer(
        self, tx: Transaction, session: Session, request: Request, answer: Answer, caller: Caller
    ) -> Request:
        """Store the answer for the hook. After the commit the caller must call `wait_until_taken`.

        Raises UsageError for an answer that the hook cannot give, IllegalState if the agent ignored an answer before.
        """
        by = name_of(caller)
        if request.reason == IGNORED:
            raise answer_ignored(request)
        if request.origin is RequestOrigin.LINK:
            return tx.mail.change_request(request, answer=answer, answered_by=by, reason=None)
        if self._decision(session, replace(request, answer=answer, answered_by=by)) is None:
            why = "its text is too long" if request.cut else "its dialog does not accept this answer"
            raise UsageError(
                f"request {request.name} must be answered in its terminal: {why}",
                f"sm attach {name_to_type(session)}",
            )
        return tx.mail.change_request(request, answer=answer, answered_by=by, reason=None)

    async def wait_until_taken(self, proposed: Request, caller: Caller) -> Request:
        """Wait until the hook has taken the answer that `caller` proposed. Returns immediately where no hook waits.

        Waits a moment longer for the agent to confirm a refusal. Raises IllegalState when no hook takes the answer,
        which is then withdrawn, and when another answer was first.
        """
        if proposed.hook is None:
            return proposed
        if proposed.origin is RequestOrigin.LINK:
            return await self.links.wait(proposed, caller)
        # A repeated call gets the outcome of the request.
        if not (proposed.has_proposed_answer and proposed.answered_by == name_of(caller)):
            return answered_by_caller(proposed, caller)
        began = time.monotonic()

        def is_over() -> bool:
            return not _is_current(self._store.mail.open.requests.get(proposed.id), proposed)

        while not is_over():
            left = self._patience(proposed.id, began)
            if left <= 0:
                return answered_by_caller(await self._give_up(proposed), caller)
            await self._store.wait_until(is_over, left)
        return await self._confirmations.wait(await self._store.mail.request(proposed.id), caller)

    def _patience(self, request_id: int, began: float) -> float:
        handed = self._handed.get(request_id, 0.0)
        return max(began + TAKEN_WITHIN_S, handed + _PRINTED_WITHIN_S) - time.monotonic()

    async def _give_up(self, proposed: Request) -> Request:
        over = await self._close(proposed.id) if await self._is_over(proposed) else None
        return over or await self._withdraw(proposed)

    async def _withdraw(self, proposed: Request) -> Request:
        """Withdraw the proposed answer, unless the request has changed meanwhile."""
        self._withdrawing.add(proposed.id)  # a hook that polls now must not get the withdrawn answer
        try:
            async with self._store.transaction() as tx:
                now = await tx.mail.request(proposed.id)
                if _is_current(now, proposed):
                    now = await self._reopen(tx, tx.session(now.session_id), now)
            return now
        finally:
            self._withdrawing.discard(proposed.id)
            self._from_before.discard(proposed.id)
            self._handed.pop(proposed.id, None)
            self._proposed_at.pop(proposed.id, None)

    # Closed dialogs

    async def tool_ended(self, session_id: str, end: ToolEnd) -> None:
        """Close the request of a finished tool use, or confirm or correct its answer."""
        for request in self._open_with_hook():
            if (request.session_id, request.tool_use) == (session_id, end.tool_use):
                await durable(self._close)(request.id, end.allowed)
        await self._confirmations.tool_ended(session_id, end)

    async def sub_agent_ended(self, session_id: str, sub_agent: str) -> None:
        """Close the requests of a sub-agent that is gone."""
        for request in self._open_with_hook():
            if (request.session_id, request.agent) == (session_id, sub_agent):
                await durable(self._close)(request.id)

    async def _close(self, request_id: int, allowed: bool | None = None) -> Request | None:
        """Close the request of a closed dialog: with the proposed answer, else as answered at the terminal."""
        async with self._store.transaction() as tx:
            now = await tx.mail.request(request_id)
            session = tx.find(now.session_id)
            if not now.open or session is None:
                return now
            # A proposed answer that reached no hook, or came too late, did not decide: the person at the terminal did.
            given = now.id in self._handed or now.id in self._from_before
            if now.answer is not None and given and allowed in (None, now.answer.approved):
                return await finish_with_proposed_answer(tx, now, tx.now, confirmed=allowed is not None)
            if now.answer is not None and given and allowed is not None:
                return await correct_answer(tx, self._notices, session, now, allowed=allowed)
            return await finish_request(
                tx,
                session,
                now,
                tx.now,
                state=RequestState.ANSWERED,
                answer=None if allowed is None else Answer(allowed),
                answered_by=BY_TERMINAL,
                reason=(now.reason if now.answer is None else None) or _AT_ITS_TERMINAL,
                taken_at=tx.now,
            )

    async def run(self) -> None:
        """Close dialogs that are gone without an event; withdraw answers that no hook takes. Never returns."""
        while True:
            try:
                await self._look()
            except StorageFull as error:
                log.warning("postponed the check of dialogs: %s", error.message)
            except Exception:
                log.exception("failed to check dialogs")
            if self._has_work():
                await asyncio.sleep(_LOOK_EVERY_S)
            else:
                await self._store.wait_until(self._has_work)

    def _has_work(self) -> bool:
        return bool(self._open_with_hook() or self._confirmations.pending)

    def _open_with_hook(self) -> list[Request]:
        requests = self._store.mail.open.requests.values()
        return [r for r in requests if r.open and r.origin is RequestOrigin.HOOK]

    async def _look(self) -> None:
        await self._confirmations.expire()
        await self._confirmations.reopen_ignored()
        waited_for = {request.id: request for request in self._open_with_hook()}
        now = time.monotonic()
        self._from_before &= waited_for.keys()
        for known in (self._quiet, self._proposed_at, self._handed, self._hook_left):
            for number in known.keys() - waited_for.keys():
                del known[number]
        self._hooks = +self._hooks
        for request in waited_for.values():
            if self._is_quiet(request, now):
                if await self._is_over(request):
                    await self._close(request.id)
                    continue
                self._quiet[request.id] = (
                    now  # the dialog is still open: wait before the next read of the screen
                )
            if not request.has_proposed_answer:
                self._proposed_at.pop(request.id, None)
            # `wait_until_taken` withdraws earlier than this, unless the daemon or its caller was killed.
            elif (
                self._patience(request.id, self._proposed_at.setdefault(request.id, now) + TAKEN_WITHIN_S)
                <= 0
            ):
                await self._withdraw(request)

    def _is_quiet(self, request: Request, now: float) -> bool:
        session = self._store.sessions.get(request.session_id)
        if session is None or not self._may_be_over(request, session):
            self._quiet.pop(request.id, None)
            return False
        return now - self._quiet.setdefault(request.id, now) >= _QUIET_S

    def _may_be_over(self, request: Request, session: Session) -> bool:
        """Return whether the session's status allows that the dialog is gone.

        claude shows the dialog of a background sub-agent only after its hook has ended, and is busy meanwhile
        (measured with 2.1.197 and 2.1.332). So a screen without a dialog proves nothing while the hook waits.
        """
        if session.status is Status.WAITING_INPUT:
            return False
        return not request.agent or session.status is not Status.RUNNING or not self._has_hook(request.id)

    def _has_hook(self, request_id: int) -> bool:
        """Return whether a hook waits for the answer, or may be about to attach again."""
        left = self._hook_left.get(request_id, self._began)
        return self._hooks[request_id] > 0 or time.monotonic() - left < TAKEN_WITHIN_S

    async def _is_over(self, request: Request) -> bool:
        """Return whether the session does not wait and its screen shows no dialog."""
        session = self._store.sessions.get(request.session_id)
        if session is None or not self._may_be_over(request, session):
            return False
        return await self._screens.shows_dialog(session) is False


def _own_request(request: Request | None, session_id: str) -> Request | None:
    if request is not None and request.session_id != session_id:
        raise NotFound(
            "no such request: the Idempotency-Key belongs to another session",
            SEE_REQUESTS,
        )
    return request


def _is_current(now: Request | None, proposed: Request) -> bool:
    return (
        now is not None
        and now.has_proposed_answer
        and (now.answer, now.answered_by) == (proposed.answer, proposed.answered_by)
    )

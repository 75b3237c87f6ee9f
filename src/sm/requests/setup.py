"""Turns first-start dialogs of agents into requests, which only the operator may answer.

No hook runs while such a dialog is open, so `sm` answers it with keys. This is the only dialog in which `sm` presses a
key. Before each key it reads the screen: it must show this dialog, and the key either moves the selection or confirms
the option that approves. The confirmation is pressed once.

An approval is a proposed answer until the dialog is gone, so that a restarted daemon carries it out. A denial ends the
agent, as `sm kill` does.
"""

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import field

from sm.core.dataclass import dataclass
from sm.core.labels import name_to_type, short_label
from sm.core.models import Caller, Session
from sm.core.requests import BY_TERMINAL, Answer, Question, Request
from sm.core.states import RequestKind, RequestState, TrustLevel
from sm.core.statuses import Status
from sm.errors import ExternalError, IllegalState, SmError, TerminalUnreachable
from sm.providers.base import Provider
from sm.providers.readers import SetupDialog, SetupQuestion
from sm.requests.confirmations import answered_by_caller, name_of
from sm.sessions.kill import Kills
from sm.state.notices import Notices
from sm.state.request_steps import (
    NewRequest,
    finish_request,
    finish_with_proposed_answer,
    open_of,
    open_request,
)
from sm.store import Store, Transaction, durable
from sm.terminals.base import Terminals

log = logging.getLogger(__name__)

DIALOG = "dialog"
"""The argument of a request with its `SetupQuestion`."""
DIRECTORY = "directory"
_LOOK_EVERY_S = 0.1
_ABSENT_LOOKS = 30
_KEY_TAKES_S = 2.0
"""How long a key may take to move the selection. Then it is pressed again."""
_PERSON_PAUSES_S = 1.0
"""No key is pressed while a person presses keys in the same terminal."""
_ANSWERED_WITHIN_S = 20.0
_CALLER_WAITS_S = 40.0
_UP = (Status.RUNNING, Status.IDLE)
"""Statuses of an agent that has started: its dialog is gone."""


@dataclass(frozen=True, slots=True, eq=False)
class SetupDialogs:
    _store: Store
    _notices: Notices
    _providers: Mapping[str, Provider]
    _terminals: Terminals
    _kills: Kills
    _carried_out: set[int] = field(init=False, default_factory=set)
    """The requests whose approval is being carried out."""
    _failures: dict[int, SmError] = field(init=False, default_factory=dict)
    """The reasons why the last approval of a request failed."""

    # Reports of the monitor

    async def dialog_shown(self, session_id: str, dialog: SetupDialog | None) -> None:
        """Open a request for the dialog on the screen of an agent that has not started, and close those before it.

        With None, the agent has started, or shows another problem.
        """
        session = self._store.sessions.get(session_id)
        if session is None or session.effective_mode is not TrustLevel.DIRECT:
            return
        current = dialog is not None and dialog.question
        requests = open_of(self._store.mail.open.requests, session_id, [RequestKind.SETUP])
        for request in requests:
            if _question(request) != current and not request.has_proposed_answer:
                await durable(self._close)(request.id)
        if dialog is not None and not any(_question(request) == current for request in requests):
            directory = await asyncio.to_thread(os.path.realpath, session.working_dir)
            await durable(self._open)(session_id, dialog, directory)

    async def _open(self, session_id: str, dialog: SetupDialog, directory: str) -> None:
        asked = NewRequest(
            RequestKind.SETUP,
            (Question(dialog.text),),
            arguments={DIALOG: dialog.question.value, DIRECTORY: directory},
        )
        async with self._store.transaction() as tx:
            session = tx.session(session_id)
            if session.exit is None:
                await open_request(tx, self._notices, session, asked, tx.now, None)

    async def _close(self, request_id: int) -> None:
        """Close a request whose dialog is gone: a person has answered it in the terminal."""
        async with self._store.transaction() as tx:
            now = await tx.mail.request(request_id)
            session = tx.find(now.session_id)
            if session is not None and now.open and not now.has_proposed_answer:
                state, reason = RequestState.ANSWERED, "answered in the terminal"
                await finish_request(
                    tx,
                    session,
                    now,
                    tx.now,
                    state=state,
                    answered_by=BY_TERMINAL,
                    reason=reason,
                    taken_at=tx.now,
                )

    # Calls of answerers

    async def answer(
        self, tx: Transaction, session: Session, request: Request, answer: Answer, caller: Caller
    ) -> Request:
        """Propose an approval, or deny the request and order the end of its agent. `wait` follows the commit."""
        by = name_of(caller)
        if answer.approved:
            self._failures.pop(request.id, None)
            return tx.mail.change_request(request, answer=answer, answered_by=by, reason=None)
        await self._kills.order(tx, session, caller)
        state = RequestState.ANSWERED
        return await finish_request(
            tx, session, request, tx.now, state=state, answer=answer, answered_by=by, taken_at=tx.now
        )

    async def wait(self, answered: Request, caller: Caller) -> Request:
        """Wait until the answer of `caller` has its effect: the dialog is gone, or the agent has ended.

        Raises the error for which an approval was withdrawn; IllegalState when another answer was first.
        """
        if answered.answer is not None and not answered.answer.approved:
            session = self._store.sessions.get(answered.session_id)
            if session is not None and answered.answered_by == name_of(caller):
                await self._kills.wait_until_ended([session], caller)
            return answered_by_caller(answered, caller)

        def is_over() -> bool:
            now = self._store.mail.open.requests.get(answered.id)
            return now is None or not now.has_proposed_answer

        await self._store.wait_until(is_over, _CALLER_WAITS_S)
        now = await self._store.mail.request(answered.id)
        if now.open and (failure := self._failures.get(now.id)) is not None:
            raise failure
        return answered_by_caller(now, caller)

    # The worker

    async def run(self) -> None:
        """Carry out approvals, and close requests of agents that have started. Never returns."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._store.wait_until(lambda: bool(self._due()))
                for request in self._due():
                    self._carried_out.add(request.id)
                    group.create_task(self._carry_out(request))

    def _due(self) -> list[Request]:
        return [
            request
            for request in self._store.mail.open.requests.values()
            if request.kind is RequestKind.SETUP
            and request.open
            and request.id not in self._carried_out
            and (request.has_proposed_answer or self._is_up(request))
        ]

    def _is_up(self, request: Request) -> bool:
        session = self._store.sessions.get(request.session_id)
        return session is not None and session.status in _UP

    async def _carry_out(self, request: Request) -> None:
        try:
            if not request.has_proposed_answer:
                await durable(self._close)(request.id)
                return
            try:
                await self._approve(request)
            except Exception as error:
                if not isinstance(error, SmError):
                    log.exception("failed to answer a dialog", extra={"sm_session": request.session_id})
                await durable(self._withdraw)(request, error)
            else:
                await durable(self._finish)(request.id)
        except Exception:  # such as a removed session
            log.exception("failed to close a request", extra={"sm_session": request.session_id})
        finally:
            self._carried_out.discard(request.id)

    async def _finish(self, request_id: int) -> None:
        async with self._store.transaction() as tx:
            now = await tx.mail.request(request_id)
            if now.has_proposed_answer:
                await finish_with_proposed_answer(tx, now, tx.now, confirmed=True)

    async def _withdraw(self, request: Request, error: Exception) -> None:
        hint = f"answer in the terminal: sm attach {request.session_id}"
        if isinstance(error, SmError):
            failure: SmError = error
        else:
            failure = ExternalError(f"request {request.name} could not be answered", hint)
        async with self._store.transaction() as tx:
            now = await tx.mail.request(request.id)
            if now.has_proposed_answer:
                self._failures[request.id] = failure
                tx.mail.change_request(now, answer=None, answered_by=None)

    # The dialog

    async def _approve(self, request: Request) -> None:
        """Store the approval in the agent CLI's own files, and answer the dialog. Raises SmError."""
        session = self._store.sessions[request.session_id]
        launch = await self._store.launch(session.id)
        setup, arguments = self._providers[session.provider].setup, request.arguments or {}
        question, directory = SetupQuestion(str(arguments[DIALOG])), str(arguments[DIRECTORY])
        if setup is not None:
            await asyncio.to_thread(setup.approve, launch.environment, question, directory)
        try:
            async with asyncio.timeout(_ANSWERED_WITHIN_S):
                await self._choose(session, request, question, directory)
        except TimeoutError:
            raise ExternalError(
                f"request {request.name} could not be answered: the dialog of session {short_label(session)} "
                f"does not react as expected within {_ANSWERED_WITHIN_S:g} s",
                f"answer in its terminal: sm attach {name_to_type(session)}",
            ) from None

    async def _choose(
        self, session: Session, request: Request, question: SetupQuestion, directory: str
    ) -> None:
        """Press keys until the option that approves is selected, confirm it, and wait until the dialog is gone."""
        pressed: tuple[SetupDialog, float] | None = None
        before: SetupDialog | None = None
        absent = 0
        while self._is_open(request):
            dialog = await self._look(session, directory)
            if dialog is None or dialog.question is not question:
                # One look may find a screen that is half drawn.
                absent += 1
                if absent > 1 and pressed is not None and pressed[0].confirms:
                    return
                if absent > _ABSENT_LOOKS and pressed is None:
                    if self._is_up(request):  # an earlier daemon pressed the key, and was killed
                        return
                    raise IllegalState(
                        f"session {short_label(session)} does not show the dialog of {request.name} any more",
                        f"look at its terminal: sm attach {name_to_type(session)}",
                    )
            else:
                absent = 0
                if dialog == before and self._may_press(dialog, pressed) and await self._is_quiet(session):
                    pressed = dialog, time.monotonic()
                    await self._press(session, dialog.key)
            before = dialog
            await asyncio.sleep(_LOOK_EVERY_S)

    def _is_open(self, request: Request) -> bool:
        now = self._store.mail.open.requests.get(request.id)
        return now is not None and now.has_proposed_answer

    @staticmethod
    def _may_press(dialog: SetupDialog, pressed: tuple[SetupDialog, float] | None) -> bool:
        """True unless the effect of the last key is awaited. The confirmation is never repeated: the next one could
        answer another dialog."""
        if pressed is None or dialog.key != pressed[0].key:
            return pressed is None or not pressed[0].confirms
        return not dialog.confirms and time.monotonic() - pressed[1] > _KEY_TAKES_S

    async def _look(self, session: Session, directory: str) -> SetupDialog | None:
        reader = self._providers[session.provider].readers.screen
        try:
            lines = await self._terminals.capture_visible(session.terminal)
        except TerminalUnreachable:
            return None
        return None if reader is None else reader.setup_dialog(lines, directory)

    async def _is_quiet(self, session: Session) -> bool:
        """True if no person types at the terminal, and the agent has read all keys."""
        try:
            pause_s = await self._terminals.key_pause_s(session.terminal)
            return pause_s >= _PERSON_PAUSES_S and not await self._terminals.has_unread_input(
                session.terminal
            )
        except TerminalUnreachable:
            return False

    async def _press(self, session: Session, key: str) -> None:
        try:
            busy = await self._terminals.press(session.terminal, key)
        except TerminalUnreachable as error:  # the screen will show if the key arrived
            log.warning("could not press a key: %s", error.message, extra={"sm_session": session.id})
            return
        if busy is not None:
            raise ExternalError(
                f"no key was pressed in the terminal of session {short_label(session)}: {busy.why}",
                "sm daemon logs",
            )


def _question(request: Request) -> object:
    return (request.arguments or {}).get(DIALOG)

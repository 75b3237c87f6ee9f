"""Interrupts agents: presses the key that stops an agent's current work, once."""

import asyncio
from collections.abc import Mapping

from sm.core.dataclass import dataclass
from sm.core.effects import EffectKind
from sm.core.labels import name_to_type, short_label
from sm.core.lifecycle import is_ended
from sm.core.models import Caller, RequestKey, Session
from sm.core.observation import Source
from sm.core.pause_states import held_words
from sm.core.states import RESTORE, EventType, RequestKind
from sm.core.statuses import Status
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState, WaitTimeout
from sm.linux.jobs import RESUMABLE, InputLoss, NoInput, input_loss
from sm.linux.processes import command_line
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import INTERRUPT, KILL, RESUME, SHOW_STATUS
from sm.providers.base import Provider
from sm.sessions.authorizer import Authorizer
from sm.state.request_steps import open_of
from sm.store import Store, Transaction

INTERRUPTIBLE = frozenset({Status.RUNNING, Status.WAITING_INPUT})
"""Statuses in which an agent with turns has work to interrupt."""

_READY = frozenset({EventType.STARTED, EventType.RUNNING, EventType.IDLE})
"""Events that imply the agent finished starting."""
_HISTORY = 200
_PRESSED_WITHIN_S = 15.0
_STOPPED_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class InterruptResult:
    session: Session
    stopped: bool | None
    """True if the agent stopped its work, None if that is unknown because the agent has no turns."""
    continued: bool = False
    """The agent was suspended, and was continued in place of an interrupt."""


class Interrupts:
    """Orders interrupts. The outbox presses the key, or continues a suspended agent."""

    def __init__(self, store: Store, authorizer: Authorizer, providers: Mapping[str, Provider]) -> None:
        self._store = store
        self._authorizer = authorizer
        self._providers = providers

    async def interrupt(self, caller: Caller, reference: str, key: RequestKey | None) -> InterruptResult:
        """Press the agent's interrupt key once, and wait a few seconds until the agent stops its work.

        An agent with turns that is suspended is continued, and no key is pressed. Raises IllegalState when there is
        nothing to interrupt, or only a person at the terminal can act. Raises ExternalError or WaitTimeout when it is
        unknown whether the key was pressed; the key is not pressed again.
        """
        session = self._authorizer.find(caller, reference, INTERRUPT.audience)
        has_turns = self._providers[session.provider].has_turns
        if has_turns and await self._stuck_at_start(session):
            name = name_to_type(session)
            raise IllegalState(
                f"session {short_label(session)} cannot be interrupted during its start: {session.status_reason}",
                Hint(f"answer the dialog: sm attach {name}; or end the session: ", Use(KILL, name)),
            )
        suspended = await _is_suspended(session, self._providers[session.provider])

        async with self._store.transaction(caller, key) as tx:
            if tx.replayed is None:
                _check_interruptible(tx.session(session.id), has_turns=has_turns and not suspended)
                effect_id = await _press(tx, session, caller, suspended=suspended)
                tx.remember(str(effect_id))
            else:
                effect_id = int(tx.replayed)
        if not await self._store.wait_until(
            lambda: effect_id not in self._store.mail.open.effects, _PRESSED_WITHIN_S
        ):
            raise WaitTimeout(
                f"the terminal of session {short_label(session)} does not respond; the interrupt is still pending",
                Hint(Use(SHOW_STATUS, name_to_type(session))),
            )
        if any(effect.id == effect_id for effect in await self._store.effects_in("dead")):
            raise ExternalError(
                f"it is unknown whether session {short_label(session)} was interrupted",
                f"look at the terminal: sm attach {name_to_type(session)}",
            )

        def stopped() -> bool:
            now = self._store.sessions.get(session.id)
            return now is None or now.status not in INTERRUPTIBLE

        def continued() -> bool:
            now = self._store.sessions.get(session.id)
            return now is None or now.status_source != Source.PROCESS

        has_stopped = None
        if has_turns:
            has_stopped = await self._store.wait_until(continued if suspended else stopped, _STOPPED_WITHIN_S)
        after = self._store.sessions.get(session.id, session)
        return InterruptResult(after, None if suspended else has_stopped, suspended)

    async def _stuck_at_start(self, session: Session) -> bool:
        """Detect a start-up dialog, in which the interrupt key would end the program.

        A later dialog has the same status and source, so this looks at the session's events.
        """
        if session.status is not Status.WAITING_INPUT or session.status_source != Source.SCREEN:
            return False
        for event in reversed(await self._store.events(sessions=[session.id], limit=_HISTORY)):
            if event.type in _READY:
                return False
            if event.type in (EventType.SPAWNED, EventType.REOPENED):
                return event.type is EventType.SPAWNED or event.metadata.get("source") == RESTORE
        return False


def explain_input_loss(name: str, loss: InputLoss) -> tuple[str, str]:
    """The reason why an agent reads no input, and the hint that ends it. `name`: the word for it in a command."""
    match loss.kind:
        case NoInput.OTHER_PROGRAM:
            program = folded(loss.program, 40)
            return f"{program} has its terminal", f"leave {program} there: sm attach {name}"
        case NoInput.BACKGROUND_JOB:
            return loss.kind, f"type fg in its terminal: sm attach {name}"
        case _:
            return loss.kind, Hint("continue it: ", Use(INTERRUPT, name))


async def _is_suspended(session: Session, provider: Provider) -> bool:
    """True if SIGCONT makes the agent read its terminal again.

    Raises IllegalState if only a person at the terminal can do that: a shell or an editor would get the key.
    """
    process = session.process
    if process is None or not provider.has_turns:
        return False
    # The child of a wrapper is the agent itself.
    own = provider.adopts(command_line(process.pid))
    loss = await asyncio.to_thread(input_loss, process, reads_terminal=own)
    if loss is not None and loss.kind not in RESUMABLE:
        why, hint = explain_input_loss(name_to_type(session), loss)
        raise IllegalState(f"session {short_label(session)} cannot be interrupted: {why}", hint)
    return loss is not None


async def _press(tx: Transaction, session: Session, caller: Caller, *, suspended: bool) -> int:
    await tx.effect(EffectKind.INTERRUPT, session.id, {"by": str(caller), "continue": suspended}, tx.now)
    if suspended:
        return tx.effects[-1].id
    for request in open_of(tx.mail.open.requests, session.id, list(RequestKind)):
        if request.hook is not None and not request.has_proposed_answer:  # the key closes its dialog
            tx.mail.change_request(request, reason=f"the agent was interrupted by {caller}")
    return tx.effects[-1].id


def _check_interruptible(session: Session, *, has_turns: bool) -> None:
    if is_ended(session.status):
        raise IllegalState(
            f"session {short_label(session)} has ended ({session.status}): it cannot be interrupted"
        )
    if session.paused is not None and (held := held_words(session.paused.held)):
        raise IllegalState(
            f"session {short_label(session)} is paused: {held}", Hint(Use(RESUME, name_to_type(session)))
        )
    if session.process is None:
        raise IllegalState(
            f"session {short_label(session)} is still starting", Hint(Use(SHOW_STATUS, name_to_type(session)))
        )
    if has_turns and session.status not in INTERRUPTIBLE:
        raise IllegalState(
            f"session {short_label(session)} is {session.status}: there is nothing to interrupt"
        )

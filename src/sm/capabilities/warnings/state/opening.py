"""Opens warnings about sessions and acts as configured. Functions of a transaction."""

from collections.abc import Mapping

from sm.capabilities.warnings.model import EVIDENCE_MAX, NUDGES, SessionWarning, WarningTimer
from sm.capabilities.warnings.settings import WarningsSection
from sm.capabilities.warnings.state.rows import after_move, close_warning, open_row, warning_occasion
from sm.capabilities.warnings.tables import PART
from sm.capabilities.warnings.text.sentences import warning_goes_on_event, warning_notice
from sm.core.effects import EffectKind
from sm.core.lifecycle import is_live
from sm.core.messages import SM_ITSELF
from sm.core.models import Session
from sm.core.pauses import PauseOrder
from sm.core.requests import Request
from sm.core.states import EventType, NoticeKind, RequestKind
from sm.core.text import folded
from sm.core.timers import Timer
from sm.core.timestamps import later
from sm.core.warnings import Sign, WarningKind
from sm.providers.base import Provider
from sm.state.message_steps import send
from sm.state.notices import Notices, notice_recipient
from sm.state.pause_orders import order_pause
from sm.state.request_steps import open_of
from sm.store import Transaction
from sm.store.transaction import SessionFollower


class Warnings(SessionFollower):
    def __init__(
        self,
        settings: WarningsSection,
        notices: Notices,
        providers: Mapping[str, Provider],
    ) -> None:
        self._settings = settings
        self._notices = notices
        self._providers = providers

    def act_of(self, session: Session, kind: WarningKind) -> str:
        """The act that follows a warning of the session: `notice`, `nudge`, `interrupt`, `pause` or `off`."""
        act: str = getattr(self._settings, kind.value).do
        if act == "interrupt" and not self._providers[session.provider].has_turns:
            return "notice"  # the interrupt key would end the program
        return act

    def limit_of(self, kind: WarningKind) -> float:
        """The configured `limit` of a kind that has one."""
        return float(getattr(self._settings, kind.value).limit)

    async def open_warning(
        self,
        tx: Transaction,
        session: Session,
        kind: WarningKind,
        *,
        value: float,
        limit: float,
        evidence: str,
        recorded: bool = False,
    ) -> SessionWarning | None:
        """Open a warning and act as configured.

        `recorded`: its event exists. Returns None if it is off or open already, or the session is paused or has ended.
        """
        act = self.act_of(session, kind)
        if act == "off" or session.paused is not None or not is_live(session.status):
            return None
        nudges = act == "nudge" and kind in NUDGES
        warning = await open_row(
            tx, session, kind, value=value, limit=limit, evidence=evidence, told=not nudges, recorded=recorded
        )
        if warning is None:
            return None
        if nudges:
            text = NUDGES[kind].format(evidence=warning.evidence)
            return tx.part(PART).change(warning, told=False, nudge=send(tx, session.id, SM_ITSELF, text))
        done = act if act in ("interrupt", "pause") else None
        await self._tell_others(tx, session, warning, act=done)
        if act == "interrupt":
            await tx.effect(EffectKind.INTERRUPT, session.id, {}, tx.now)
        elif act == "pause":
            reason = f"warning {kind.value}: {warning.evidence}"
            await order_pause(tx, session, PauseOrder(SM_ITSELF, folded(reason, 200)))
        return warning

    async def tell(self, tx: Transaction, session: Session, warning: SessionWarning, evidence: str) -> None:
        """Tell the parent and the operator of a warning after which the agent goes on as before."""
        after = tx.part(PART).change(warning, told=True, evidence=folded(evidence, EVIDENCE_MAX))
        metadata = {"warning": after.kind.value, "told": True}
        await tx.event(EventType.WARNING, session, tx.now, warning_goes_on_event(session, after), metadata)
        await self._tell_others(tx, session, after)

    async def _tell_others(
        self, tx: Transaction, session: Session, warning: SessionWarning, *, act: str | None = None
    ) -> None:
        """Report a warning to the parent and to the operator.

        `act`: `interrupt` or `pause`, if sm does that. The notice then stays also if that ends the cause.
        """
        recipient, text = notice_recipient(tx, session), warning_notice(session, warning, act)
        occasion = warning_occasion(warning) if act is None else f"acted-on-{warning_occasion(warning)}"
        if recipient is not None:
            await self._notices.add(tx, session, recipient, NoticeKind.WARNING, occasion, text, None)
        await self._notices.add(
            tx, session, None, NoticeKind.WARNING, f"{occasion}/operator", text, EventType.WARNING
        )

    # What the kernel reports

    async def follow_status(self, tx: Transaction, session: Session) -> None:
        await after_move(tx, session)

    def warns_of(self, kind: WarningKind) -> bool:
        return bool(getattr(self._settings, kind.value).do != "off")

    def has_warned(self, tx: Transaction, session: Session, kind: WarningKind) -> bool:
        return tx.part(PART).find(session.id, kind) is not None

    async def follow_sign(self, tx: Transaction, session: Session, sign: Sign) -> None:
        limit = self.limit_of(sign.kind) if sign.limit is None else sign.limit
        if sign.limit is None and sign.value < limit:
            return
        await self.open_warning(
            tx,
            session,
            sign.kind,
            value=sign.value,
            limit=limit,
            evidence=sign.evidence,
            recorded=sign.recorded,
        )

    async def follow_end_of_sign(self, tx: Transaction, session: Session, kind: WarningKind) -> None:
        await close_warning(tx, session, kind)

    async def follow_request(self, tx: Transaction, session: Session, request: Request) -> None:
        """Watch the oldest open request of the session."""
        is_watched = tx.timers.find(session.id, WarningTimer.UNANSWERED) is not None
        if not is_watched and not self.has_warned(tx, session, WarningKind.UNANSWERED):
            _watch(tx, request, self._settings.unanswered.after)

    async def follow_closed_request(self, tx: Transaction, session: Session, request: Request) -> None:
        """End the warning of a request that is closed, and watch the next one."""
        others = open_of(tx.mail.open.requests, session.id, list(RequestKind))
        if any(other.id < request.id for other in others):
            return  # only the oldest request is watched
        timer = tx.timers.find(session.id, WarningTimer.UNANSWERED)
        warning = tx.part(PART).find(session.id, WarningKind.UNANSWERED)
        tx.timers.remove(session.id, WarningTimer.UNANSWERED)
        await close_warning(tx, session, WarningKind.UNANSWERED)
        after_s = timer.within_s if timer is not None else None if warning is None else warning.limit
        if others and after_s is not None:
            _watch(tx, min(others, key=lambda other: other.id), after_s)


def _watch(tx: Transaction, request: Request, after_s: float) -> None:
    """Set the timer that warns of the oldest open request of a session."""
    due_at, data = later(request.created_at, after_s), {"request": request.id}
    tx.timers.set(Timer(request.session_id, WarningTimer.UNANSWERED, due_at, after_s, data))

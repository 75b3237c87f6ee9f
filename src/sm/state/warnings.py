"""Opens warnings about sessions and acts as configured. Functions of a transaction."""

from collections.abc import Mapping

from sm.config.warnings import WarningsSection
from sm.core.effects import EffectKind
from sm.core.lifecycle import is_live
from sm.core.messages import SM_ITSELF
from sm.core.models import Session
from sm.core.states import EventType
from sm.core.text import folded
from sm.core.warnings import EVIDENCE_MAX, NUDGES, SessionWarning, WarningKind
from sm.core.wording import warning_goes_on_event
from sm.providers.base import Provider
from sm.state.messages import send
from sm.state.notices import Notices
from sm.state.pauses import Pauses
from sm.state.warning_rows import open_row
from sm.store import Transaction


class Warnings:
    def __init__(
        self,
        settings: WarningsSection,
        notices: Notices,
        pauses: Pauses,
        providers: Mapping[str, Provider],
    ) -> None:
        self._settings = settings
        self._notices = notices
        self._pauses = pauses
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
    ) -> SessionWarning | None:
        """Open a warning and act as configured.

        None: it is off or open already, or the session is paused or has ended.
        """
        act = self.act_of(session, kind)
        if act == "off" or session.paused is not None or not is_live(session.status):
            return None
        nudges = act == "nudge" and kind in NUDGES
        warning = await open_row(
            tx, session, kind, value=value, limit=limit, evidence=evidence, told=not nudges
        )
        if warning is None:
            return None
        if nudges:
            text = NUDGES[kind].format(evidence=warning.evidence)
            return tx.warnings.change(warning, told=False, nudge=send(tx, session.id, SM_ITSELF, text))
        done = act if act in ("interrupt", "pause") else None
        await self._notices.add_for_warning(tx, session, warning, act=done)
        if act == "interrupt":
            await tx.effect(EffectKind.INTERRUPT, session.id, {}, tx.now)
        elif act == "pause":
            reason = f"warning {kind.value}: {warning.evidence}"
            await self._pauses.pause(tx, session, by=SM_ITSELF, reason=folded(reason, 200))
        return warning

    async def tell(self, tx: Transaction, session: Session, warning: SessionWarning, evidence: str) -> None:
        """Tell the parent and the operator of a warning after which the agent goes on as before."""
        after = tx.warnings.change(warning, told=True, evidence=folded(evidence, EVIDENCE_MAX))
        metadata = {"warning": after.kind.value, "told": True}
        await tx.event(EventType.WARNING, session, tx.now, warning_goes_on_event(session, after), metadata)
        await self._notices.add_for_warning(tx, session, after)

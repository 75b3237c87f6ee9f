"""The parts that deliver messages, and those that show and answer requests of agents."""

from sm.daemon.foundation import Foundation
from sm.daemon.monitor_parts import MonitorParts
from sm.daemon.session_parts import SessionParts
from sm.messaging import (
    ComposerDriver,
    DeliveryReceipts,
    DeliveryWorker,
    Inbox,
    LinkDelivery,
    MailTimers,
    Messages,
)
from sm.messaging.delivery_record import DeliveryRecord
from sm.monitor import AgentListener
from sm.providers.links import AgentLink, LinkEvent, RequestOpened, RequestResolved, StateUpdate
from sm.providers.readers import SetupDialog, ToolEnd
from sm.requests import AlwaysAllowed, Dialogs, Requests, SetupDialogs, TerminalDialogs


class DialogListener(AgentListener):
    """Passes events to the dialogs, whose package must not import the monitor's protocol."""

    def __init__(self, dialogs: Dialogs, setup: SetupDialogs) -> None:
        self._dialogs = dialogs
        self._setup = setup

    async def tool_ended(self, session_id: str, end: ToolEnd) -> None:
        await self._dialogs.tool_ended(session_id, end)

    async def sub_agent_ended(self, session_id: str, sub_agent: str) -> None:
        await self._dialogs.sub_agent_ended(session_id, sub_agent)

    async def serve_link(self, session_id: str, link: AgentLink) -> None:
        await self._dialogs.links.serve(session_id, link)

    async def link_event(self, session_id: str, event: LinkEvent) -> None:
        if isinstance(event, RequestOpened):
            await self._dialogs.open_on_link(session_id, event)
        elif isinstance(event, RequestResolved):
            await self._dialogs.links.resolved(session_id, event)
        elif isinstance(event, StateUpdate):
            self._dialogs.links.note_state(session_id)

    async def setup_dialog(self, session_id: str, dialog: SetupDialog | None) -> None:
        await self._setup.dialog_shown(session_id, dialog)


class MessageParts:
    def __init__(self, base: Foundation, sessions: SessionParts, watch: MonitorParts) -> None:
        store, authorizer, terminals = base.store, base.authorizer, base.terminals
        notices, providers = base.notices, base.providers
        checks, observer = base.program_checks, watch.observer
        self.composer = ComposerDriver(terminals, observer)
        self.always = AlwaysAllowed(base.loaded.rules, observer.permission_modes.current)
        self.dialogs = Dialogs(store, notices, providers, terminals, self.always, checks.state)
        self.setup_dialogs = SetupDialogs(store, notices, providers, terminals, sessions.kills)
        self.terminal_dialogs = TerminalDialogs(store, notices, providers, terminals)
        self.requests = Requests(
            store, authorizer, notices, sessions.reports, self.dialogs, self.setup_dialogs
        )
        attachers = sessions.plans.attachers
        self.messages = Messages(store, authorizer, notices, base.quota, providers, self.dialogs, attachers)
        self.inbox = Inbox(store, authorizer, notices, providers)
        receipts = DeliveryReceipts(store, notices, providers, checks.state)
        record = DeliveryRecord(store, notices)
        self.worker = DeliveryWorker(store, record, providers, terminals, self.composer, receipts)
        self.timers = MailTimers(store, notices, sessions.kills, sessions.waiting)
        # A receipt is taken before the listeners that follow the turn of its message.
        links = LinkDelivery(store, record, providers, receipts)
        for listener in (receipts, links, self.composer, DialogListener(self.dialogs, self.setup_dialogs)):
            observer.register(listener)

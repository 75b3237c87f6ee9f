"""Builds and connects the parts of the daemon. No other module does this."""

import asyncio
import os
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from sm.api.agent_sockets import AgentSockets
from sm.api.auth import Containment, Identity
from sm.api.sockets import SocketLimits
from sm.config import Config, ConfigChanges, LoadedConfig, sandbox_for, take_over
from sm.core.telegram import telegram_user
from sm.core.timers import TimerKind
from sm.core.timestamps import iso
from sm.daemon.check_runner import run_check
from sm.daemon.config_file import ConfigFile
from sm.daemon.due_timers import DueTimers, TimerHandler
from sm.daemon.freezer import AgentSight, Freezer
from sm.daemon.interrupt_effects import InterruptEffects
from sm.daemon.log import set_log_level
from sm.daemon.outbox import Outbox
from sm.daemon.sandboxing import SandboxParts
from sm.daemon.web_server import WebServer
from sm.equipment.agreements import Agreements
from sm.equipment.project_items import ProjectItems
from sm.kernel import Kernel, set_up_capabilities
from sm.linux.file_threads import FileThreads
from sm.linux.processes import die_with_parent
from sm.mcp import McpServer
from sm.messaging import (
    ComposerDriver,
    DeliveryReceipts,
    DeliveryWorker,
    LimitDialogs,
    MailTimers,
    Messages,
)
from sm.monitor import AgentListener, CutOffSessions, Monitor, Observer, Summary, UsageMeter, Watcher
from sm.monitor.completions import Completions, TurnReader
from sm.monitor.live_screens import LiveScreens
from sm.monitor.program_checks import ProgramChecks, RunCheck
from sm.monitor.retries import Retries
from sm.monitor.terminal_use import TerminalLooks
from sm.monitor.unread_transcripts import UnreadTranscripts
from sm.monitor.watched_panes import WatchedPanes
from sm.notifiers import NOTIFIERS
from sm.paths import INSIDE_HOME, InstancePaths
from sm.providers import make_providers
from sm.providers.base import Summarizer
from sm.providers.checks import CheckRecords
from sm.providers.readers import SetupDialog, ToolEnd
from sm.requests import Dialogs, Requests, SetupDialogs, TerminalDialogs
from sm.sandboxes.home import homes
from sm.server import ApiServer
from sm.services import (
    DaemonInfo,
    Live,
    Reads,
    Services,
    Sessions,
    Telegram,
    TelegramLink,
    Waits,
)
from sm.sessions.adopt import Adoptions
from sm.sessions.archive import Records
from sm.sessions.attached import AttachedOperator
from sm.sessions.chat_users import ChatUsers
from sm.sessions.cleanup import Reaper, TerminalCleanup
from sm.sessions.conversation_files import ConversationFiles
from sm.sessions.end_inspection import EndInspection
from sm.sessions.home_files import HomeFiles
from sm.sessions.interrupt import Interrupts
from sm.sessions.keepers import Keepers
from sm.sessions.kill import Kills
from sm.sessions.leftovers import Leftovers
from sm.sessions.manager import Manager
from sm.sessions.next_process import Restarter
from sm.sessions.pause import Pausing
from sm.sessions.plan import SpawnPlanner
from sm.sessions.reports import Reports
from sm.sessions.restore import Restorer
from sm.sessions.sandboxing import Sandboxing
from sm.sessions.seen import SeenSessions
from sm.sessions.session_sums import SessionSums
from sm.sessions.spawn import Spawner
from sm.sessions.transcript_watch import TranscriptWatch
from sm.sessions.waits import WaitingSessions
from sm.sessions.workspaces import Workspaces
from sm.store import Store
from sm.store.audit import Audit
from sm.terminals.base import Terminals
from sm.terminals.tmux.terminals import Tmux

if TYPE_CHECKING:
    from sm.telegram.door import TelegramDoor


def now() -> str:
    """The current time in the format of every stored time."""
    return iso(time.time())


class DialogListener(AgentListener):
    """Passes events to the dialogs, whose package must not import the monitor's protocol."""

    def __init__(self, dialogs: Dialogs, setup: SetupDialogs) -> None:
        self._dialogs = dialogs
        self._setup = setup

    async def tool_ended(self, session_id: str, end: ToolEnd) -> None:
        await self._dialogs.tool_ended(session_id, end)

    async def sub_agent_ended(self, session_id: str, sub_agent: str) -> None:
        await self._dialogs.sub_agent_ended(session_id, sub_agent)

    async def setup_dialog(self, session_id: str, dialog: SetupDialog | None) -> None:
        await self._setup.dialog_shown(session_id, dialog)


def terminals_of(config: Config, paths: InstancePaths, store: Store, umask: int) -> Tmux:
    """The tmux server of this instance. A server that the daemon starts passes `umask` on to its agents."""
    return Tmux(
        store.instance,
        config.tmux,
        dict(os.environ),
        umask=umask,
        before_exec=die_with_parent(),
        scratch=paths.run,
    )


class TelegramParts:
    """The bot of Telegram, whose modules are imported only when a token is configured."""

    def __init__(
        self,
        loaded: LoadedConfig,
        services: Services,
        wall: Callable[[], float],
        steady: Callable[[], float],
    ) -> None:
        self._door: TelegramDoor | None = None
        if loaded.telegram_token is not None:
            door = import_module("sm.telegram.door")
            self._door = door.TelegramDoor(
                loaded.config.telegram, loaded.telegram_token, services, wall, steady
            )

    async def run(self) -> None:
        """Run until cancelled."""
        if self._door is not None:
            await self._door.run()
        await asyncio.get_running_loop().create_future()


class DaemonParts:
    """Every part of the daemon, built and connected. Its attributes are the parts that the daemon starts and stops.

    The constructor starts nothing and touches no file, process or terminal. `containment` identifies the callers of
    agent sockets; None: by the containers of this daemon. `started_s`: the start of the daemon (time.monotonic()). The
    daemon ends when `stopping` is set. `sandboxing`: the parts of both sandboxes, by default those of this host. `wall`
    and `steady`: the clocks of everything that is due at a time. `check_program`: tries the contracts of a program.
    """

    def __init__(
        self,
        paths: InstancePaths,
        loaded: LoadedConfig,
        store: Store,
        terminals: Terminals,
        *,
        agent_bounds: SocketLimits,
        containment: Containment | None,
        started_s: float,
        stopping: asyncio.Event,
        sandboxing: SandboxParts | None = None,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        check_program: RunCheck = run_check,
    ) -> None:
        def now() -> str:
            return iso(wall())

        self._config = config = loaded.config
        self._providers = providers = make_providers(config)
        self._notifiers = notifiers = {kind: make(config) for kind, make in NOTIFIERS.items()}
        self.config_file = config_file = ConfigFile(paths.config, loaded, self._apply)
        self.audit = audit = Audit(paths.audit, now)
        self.sandboxing = sandboxing or SandboxParts(config, paths, store)
        self.sandbox = sandbox = self.sandboxing.sandboxes

        self.manager = manager = Manager(config, store, providers, audit.record, now)
        agreements = Agreements(paths.agreements)
        has_program = self.sandboxing.has_program
        home_of = homes(paths)
        keepers = Keepers()
        files = ConversationFiles(
            store,
            home_of,
            keepers,
            lambda workspace: (containment or self.sandboxing.containment).user(workspace),
        )
        self.program_checks = program_checks = ProgramChecks(
            config, store, CheckRecords(paths.checks), providers, check_program
        )
        planner = SpawnPlanner(
            config,
            paths,
            providers,
            store,
            agreements,
            sandbox,
            now,
            files,
            has_program,
            program_checks.agent_planned,
            self.sandboxing.image_version,
        )
        spawner = Spawner(store, manager, planner, sandbox)
        leftovers = Leftovers(store, manager, self.sandboxing.session_processes)
        kills = Kills(store, manager, lambda: terminals.trouble, leftovers)
        self.reports = reports = Reports(store, manager)
        restorer = Restorer(store, manager, spawner, planner, sandbox, terminals)
        self.waiting = waiting = WaitingSessions(store, manager)
        cleanup = config.child_agents.cleanup
        file_threads = FileThreads()
        usage = UsageMeter(store, config, now, home_of, threads=file_threads)
        usage.followers.append(manager.pauses)
        self.transcript_watch = TranscriptWatch(store, manager, home_of, settings=cleanup, clock=wall)
        self.cleanup = TerminalCleanup(cleanup, store, manager, terminals, keepers)

        progress, off = config.child_agents.progress, config.daemon.ignore_evidence
        self.observer = observer = Observer(
            store,
            manager,
            terminals,
            usage,
            turns=TurnReader(config, store, program_checks.state),
            transcripts_every_s=lambda: progress.snapshot_interval,
            off=off,
            home_of=home_of,
            clock=wall,
            is_attended=lambda session_id: self.attached.shows(session_id),
            threads=file_threads,
        )
        use_of_terminal = TerminalLooks(terminals, manager).use_of
        completions = Completions(config, store, manager, reports, use_of_terminal)
        retries = Retries(store, use_of_terminal)
        freezer = Freezer(self.sandboxing.session_processes.cgroup)
        self.pausing = pausing = Pausing(store, manager, AgentSight(freezer, observer))
        restarter = Restarter(store, manager, planner, terminals)
        self.cut_off = cut_off = CutOffSessions(store, restorer)
        panes = WatchedPanes(store)
        self.watcher = watcher = Watcher(store, manager, terminals, observer, sandbox, panes)
        self.unread_transcripts = UnreadTranscripts(store, manager, observer, steady)
        composer = ComposerDriver(terminals, observer)
        self.dialogs = dialogs = Dialogs(store, manager, terminals, program_checks.state)
        self.setup_dialogs = setup_dialogs = SetupDialogs(store, manager, terminals, kills)
        self.terminal_dialogs = TerminalDialogs(store, manager, terminals)
        self.messages = messages = Messages(store, manager, dialogs)
        receipts = DeliveryReceipts(store, manager, program_checks.state)
        for listener in (
            receipts,
            composer,
            DialogListener(dialogs, setup_dialogs),
            retries,
            program_checks,
        ):
            observer.register(listener)
        self.worker = DeliveryWorker(store, manager, terminals, composer, receipts)
        self.timers = timers = MailTimers(store, manager, kills, waiting)

        def summarizer() -> Summarizer | None:
            return next(filter(None, (provider.summarizer for provider in providers.values())), None)

        summary = Summary(summarizer, f"{paths.state}/what")
        sums: list[SessionSums] = []
        monitor = Monitor(
            config, store, manager, observer, watcher, usage, waiting, summary, terminals, keepers, sums
        )
        workspaces = Workspaces(store, manager, spawner, ProjectItems(providers, agreements))
        requests = Requests(store, manager, reports, dialogs, setup_dialogs)
        timer_handlers: dict[str, TimerHandler] = {}
        owners = config.telegram.owner_ids
        users = ChatUsers(store, manager, audit.record, map(telegram_user, owners))
        self.kernel = kernel = Kernel(
            config=config,
            store=store,
            manager=manager,
            providers=providers,
            planner=planner,
            usage=usage,
            observer=observer,
            watcher=watcher,
            requests=requests,
            workspaces=workspaces,
            monitor=monitor,
            keepers=keepers,
            screen=terminals,
            threads=file_threads,
            paths=paths,
            users=users,
            audit=audit.record,
            timers=timer_handlers,
            sums=sums,
            steady=steady,
        )
        set_up_capabilities(kernel)

        seen = SeenSessions(store, manager, config)
        self.due_timers = DueTimers(
            store,
            {
                TimerKind.COMPLETION: completions.complete,
                TimerKind.UNCLEAR: completions.report_unclear,
                TimerKind.REMINDER: completions.remind,
                TimerKind.MISSING_REPORT: completions.warn_of_missing_report,
                TimerKind.RETRY: retries.send,
                TimerKind.RETRIED: retries.forget,
                TimerKind.COMPACTED: retries.forget,
                TimerKind.RESUME: pausing.resume_due,
                TimerKind.PAUSE: pausing.look_again,
                TimerKind.RESTART: restarter.restart,
                TimerKind.CUT_OFF: cut_off.forget,
                TimerKind.REAP: Reaper(store).reap,
                **timer_handlers,
            },
            wall,
            steady,
        )

        link = None if loaded.telegram_token is None else TelegramLink(steady)

        self.web = web = WebServer(paths, is_wanted=config.web.start_with_daemon)

        def trouble() -> list[str]:
            bot = None if link is None else link.trouble()
            troubles = (store.trouble(), terminals.trouble, bot, web.trouble())
            return [*config_file.warnings, *filter(None, (*troubles, *(look() for look in kernel.troubles)))]

        sessions = Sessions(store, manager, workspaces, spawner, kills, timers, terminals)
        self.services = services = Services(
            sessions=sessions,
            records=Records(store, manager, self.sandboxing.writable, observer.read_to_end),
            seen=seen,
            programs=program_checks,
            restorer=restorer,
            adoptions=Adoptions(store, manager, spawner, planner, terminals, providers),
            interrupts=Interrupts(store, manager),
            pausing=pausing,
            workspaces=workspaces,
            sandboxing=Sandboxing(
                store,
                manager,
                kills,
                self.sandboxing.engine,
                paths,
                partial(sandbox_for, config),
                lambda agent: (
                    providers[agent].home_files({"HOME": INSIDE_HOME}) if agent in providers else {}
                ),
            ),
            leftovers=leftovers,
            reports=reports,
            requests=requests,
            dialogs=dialogs,
            messages=messages,
            waits=Waits(store, manager, messages, requests, waiting, timers),
            monitor=monitor,
            live=Live(store, monitor, seen),
            usage=next(iter(sums), SessionSums()),
            screens=LiveScreens(terminals),
            terminals=terminals,
            store=Reads(store),
            users=users,
            telegram=Telegram(store, manager, audit.record, link, owners, users),
            daemon=DaemonInfo(
                paths.socket,
                started_s,
                trouble,
                lambda: self.agent_sockets.trouble(),
                stopping,
                lambda: terminals.server_pid,
                config_file,
            ),
            fields=kernel.fields,
            status_fields=kernel.status_fields,
            use_cases=kernel.use_cases,
        )
        self.telegram = TelegramParts(loaded, services, wall, steady)
        mcp = McpServer(
            services,
            audit.record,
            enabled=config.mcp.enabled,
            resources=config.mcp.resources,
            tools=config.mcp.tools,
        )
        self.server = ApiServer(services, audit.record, mcp)
        self.identity = Identity(
            store.index, terminals, panes.tty_owner, self.sandboxing.session_processes.session_of
        )
        self.attached = AttachedOperator(store, seen, terminals, self.identity.is_operator)
        contained = containment or self.sandboxing.containment
        self.agent_sockets = AgentSockets(paths, store, agent_bounds, contained, self.server.agent_app)
        home_files = HomeFiles(
            home_of, contained.user, lambda s, launch: manager.provider(s).home_files(launch.environment)
        )
        self.outbox = Outbox(
            store,
            manager,
            spawner,
            terminals,
            sandbox,
            watcher,
            notifiers,
            keepers,
            cleanup,
            restorer,
            self.agent_sockets,
            home_files,
            InterruptEffects(store, manager, terminals, composer, freezer),
            LimitDialogs(store, manager, terminals, composer),
            EndInspection(store, sandbox, leftovers),
        )

    async def _apply(self, loaded: LoadedConfig) -> ConfigChanges:
        """Apply a changed configuration to the running parts.

        Raises ConfigError before the first change, and StorageFull if a repetition must complete the change.
        """
        providers = make_providers(loaded.config)
        notifiers = {kind: make(loaded.config) for kind, make in NOTIFIERS.items()}
        changes = take_over(self._config, loaded.config)
        self._providers.update(providers)
        self._notifiers.update(notifiers)
        set_log_level(self._config.daemon.log_level)
        for follow in self.kernel.on_config:
            await follow()
        return changes

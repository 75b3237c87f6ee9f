"""The use cases of the daemon, and the doors that offer them: HTTP, MCP and Telegram. The page has its own process."""

import asyncio
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from sm.api.agent_sockets import AgentSockets, unreachable_containers
from sm.api.sockets import SocketLimits
from sm.config import LoadedConfig, sandbox_for
from sm.core.dataclass import dataclass
from sm.daemon.config_file import ConfigFile
from sm.daemon.foundation import Foundation
from sm.daemon.message_parts import MessageParts
from sm.daemon.monitor_parts import MonitorParts
from sm.daemon.session_parts import SessionParts
from sm.daemon.web_server import WebServer
from sm.kernel import Kernel
from sm.mcp import McpServer
from sm.monitor.live_screens import LiveScreens
from sm.paths import INSIDE_HOME
from sm.requests import RuleWriter
from sm.server import ApiServer
from sm.services import (
    DaemonInfo,
    Live,
    Reads,
    Sessions,
    Telegram,
    TelegramLink,
    Waits,
)
from sm.services.parts import DoorParts
from sm.sessions.adopt import Adoptions
from sm.sessions.archive import Records
from sm.sessions.fork import Forks
from sm.sessions.interrupt import Interrupts
from sm.sessions.sandboxing import Sandboxing
from sm.sessions.session_fields import SessionSums

if TYPE_CHECKING:
    from sm.telegram.door import TelegramDoor


@dataclass(frozen=True, slots=True)
class DaemonLife:
    """The life of this daemon: its start (time.monotonic()), and the event that ends it."""

    started_s: float
    stopping: asyncio.Event


class TelegramParts:
    """The bot of Telegram, whose modules are imported only when a token is configured."""

    def __init__(
        self,
        loaded: LoadedConfig,
        parts: DoorParts,
        link: TelegramLink | None,
        wall: Callable[[], float],
        steady: Callable[[], float],
    ) -> None:
        self._door: TelegramDoor | None = None
        if loaded.telegram_token is not None and link is not None:
            door = import_module("sm.telegram.door")
            self._door = door.TelegramDoor(
                loaded.config.telegram, loaded.telegram_token, parts, link, wall, steady
            )

    async def run(self) -> None:
        """Run until cancelled."""
        if self._door is not None:
            await self._door.run()
        await asyncio.get_running_loop().create_future()


class FrontDoors:
    def __init__(
        self,
        base: Foundation,
        sessions: SessionParts,
        watch: MonitorParts,
        messages: MessageParts,
        kernel: Kernel,
        config_file: ConfigFile,
        life: DaemonLife,
        agent_bounds: SocketLimits,
    ) -> None:
        config, record = base.config, base.audit.record
        link = None if base.loaded.telegram_token is None else TelegramLink(base.steady)
        self.web = WebServer(base.paths, is_wanted=config.web.start_with_daemon)
        daemon = _daemon_info(base, config_file, kernel, link, self.web, life)
        self.parts = parts = _parts(base, sessions, watch, messages, kernel, link, daemon)
        self.telegram = TelegramParts(base.loaded, parts, link, base.wall, base.steady)
        mcp = McpServer(
            parts,
            watch.observer.first_turns,
            record,
            enabled=config.mcp.enabled,
            resources=config.mcp.resources,
            tools=config.mcp.tools,
        )
        self.server = ApiServer(parts, record, mcp, base.store.memory.follow_leaving())
        self.agent_sockets = AgentSockets(
            base.paths, base.store, agent_bounds, base.containment, self.server.agent_app
        )


def _daemon_info(
    base: Foundation,
    config_file: ConfigFile,
    kernel: Kernel,
    link: TelegramLink | None,
    web: WebServer,
    life: DaemonLife,
) -> DaemonInfo:
    store, terminals = base.store, base.terminals

    def trouble() -> list[str]:
        bot = None if link is None else link.trouble()
        troubles = (store.trouble(), terminals.trouble, bot, web.trouble())
        return [*config_file.warnings, *filter(None, (*troubles, *(look() for look in kernel.troubles)))]

    return DaemonInfo(
        base.paths.socket,
        life.started_s,
        trouble,
        partial(unreachable_containers, base.paths, store),
        life.stopping,
        lambda: terminals.server_pid,
        config_file,
    )


def _parts(
    base: Foundation,
    sessions: SessionParts,
    watch: MonitorParts,
    messages: MessageParts,
    kernel: Kernel,
    link: TelegramLink | None,
    daemon: DaemonInfo,
) -> DoorParts:
    store, authorizer = base.store, base.authorizer
    return _session_parts(base, sessions, watch, messages).plus(
        base.program_checks,
        messages.requests,
        RuleWriter(
            store,
            authorizer,
            messages.requests,
            messages.always,
            base.providers,
            base.paths,
            daemon.config.read_now,
        ),
        messages.dialogs,
        messages.messages,
        messages.inbox,
        Waits(
            store,
            authorizer,
            messages.messages,
            messages.inbox,
            messages.requests,
            sessions.waiting,
            messages.timers,
        ),
        watch.monitor,
        watch.observer.first_turns,
        Live(store, watch.monitor, sessions.seen),
        next(iter(watch.sums), SessionSums()),
        LiveScreens(base.terminals),
        Reads(store),
        Telegram(store, authorizer, base.audit.record, link, base.config.telegram.owner_ids, sessions.users),
        daemon,
        kernel.fields,
        kernel.status_fields,
        kernel.use_cases,
    )


def _session_parts(
    base: Foundation, sessions: SessionParts, watch: MonitorParts, messages: MessageParts
) -> DoorParts:
    """The use cases of sessions."""
    store, authorizer, terminals, spawner = base.store, base.authorizer, base.terminals, sessions.spawner
    return DoorParts(
        authorizer,
        sessions.plans.types,
        sessions.plans.choices,
        sessions.plans.attachers,
        base.sandboxing.writable,
        Sessions(
            store,
            authorizer,
            sessions.workspaces,
            spawner,
            sessions.starts,
            sessions.kills,
            messages.timers,
            terminals,
        ),
        Records(
            store,
            authorizer,
            base.quota,
            base.config.sessions.naming,
            watch.observer.read_to_end,
            base.keepers,
        ),
        sessions.seen,
        sessions.restorer,
        Forks(store, authorizer, sessions.plans.resume, sessions.plans.files, spawner, sessions.starts),
        Adoptions(
            store, authorizer, spawner, sessions.starts, sessions.plans.spawn, terminals, base.providers
        ),
        Interrupts(store, authorizer, base.providers),
        sessions.workspaces,
        _sandboxing(base, sessions),
        sessions.leftovers,
        sessions.reports,
        sessions.users,
    )


def _sandboxing(base: Foundation, sessions: SessionParts) -> Sandboxing:
    providers = base.providers
    return Sandboxing(
        base.store,
        base.authorizer,
        sessions.kills,
        base.sandboxing.engine,
        base.paths,
        partial(sandbox_for, base.config),
        lambda agent: providers[agent].home_files({"HOME": INSIDE_HOME}) if agent in providers else {},
    )

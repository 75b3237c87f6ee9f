"""The parts that start, end and restore sessions."""

from sm.core.telegram_model import telegram_user
from sm.daemon.foundation import Foundation
from sm.daemon.planner_parts import PlannerParts
from sm.equipment.agreements import Agreements
from sm.equipment.project_items import ProjectItems
from sm.monitor import CutOffSessions
from sm.sessions.chat_users import ChatUsers
from sm.sessions.cleanup import TerminalCleanup
from sm.sessions.kill import Kills
from sm.sessions.leftovers import Leftovers
from sm.sessions.next_process import Restarter
from sm.sessions.place_commands import PlaceCommands
from sm.sessions.reports import Reports
from sm.sessions.restore import Restorer
from sm.sessions.seen import SeenSessions
from sm.sessions.spawn import Spawner
from sm.sessions.starts import AgentStarts
from sm.sessions.transcript_watch import TranscriptWatch
from sm.sessions.waits import WaitingSessions
from sm.sessions.workspaces import Workspaces


class SessionParts:
    def __init__(self, base: Foundation) -> None:
        store, authorizer, terminals = base.store, base.authorizer, base.terminals
        notices, endings, quota, providers = base.notices, base.endings, base.quota, base.providers
        cleanup = base.config.child_agents.cleanup
        agreements = Agreements(base.paths.agreements)
        self.plans = plans = PlannerParts(base, agreements)
        self.starts = AgentStarts(store, notices, endings, providers)
        self.spawner = Spawner(
            store, authorizer, quota, plans.spawn, plans.spawn_parts, base.sandbox, self.starts
        )
        self.leftovers = Leftovers(store, authorizer, base.sandboxing.session_processes)
        self.kills = Kills(store, authorizer, lambda: terminals.trouble, self.leftovers)
        self.reports = Reports(store, authorizer, notices, endings, quota)
        self.restorer = Restorer(
            store,
            authorizer,
            notices,
            endings,
            quota,
            providers,
            self.starts,
            plans.resume,
            plans.files,
            base.sandbox,
            terminals,
        )
        self.restarter = Restarter(store, endings, plans.resume, terminals)
        self.cut_off = CutOffSessions(store, self.restorer)
        self.waiting = WaitingSessions(store, notices, providers)
        self.project_items = ProjectItems(providers, agreements)
        self.workspaces = Workspaces(store, authorizer, plans.types, self.project_items)
        self.place_commands = PlaceCommands(
            store, base.paths, terminals, base.sandbox, self.starts, base.keepers, cleanup
        )
        owners = map(telegram_user, base.config.telegram.owner_ids)
        self.users = ChatUsers(store, base.audit.record, owners)
        self.seen = SeenSessions(store, authorizer, base.config)
        self.transcript_watch = TranscriptWatch(
            store, notices, providers, base.home_of, settings=cleanup, clock=base.wall
        )
        self.cleanup = TerminalCleanup(cleanup, store, terminals, base.keepers)

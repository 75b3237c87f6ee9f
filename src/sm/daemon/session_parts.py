"""The parts that start, end and restore sessions."""

from sm.core.telegram_model import telegram_user
from sm.daemon.foundation import Foundation
from sm.equipment.agreements import Agreements
from sm.equipment.project_items import ProjectItems
from sm.monitor import CutOffSessions
from sm.sessions.chat_users import ChatUsers
from sm.sessions.cleanup import TerminalCleanup
from sm.sessions.conversation_files import ConversationFiles
from sm.sessions.kill import Kills
from sm.sessions.leftovers import Leftovers
from sm.sessions.next_process import Restarter
from sm.sessions.plan import SpawnPlanner
from sm.sessions.reports import Reports
from sm.sessions.restore import Restorer
from sm.sessions.seen import SeenSessions
from sm.sessions.spawn import Spawner
from sm.sessions.transcript_watch import TranscriptWatch
from sm.sessions.waits import WaitingSessions
from sm.sessions.workspaces import Workspaces


class SessionParts:
    def __init__(self, base: Foundation) -> None:
        store, manager, terminals, paths = base.store, base.manager, base.terminals, base.paths
        cleanup = base.config.child_agents.cleanup
        agreements = Agreements(paths.agreements)
        self.planner = SpawnPlanner(
            base.config,
            paths,
            base.providers,
            store,
            agreements,
            base.sandbox,
            base.now,
            ConversationFiles(store, base.home_of, base.keepers, base.containment.user),
            base.sandboxing.has_program,
            base.program_checks.agent_planned,
            base.sandboxing.image_version,
        )
        self.spawner = Spawner(store, manager, self.planner, base.sandbox)
        self.leftovers = Leftovers(store, manager, base.sandboxing.session_processes)
        self.kills = Kills(store, manager, lambda: terminals.trouble, self.leftovers)
        self.reports = Reports(store, manager)
        self.restorer = Restorer(store, manager, self.spawner, self.planner, base.sandbox, terminals)
        self.restarter = Restarter(store, manager, self.planner, terminals)
        self.cut_off = CutOffSessions(store, self.restorer)
        self.waiting = WaitingSessions(store, manager)
        self.workspaces = Workspaces(store, manager, self.spawner, ProjectItems(base.providers, agreements))
        owners = map(telegram_user, base.config.telegram.owner_ids)
        self.users = ChatUsers(store, manager, base.audit.record, owners)
        self.seen = SeenSessions(store, manager, base.config)
        self.transcript_watch = TranscriptWatch(
            store, manager, base.home_of, settings=cleanup, clock=base.wall
        )
        self.cleanup = TerminalCleanup(cleanup, store, manager, terminals, base.keepers)

"""The parts that plan sessions and their processes."""

from sm.daemon.foundation import Foundation
from sm.equipment.agent_types import AgentTypes
from sm.equipment.agreements import Agreements
from sm.linux.file_threads import FileThreads
from sm.sessions.attachments import Attachers
from sm.sessions.conversation_files import ConversationFiles
from sm.sessions.effective_mode import TrustDecisions
from sm.sessions.environment import Environments
from sm.sessions.new_session import NewSessions
from sm.sessions.process_plan import ProcessPlanner
from sm.sessions.resume_plan import ResumePlanner
from sm.sessions.spawn_choices import SpawnChoices
from sm.sessions.spawn_options import SpawnOptions
from sm.sessions.spawn_parts import SpawnPart
from sm.sessions.spawn_plan import SpawnPlanner
from sm.sessions.spawn_types import SpawnTypes
from sm.sessions.workdir import WorkDirectories


class PlannerParts:
    def __init__(self, base: Foundation, agreements: Agreements) -> None:
        config, paths, store, providers = base.config, base.paths, base.store, base.providers
        self.spawn_parts: list[SpawnPart] = []
        """Of capabilities."""
        self.attachers = Attachers(base.authorizer, providers)
        threads = FileThreads()
        places = WorkDirectories(config, store, threads)
        environments = Environments(config, paths)
        types = AgentTypes(config, paths, providers, agreements)
        trust = TrustDecisions(config, base.sandbox, lambda: store.met)
        new_sessions = NewSessions(config, base.now)
        has_program = base.sandboxing.has_program
        self.types = SpawnTypes(store, base.authorizer, places, environments, types, providers)
        self.choices = SpawnChoices(store, places, threads)
        self.files = ConversationFiles(store, base.home_of, base.keepers, base.containment.user)
        processes = ProcessPlanner(
            config,
            paths,
            store,
            agreements,
            places,
            environments,
            self.spawn_parts,
            has_program,
            base.program_checks.agent_planned,
            base.sandboxing.image_version,
        )
        common = (places, environments, types, trust, processes, new_sessions, base.home_of, threads)
        options = SpawnOptions(config, store)
        self.spawn = SpawnPlanner(
            config, store, providers, options, *common, has_program, self.spawn_parts, self.attachers
        )
        self.resume = ResumePlanner(store, providers, self.files, *common, self.spawn_parts)

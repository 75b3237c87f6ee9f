"""Plans the process of a session: its MCP servers and skills, its command and its environment. Does not write."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sm.config import AgentConfig, Config
from sm.core.models import Caller, Capabilities, Launch, Session
from sm.core.permission_facts import current_mode
from sm.core.program_states import ProgramState
from sm.core.states import TrustLevel
from sm.equipment.agent_types import AgentType, Catalog
from sm.equipment.agreements import Agreements
from sm.equipment.grants import Granter, Grants
from sm.paths import InstancePaths
from sm.policy.relations import is_unrestricted
from sm.providers.base import TYPED_LINES_MAX, AgentPlan, PlanContext, Provider
from sm.sandboxes.home import homes
from sm.sessions.container import ImageVersion, ProgramCheck, contained_servers, place_sentences
from sm.sessions.environment import Environments, without
from sm.sessions.setup_checks import program_facts, runs_hooks
from sm.sessions.spawn_parts import SpawnPart
from sm.sessions.workdir import WorkDirectories
from sm.store import Store

ProgramSeen = Callable[[str, Mapping[str, str], str | None], ProgramState | None]
"""Gets the name of the provider, the environment that decides the program, and its version if that is known. Returns
the outcomes of the contracts with this version if they are known."""


class ProcessPlanner:
    """Used by the planners of new sessions and of those that go on."""

    def __init__(
        self,
        config: Config,
        paths: InstancePaths,
        store: Store,
        agreements: Agreements,
        directories: WorkDirectories,
        environments: Environments,
        parts: Sequence[SpawnPart],
        has_program: ProgramCheck,
        program_seen: ProgramSeen,
        image_version: ImageVersion,
    ) -> None:
        """`has_program`: a look into the image of a container. `program_seen`: called for each agent on this host."""
        self._config = config
        self._paths = paths
        self._store = store
        self._directories = directories
        self._environments = environments
        self._parts = parts
        self._has_program = has_program
        self._program_seen = program_seen
        self._image_version = image_version
        self._home_of = homes(paths)
        self._granter = Granter(lambda: _defaults(config), agreements, self._home_of)

    async def grants(
        self, session: Session, provider: Provider, inherited: Mapping[str, str], types: Catalog
    ) -> Grants:
        """The MCP servers and skills of the session. `inherited`: as for `context`."""
        workspace = self._directories.workspace_of(session)
        given = without(inherited, provider.never_inherited)
        sandboxed = session.effective_mode is TrustLevel.SANDBOXED
        kind = types.find(session.agent_type)
        own_server = None
        if self._config.mcp.enabled and (kind is None or kind.agent.mcp):
            paths = self._paths.agent_paths(session.id, sandboxed=sandboxed)
            own_server = provider.own_server(f"{paths.bin}/sm")
        grants = await self._granter.grants(
            session, workspace, provider, given, has_own_server=own_server is not None
        )
        if sandboxed:
            grants = await contained_servers(self._config, workspace, grants, self._has_program)
        return grants if own_server is None else grants.with_own_server(own_server)

    async def context(
        self,
        session: Session,
        parent: Session | None,
        inherited: Mapping[str, str],
        provider: Provider,
        types: Catalog,
        grants: Grants,
    ) -> PlanContext:
        """The facts from which a provider plans the command. `inherited`: with the variables that a caller adds."""
        kind = types.find(session.agent_type)
        sandboxed = session.effective_mode is TrustLevel.SANDBOXED
        paths = self._paths.agent_paths(session.id, sandboxed=sandboxed)
        mcp_file = paths.mcp_file if grants.servers else None
        environment = without(inherited, provider.never_inherited)
        searched = self._environments.searched(environment)
        program = await program_facts(provider, searched, self._home_of(session))
        if sandboxed:
            # No program in a container is asked. Its image names the version, or the conversation did.
            version = self._image_version(self._directories.workspace_of(session), provider.name)
            program = replace(program, version=version or session.program_version or "")
        else:
            program = replace(program, state=self._program_seen(provider.name, searched, program.number))
        return PlanContext(
            session=session,
            sm=f"{paths.bin}/sm",
            environment=environment,
            parent=None if parent is None else parent.display_name,
            prompt_file=paths.prompt_file,
            files=paths.files,
            agent=AgentConfig() if kind is None else kind.agent,
            agent_types={usable.name: usable.agent.description for usable in types.usable},
            granted=replace(grants.granted, mcp_file=mcp_file),
            place=place_sentences(session) if sandboxed else "",
            additions=tuple(filter(None, (part.briefing(session) for part in self._parts))),
            program=program,
        )

    async def limited(
        self,
        context: PlanContext,
        caller: Caller,
        session: Session,
        parent: Session | None,
        kind: AgentType | None,
    ) -> PlanContext:
        """The context with the limit of the parent's permissions, by the mode that the parent is in now.

        It binds sessions and paired users. Flags of another provider cannot be compared.
        """
        unlimited = is_unrestricted(caller) or (kind is not None and kind.agent.spawnable)
        if unlimited or parent is None or parent.provider != session.provider:
            return context
        launch, measured = await self._store.launch(parent.id), await self._store.measures.facts(parent.id)
        context = replace(context, at_most=launch.flags)
        mode = current_mode(launch.permission, measured, parent.runs)
        if mode is None:
            return context
        return replace(context, parent_mode=mode.mode, is_parent_attended=mode.is_attended)

    def launch(
        self,
        session: Session,
        plan: AgentPlan,
        inherited: Mapping[str, str],
        added: Mapping[str, str],
        provider: Provider,
        grants: Grants,
        *,
        has_prompt: bool,
        process_limits: Mapping[str, int],
    ) -> Launch:
        """The command of a planned process with its environment."""
        workspace = self._directories.workspace_of(session)
        given = self._environments.given(session, workspace, provider, inherited, plan.environment, added)
        environment = self._environments.complete(
            session, given, has_prompt_file=plan.prompt_file is not None
        )
        return Launch(
            argv=plan.argv,
            environment=environment,
            inherited=inherited,
            added=added,
            working_dir=session.working_dir,
            typed_prompt=plan.typed_prompt,
            prompt_file=plan.prompt_file,
            flags=plan.flags,
            has_prompt=has_prompt,
            has_own_tools=grants.granted.own_server,
            mcp_config=grants.mcp_config(environment),
            process_limits=process_limits,
            permission=plan.permission,
        )

    async def is_typed(self, provider: Provider, session: Session, launch: Launch, prompt: str) -> bool:
        """True if a prompt is typed as the first message, because no hook can hold the first turn for the tools of sm.

        A longer prompt stays an argument, as does one in a file, of which the argument is a sentence of sm.
        """
        if launch.prompt_file is not None or not launch.has_own_tools:
            return False
        lines = prompt.strip().splitlines()
        if not 1 <= len(lines) <= TYPED_LINES_MAX:
            return False
        return not await runs_hooks(provider, launch, self._home_of(session))


def _defaults(config: Config) -> Capabilities:
    given = config.default_capabilities
    return Capabilities(
        *(None if names == "all" else names for names in (given.mcps, given.skills, given.agents))
    )

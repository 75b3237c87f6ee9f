"""The agent types from which a caller may choose for a spawn, with their permission modes."""

from collections.abc import Mapping

from sm.core.dataclass import dataclass
from sm.core.models import Caller, PermissionMode, Session
from sm.equipment.agent_types import AgentTypes, Catalog
from sm.providers.base import Provider
from sm.sessions.authorizer import Authorizer
from sm.sessions.environment import Environments
from sm.sessions.setup_checks import program_facts
from sm.sessions.workdir import WorkDirectories, allowed_workspace
from sm.store import Store


@dataclass(frozen=True, slots=True, eq=False)
class SpawnTypes:
    _store: Store
    _authorizer: Authorizer
    _directories: WorkDirectories
    _environments: Environments
    _types: AgentTypes
    _providers: Mapping[str, Provider]

    async def catalog(
        self,
        caller: Caller,
        workspace: str | None,
        current_dir: str | None,
        environment: Mapping[str, str],
    ) -> Catalog:
        """The agent types available to a spawn by `caller`; for a session those of its own workspace.

        For the operator, `workspace` is a slug; without a slug, `current_dir` and `environment` decide. Raises
        NotFound, InvalidPath, InvalidText.
        """
        parent = self._authorizer.caller_session(caller)
        if parent is None:
            workspace = allowed_workspace(caller, workspace)
        place = self._directories.workspace(parent, workspace)
        if parent is None and workspace is None and current_dir is not None:
            place = await self._directories.find_nearest(current_dir)
        return await self._types.catalog(place, await self._inherited(parent, environment))

    async def modes(
        self, caller: Caller, catalog: Catalog, environment: Mapping[str, str]
    ) -> Mapping[str, PermissionMode]:
        """The permission modes of agent types, by name, for sessions on this host without a parent.

        Arguments: those of `catalog`, with its result.
        """
        parent = self._authorizer.caller_session(caller)
        inherited = self._environments.searched(await self._inherited(parent, environment))
        names = {kind.provider for kind in catalog.types}
        facts = {name: await program_facts(self._providers[name], inherited, None) for name in names}
        modes = {
            k.name: self._providers[k.provider].permission_mode(k.agent, facts[k.provider])
            for k in catalog.types
        }
        return {name: mode for name, mode in modes.items() if mode is not None}

    async def _inherited(self, parent: Session | None, environment: Mapping[str, str]) -> Mapping[str, str]:
        launch = None if parent is None else await self._store.launch(parent.id)
        return self._environments.inherited(launch, environment)

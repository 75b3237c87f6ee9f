"""Checks the options of a spawn: its arguments, command, variables, lifecycle mode and name."""

from collections.abc import Mapping
from dataclasses import replace

from sm.config import Config, is_model
from sm.core.lifecycle import is_live
from sm.core.models import Caller, SpawnRequest, Workspace
from sm.core.names import friendly_name, nearest_name
from sm.core.states import CallerKind, Mode
from sm.core.text import folded, validate_text
from sm.equipment.agent_types import AgentType
from sm.errors import NotPermitted, UsageError
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import ADD_ARGUMENTS, SPAWN
from sm.policy.modes import ModeChoice, choose_mode, parse_mode
from sm.policy.relations import may_at_all
from sm.sessions.environment import check_variables
from sm.store import Store

_ARGUMENT_MAX = 4096


class SpawnOptions:
    def __init__(self, config: Config, store: Store) -> None:
        self._config = config
        self._store = store

    def check_arguments(self, caller: Caller, request: SpawnRequest) -> None:
        """Check --model, --args and --as-command. Raises UsageError, InvalidText and NotPermitted."""
        if request.model is not None and not is_model(request.model):
            raise UsageError(
                f"invalid value for --model: {folded(request.model, 80)!r}",
                "use opus, sonnet, haiku or a full model name",
            )
        if request.extra_args:
            self._require_addition(caller, "--args")
            for argument in request.extra_args:
                validate_text(argument, "--args", _ARGUMENT_MAX)
        _check_command(caller, request)

    def check_variables(self, caller: Caller, variables: Mapping[str, str]) -> None:
        """Check the variables of --env. Raises NotPermitted and UsageError."""
        if variables:
            self._require_addition(caller, "--env")
            check_variables(variables)

    def mode(self, request: SpawnRequest, kind: AgentType, workspace: Workspace | None) -> ModeChoice:
        """The lifecycle mode. Raises UsageError for an unknown one."""
        try:
            requested = None if request.lifecycle is None else parse_mode(request.lifecycle)
        except ValueError as error:
            raise UsageError(str(error)) from None
        of_type = None if kind.agent.lifecycle is None else Mode(kind.agent.lifecycle)
        configured = Mode(self._config.child_agents.mode)
        return choose_mode(requested, request.agent_type, of_type, workspace, configured)

    def named(self, request: SpawnRequest) -> tuple[SpawnRequest, tuple[str, ...]]:
        """The request with a name that can be used, and a warning if that is not the one in it."""
        wish, pattern, kind = request.name, self._config.sessions.naming.pattern, request.agent_type.lower()
        if wish is None or not request.is_name_wish:
            return request, ()
        sessions = self._store.sessions.values()
        taken = {s.friendly_name for s in sessions if s.friendly_name is not None and is_live(s.status)}
        name = nearest_name(pattern, kind, wish, taken)
        if name == wish.lower():
            return request, ()
        given = "no name" if name is None else f"the name {friendly_name(pattern, kind, name)}"
        return replace(request, name=name), (f"{folded(wish, 80)!r} cannot be its name: it has {given}",)

    def _require_addition(self, caller: Caller, option: str) -> None:
        """Raise NotPermitted unless the caller may add options and variables to an agent."""
        opened = self._config.child_agents.allow_args and caller.kind is CallerKind.SESSION
        if not opened and not may_at_all(caller, ADD_ARGUMENTS):
            raise NotPermitted(
                f"only the operator may use {option}",
                f"to allow {option} for sessions, set child_agents.allow_args: true in config.yaml",
            )


def _check_command(caller: Caller, request: SpawnRequest) -> None:
    """Raise NotPermitted unless the caller may start an agent with a command, and UsageError without a command.

    A command acts outside of the conversation too: `/model` changes the settings of the agent CLI's user. So
    `child_agents.allow_args` does not open it to sessions.
    """
    if not request.as_command:
        return
    if not may_at_all(caller, ADD_ARGUMENTS):
        raise NotPermitted(
            "only the operator may use --as-command",
            "omit --as-command: the agent gets the prompt as a text",
        )
    if request.prompt is None:
        raise UsageError(
            "--as-command needs a prompt", Hint(Use(SPAWN, "AGENT_TYPE", "/COMMAND", "--as-command"))
        )

"""Builds the environment of an agent: inherited variables, and the variables that identify its session.

`Launch.inherited` holds the variables of the caller's shell also for a session in a container, as the agent's files on
this host depend on them. The agent itself gets only the variables that the settings of the container name.
"""

import os
from collections.abc import Collection, Mapping

from sm.config import Config, sandbox_for
from sm.core.models import Launch, Session, Workspace
from sm.core.states import TrustLevel
from sm.core.text import folded
from sm.errors import UsageError
from sm.paths import INSIDE_CA_FILE, INSIDE_HOME, INSIDE_PATH, InstancePaths
from sm.policy.environment import denied_in_sandbox
from sm.providers.base import Provider

_VALUE_MAX = 100_000
"""Below the kernel's limit of 128 KiB for one variable."""
_ALWAYS_INHERITED = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ")
_ALWAYS_PASSED = ("LANG", "TZ")
"""The variables of the caller's shell that every container gets."""


class Environments:
    def __init__(self, config: Config, paths: InstancePaths) -> None:
        self._config = config
        self._paths = paths

    def inherited(self, parent: Launch | None, environment: Mapping[str, str]) -> Mapping[str, str]:
        """The variables that a session inherits from its parent; without one, those of the caller's shell that it may.

        `parent`: the launch of the parent.
        """
        if parent is not None:
            return {**parent.inherited, **parent.added}
        inherited = {*_ALWAYS_INHERITED, *self._config.sessions.inherit_environment_vars}
        return {
            name: value
            for name, value in environment.items()
            if (name in inherited or name.startswith("LC_")) and name.isidentifier() and "\0" not in value
        }

    def passed(self, environment: Mapping[str, str], workspace: Workspace | None) -> Mapping[str, str]:
        """The variables of a caller's shell that `sandbox.pass_env` names."""
        names = sandbox_for(self._config, workspace).pass_env
        return {name: environment[name] for name in names if "\0" not in environment.get(name, "\0")}

    def given(
        self,
        session: Session,
        workspace: Workspace | None,
        provider: Provider,
        inherited: Mapping[str, str],
        configured: Mapping[str, str],
        added: Mapping[str, str],
    ) -> Mapping[str, str]:
        """The variables of an agent without `SM_*` and PATH's first part. Later arguments override earlier ones."""
        if session.effective_mode is not TrustLevel.SANDBOXED:
            return without({**inherited, **configured, **added}, provider.never_inherited)
        names = {*_ALWAYS_PASSED, *sandbox_for(self._config, workspace).pass_env}
        passed = {name: value for name, value in inherited.items() if name in names}
        given = {
            name: value
            for name, value in without({**passed, **configured, **added}, provider.never_inherited).items()
            if not denied_in_sandbox(name)
        }
        defaults = {"PATH": INSIDE_PATH, "NODE_EXTRA_CA_CERTS": INSIDE_CA_FILE}
        return {**defaults, **given, **provider.sandbox_environment, "HOME": INSIDE_HOME}

    def complete(
        self, session: Session, given: Mapping[str, str], *, has_prompt_file: bool
    ) -> Mapping[str, str]:
        """The complete environment: `given`, then `SM_*`, which override the configuration."""
        environment, paths = (
            dict(given),
            self._paths.agent_paths(session.id, sandboxed=_is_sandboxed(session)),
        )
        environment["PATH"] = _searched(paths.bin, environment)
        environment |= {
            "SM_SESSION_ID": session.id,
            "SM_PARENT_ID": session.parent_id or "",
            "SM_WORKSPACE_ID": session.workspace or "",
            "SM_TRUST_LEVEL": session.effective_mode.value,
            "SM_SOCKET": paths.socket,
            "SM_TOKEN_FILE": paths.token_file,
        }
        if has_prompt_file:
            environment["SM_PROMPT_FILE"] = paths.prompt_file
        return environment

    def searched(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        """The environment with the PATH on which an agent on this host finds its program."""
        return {**environment, "PATH": _searched(self._paths.bin, environment)}

    def restored(self, session: Session, before: Mapping[str, str]) -> Mapping[str, str]:
        paths = self._paths.agent_paths(session.id, sandboxed=_is_sandboxed(session))
        return {**before, "SM_PARENT_ID": session.parent_id or "", "SM_SOCKET": paths.socket}


def _searched(bin: str, environment: Mapping[str, str]) -> str:
    return f"{bin}:{environment.get('PATH', os.defpath)}"


def _is_sandboxed(session: Session) -> bool:
    return session.effective_mode is TrustLevel.SANDBOXED


def without(environment: Mapping[str, str], names: Collection[str]) -> Mapping[str, str]:
    return {name: value for name, value in environment.items() if name not in names}


def check_variables(variables: Mapping[str, str]) -> None:
    """Check variables that a caller adds to an agent's environment. Raises UsageError."""
    for name, value in variables.items():
        shown = folded(name, 80)
        if not (name.isascii() and name.isidentifier()):
            raise UsageError(
                f"--env: {shown!r} is not a valid variable name", "use letters, digits and underscores"
            )
        if name.startswith("SM_"):
            raise UsageError(f"--env: {shown} is reserved: sm sets the variables that begin with SM_")
        if "\0" in value or len(value.encode("utf-8", "replace")) > _VALUE_MAX:
            raise UsageError(
                f"--env: the value of {shown} has a NUL character or more than {_VALUE_MAX:,} bytes"
            )


def check_sandboxed(variables: Mapping[str, str]) -> None:
    """Check variables that a caller adds to an agent in a container. Raises UsageError."""
    for name in filter(denied_in_sandbox, variables):
        raise UsageError(f"--env: {name} cannot be passed into a sandbox: it makes programs run other code")


def denied_warnings(configured: Mapping[str, str]) -> tuple[str, ...]:
    """A warning about the configured variables of an agent type that do not go into its container."""
    names = ", ".join(filter(denied_in_sandbox, configured))
    if not names:
        return ()
    return (f"left out of the agent's environment: {names} (in a sandbox it makes programs run other code)",)

"""Builds the environment of an agent: inherited variables, and the variables that identify its session."""

import os
from collections.abc import Collection, Mapping

from sm.config import Config
from sm.core.models import Session
from sm.core.states import TrustLevel
from sm.core.text import folded
from sm.errors import UsageError
from sm.paths import InstancePaths

_VALUE_MAX = 100_000
"""Below the kernel's limit of 128 KiB for one variable."""
_ALWAYS_INHERITED = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ")


class Environments:
    def __init__(self, config: Config, paths: InstancePaths) -> None:
        self._inherited = {*_ALWAYS_INHERITED, *config.sessions.inherit_environment_vars}
        self._paths = paths

    def inheritable(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        """The variables of a caller's shell that sessions may inherit."""
        return {
            name: value
            for name, value in environment.items()
            if (name in self._inherited or name.startswith("LC_"))
            and name.isidentifier()
            and "\0" not in value
        }

    def complete(
        self, session: Session, given: Mapping[str, str], *, has_prompt_file: bool
    ) -> Mapping[str, str]:
        """The complete environment: `given`, then `SM_*`, which override the configuration."""
        environment = dict(given)
        environment["PATH"] = f"{self._paths.bin}:{environment.get('PATH', os.defpath)}"
        environment |= {
            "SM_SESSION_ID": session.id,
            "SM_PARENT_ID": session.parent_id or "",
            "SM_WORKSPACE_ID": session.workspace or "",
            "SM_TRUST_LEVEL": session.effective_mode.value,
            "SM_SOCKET": self._socket(session),
            "SM_TOKEN_FILE": self._paths.token_file(session.id),
        }
        if has_prompt_file:
            environment["SM_PROMPT_FILE"] = self._paths.prompt_file(session.id)
        return environment

    def restored(self, session: Session, before: Mapping[str, str]) -> Mapping[str, str]:
        return {**before, "SM_PARENT_ID": session.parent_id or "", "SM_SOCKET": self._socket(session)}

    def _socket(self, session: Session) -> str:
        """The daemon's socket for the session's commands. A container has only the socket of its workspace."""
        if session.effective_mode is TrustLevel.SANDBOXED:
            return self._paths.agent_socket(session.workspace)
        return self._paths.socket


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

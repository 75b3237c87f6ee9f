"""Derives from the answers of a program of claude what sm passes to it. Pure.

The one place for facts that differ between versions. claude exits at an unknown option and opens a dialog at an unknown
value of a setting, but ignores an unknown setting and an unknown variable (measured with 2.1.197 and 2.1.332). So an
option is passed only to a program that lists it, and a program that was not asked gets none of these options.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sm.providers.base import ProgramFacts
from sm.providers.claude.permissions import DEFAULT, MANUAL, canonical
from sm.wire import MCP_CALL_MAX_S

_LISTED_OPTION = re.compile(r"^ +(?:-\w, )?(--[a-z][a-z0-9-]*)", re.MULTILINE)
_LISTED_MODES = re.compile(r"--permission-mode .*?\(choices: ([^)]*)\)", re.DOTALL)
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")

_SNAPSHOT = "--system-prompt-snapshot"
_BEFORE_AUTO = (2, 1, 197)
"""The last measured version whose sessions cannot send messages to each other, and do not offer `auto`."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """The version, options and modes of one program. Without an argument: of a program that was not asked."""

    version: tuple[int, ...] | None = None
    options: frozenset[str] = frozenset()
    modes: frozenset[str] = frozenset()

    def mode_word(self, mode: str) -> str:
        """The word of the program for a permission mode. 2.1.332 lists `manual`, 2.1.197 accepts only `default`."""
        return MANUAL if mode == DEFAULT and MANUAL in self.modes and DEFAULT not in self.modes else mode

    def knows_mode(self, mode: str) -> bool:
        """Return whether the program may be started in this mode; True for a program that was not asked."""
        return not self.modes or self.mode_word(mode) in self.modes

    @property
    def own_options(self) -> tuple[str, ...]:
        """Options for every process.

        Without the first one a later process of a conversation, and a fork, gets the system prompt of the first
        process: the name, the parent and the budget of another session (measured with 2.1.332).
        """
        return (_SNAPSHOT, "off") if _SNAPSHOT in self.options else ()

    def answered_mode(self, mode: str, of_user: str) -> str | None:
        """Return the `permissions.defaultMode` that keeps claude from offering another, or None without an offer.

        A claude whose user has chosen a mode asks at the start, before its input box appears, whether `auto` shall
        replace the choice, and Enter accepts. It does not ask where other settings have a mode (measured with 2.1.332).
        """
        offers = self.version is not None and self.version > _BEFORE_AUTO
        return self.mode_word(canonical(mode)) if offers and of_user else None

    def own_settings(self, *, may_message: bool) -> Mapping[str, object]:
        """Settings for every process.

        `tui`: otherwise claude uses the alternate screen, which keeps no history for `sm output` and archives.
        `useAutoModeDuringPlan`: otherwise a model decides in plan mode about commands for which the modes below `auto`
        ask, and no PermissionRequest comes (measured with 2.1.332).
        `crossSessionInbound`: otherwise any claude of the same user may start a turn of the agent, past sm.
        """
        settings: dict[str, object] = {"tui": "default", "useAutoModeDuringPlan": False}
        has_peers = self.version is None or self.version > _BEFORE_AUTO
        if has_peers and not may_message:
            settings["crossSessionInbound"] = "refuse"
        return settings


OWN_ENVIRONMENT: Mapping[str, str] = MappingProxyType({
    # Newer models have no task list without it, and the list is what keeps sm from completing unfinished work.
    "CLAUDE_CODE_ENABLE_TODO_TOOLS": "1",
    # claude moves a call to the background after two minutes, and ends the turn. `ask` and `wait_for_sessions` of sm
    # wait longer by intent.
    "CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS": str(1000 * (MCP_CALL_MAX_S + 60)),
    # Otherwise `claude --bg` in a command of the agent starts claude's own daemon, which outlives the agent and starts
    # claudes that sm does not see. The setting `disableAgentView` does not bind the claudes of commands.
    "CLAUDE_CODE_DISABLE_AGENT_VIEW": "1",
})  # fmt: skip
"""Variables of every agent, and of its commands. 2.1.197 ignores all but the last (measured), and `claude.env`
overrides them."""


def abilities_of(program: ProgramFacts) -> Abilities:
    """Read the answers of a program to --version and --help."""
    version, modes = _VERSION.search(program.version), _LISTED_MODES.search(program.help)
    return Abilities(
        None if version is None else tuple(map(int, version.groups())),
        frozenset(_LISTED_OPTION.findall(program.help)),
        frozenset(re.findall(r'"([A-Za-z]+)"', modes[1])) if modes is not None else frozenset(),
    )

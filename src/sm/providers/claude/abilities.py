"""Derives from the answers of a program of claude what sm passes to it. Pure.

claude exits at an unknown option and opens a dialog at an unknown
value of a setting, but ignores an unknown setting and an unknown variable (measured with 2.1.197 and 2.1.332). So an
option is passed only to a program that lists it. A program that was not asked, such as one in a container, gets the
options that its version is known to have.
"""

import re
from collections.abc import Mapping

from sm.core.dataclass import dataclass
from sm.providers.base import ProgramFacts
from sm.providers.claude.dialect import NOTHING, Known, current, version_in
from sm.providers.claude.permissions import canonical
from sm.wire import MCP_CALL_MAX_S

_LISTED_OPTION = re.compile(r"^ +(?:-\w, )?(--[a-z][a-z0-9-]*)", re.MULTILINE)
_LISTED_MODES = re.compile(r"--permission-mode .*?\(choices: ([^)]*)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Abilities:
    """The version, options and modes of one program. Without an argument: of a program that was not asked."""

    known: Known = NOTHING
    options: frozenset[str] = frozenset()
    modes: frozenset[str] = frozenset()

    def mode_word(self, mode: str) -> str:
        """The word of the program for a permission mode. 2.1.332 lists `manual`, 2.1.197 accepts only `default`."""
        others = [word for word, meant in current().table("modes.words").items() if meant == mode]
        listed = [word for word in others if word in self.modes]
        return listed[0] if listed and mode not in self.modes else mode

    def knows_mode(self, mode: str) -> bool:
        """Return whether the program may be started in this mode; True for a program that was not asked."""
        return not self.modes or self.mode_word(mode) in self.modes

    def may_pass(self, option: str) -> bool:
        """Return whether the program lists this option; True for a program that was not asked."""
        return not self.options or option in self.options

    @property
    def own_options(self) -> tuple[str, ...]:
        """Options for every process, of those that the program lists, or has by its version if it was not asked.

        Without `--system-prompt-snapshot off` a later process of a conversation, and a fork, gets the system prompt of
        the first process: the name, the parent and the budget of another session (measured with 2.1.332).
        """
        words = current()
        has_all = not self.options and words.choose("options.has_own", self.known).value is True
        own = words.table("options.own").items()
        return tuple(word for option in own if has_all or option[0] in self.options for word in option)

    def answered_mode(self, mode: str, of_user: str) -> str | None:
        """Return the `permissions.defaultMode` that keeps claude from offering another, or None without an offer.

        A claude whose user has chosen a mode asks at the start, before its input box appears, whether `auto` shall
        replace the choice, and Enter accepts. It does not ask where other settings have a mode (measured with 2.1.332).
        """
        offers = current().choose("modes.offers_auto", self.known).value is True
        return self.mode_word(canonical(mode)) if offers and of_user else None

    def own_settings(self, *, may_message: bool) -> Mapping[str, object]:
        """Settings for every process.

        `disableAgentView`: otherwise the left key at an empty prompt hands the session, with its identity, to claude's
        own daemon.
        `tui`: otherwise claude uses the alternate screen, which keeps no history for `sm output` and archives.
        `useAutoModeDuringPlan`: otherwise a model decides in plan mode about commands for which the modes below `auto`
        ask, and no PermissionRequest comes (measured with 2.1.332).
        `autoContinueAtUsageLimit`: otherwise claude continues by itself when its usage limit is reset, as sm does, and
        the agent gets two orders to go on (by the settings of 2.1.332; the limit needs a login, so it is not measured).
        `remoteControlAtStartup`: otherwise a setting of the user, or of the organization, connects each session with
        claude.ai, where another device answers dialogs, types prompts and changes the mode, past sm. It needs a login,
        so a connection is not measured; both versions know the setting, and a setting of the user yields to it.
        `crossSessionInbound`: otherwise any claude of the same user may start a turn of the agent, past sm.
        """
        words = current()
        has_peers = words.choose("peers.may_message", self.known).value is True
        refused = words.table("settings.no_peers") if has_peers and not may_message else {}
        return {**words.table("settings.own"), **refused}


def own_environment() -> Mapping[str, str]:
    """Variables of every agent, and of its commands. `claude.env` overrides them.

    CLAUDE_CODE_ENABLE_TODO_TOOLS: newer models have no task list without it, and the list is what keeps sm from
    completing unfinished work. CLAUDE_CODE_DISABLE_AGENT_VIEW: otherwise `claude --bg` in a command of the agent starts
    claude's own daemon, which outlives the agent and starts claudes that sm does not see; the setting
    `disableAgentView` does not bind the claudes of commands. CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS: claude moves a call to
    the background after two minutes, and ends the turn, but `ask` and `wait_for_sessions` of sm wait longer by intent.
    2.1.197 ignores all but the second (measured).
    """
    longest_ms = str(1000 * (MCP_CALL_MAX_S + 60))
    return {
        **current().table("environment.own"),
        **dict.fromkeys(current().texts("environment.call_ms"), longest_ms),
    }


def abilities_of(program: ProgramFacts) -> Abilities:
    """Read the answers of a program to --version and --help."""
    modes = _LISTED_MODES.search(program.help)
    return Abilities(
        Known(version_in(program.version), None if program.state is None else program.state.outcomes or None),
        frozenset(_LISTED_OPTION.findall(program.help)),
        frozenset(re.findall(r'"([A-Za-z]+)"', modes[1])) if modes is not None else frozenset(),
    )

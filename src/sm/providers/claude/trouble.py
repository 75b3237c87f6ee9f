"""Explains start problems of claude with a hint for each. Pure.

`screen` recognizes the obstacles; the hints were measured with claude 2.1.197.
"""

import shlex
from collections.abc import Mapping, Sequence

from sm.core.dataclass import dataclass
from sm.providers.claude.dialect import current
from sm.providers.claude.screen import Obstacle, ScreenContent, State, last_words, read_end, read_screen

INSTALL = "npm install -g --prefix ~/.local @anthropic-ai/claude-code"
"""Works without root also with the npm of Debian, which may not write to its own prefix."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """The reason why a session does not start."""

    kind: Obstacle | None
    """None if claude exited before it drew anything, with an unknown message."""
    message: str
    """One line."""
    hint: str
    """One line with the command to type."""
    ended: bool = False
    """claude has exited or is about to, in place of waiting for a person."""


def explain(screen_lines: Sequence[str], *, working_dir: str, exited: bool) -> Trouble | None:
    """The reason why claude in `working_dir` has not started, or None if the screen shows no start problem.

    `exited`: the process is gone. Then `screen_lines` must include the history: a single printed line may have left the
    screen before tmux wrote `Pane is dead`.
    """
    screen = read_end(screen_lines) if exited else read_screen(screen_lines)
    if screen.obstacle is not None:
        option = screen.detail.partition(" ")[0]
        hint = _HINTS[screen.obstacle].format(
            at=shlex.quote(working_dir), detail=screen.detail, option=option
        )
        message = _message(screen, screen.obstacle)
        return Trouble(screen.obstacle, message, hint, screen.state is State.EXITED)
    if exited and not _was_up(screen_lines):
        hint = f"cd {shlex.quote(working_dir)} && claude"
        return Trouble(None, _unexplained(screen_lines), hint, ended=True)
    return None


def _message(screen: ScreenContent, obstacle: Obstacle) -> str:
    match obstacle:
        case Obstacle.BAD_MODEL:
            return f"claude cannot answer: the model {screen.detail} does not exist or is not available to this account"
        case Obstacle.LOGIN:
            return "claude cannot answer: it is not logged in"
        case _:
            message = (
                f"claude {'has ended' if screen.state is State.EXITED else 'does not start'}: {obstacle}"
            )
            return f"{message}: {screen.detail}" if screen.detail else message


def _was_up(lines: Sequence[str]) -> bool:
    """Return whether claude had started: it drew its welcome, input box or farewell."""
    return any(line.startswith(current().texts("chat.started")) for line in lines)


def _unexplained(lines: Sequence[str]) -> str:
    printed = last_words(lines)
    if not printed:
        return "claude exited during its start and printed nothing"
    return f"claude exited during its start; its last line of output: {printed[:200]}"


_RUN_IT = "run cd {at} && claude in your own terminal, and "
_HINTS: Mapping[Obstacle, str] = {
    Obstacle.TRUST: "sm trust {at}",
    Obstacle.ONBOARDING: "run claude once yourself, in a terminal, and answer its questions",
    Obstacle.LOGIN: "run claude in your own terminal and type /login",
    Obstacle.API_KEY: f"{_RUN_IT}choose Yes once, or set ANTHROPIC_AUTH_TOKEN in place of ANTHROPIC_API_KEY",
    Obstacle.SETTINGS: f"{_RUN_IT}correct the file that it names",
    Obstacle.BYPASS_WARNING: "sm trust --bypass",
    Obstacle.MCP_SERVER: f"{_RUN_IT}decide about the project's MCP servers",
    Obstacle.IMPORTS: f"{_RUN_IT}decide about the imports of its CLAUDE.md",
    Obstacle.BYPASS_AS_ROOT: "choose another permission mode, or run sm as another user; only if this machine is a "
    'sandbox, set IS_SANDBOX: "1" in claude.env of the configuration',
    Obstacle.UNKNOWN_OPTION: "remove {detail} from the arguments for claude, or update claude; claude --help "
    "shows its options",
    Obstacle.BAD_CHOICE: "claude --help shows the allowed values of {option}; sm config shows the configured value",
    Obstacle.BAD_SESSION_ID: "give a UUID after --session-id, or omit the option",
    Obstacle.SESSION_ID_IN_USE: "claude --resume {detail} continues that conversation; a new conversation needs "
    "another id",
    Obstacle.NO_CONVERSATION: "claude --resume in {at} lists its conversations; a conversation belongs to the "
    "directory in which it began",
    Obstacle.NO_FILE: "correct the path or the JSON: claude takes invalid JSON for a path",
    Obstacle.NO_CONNECTION: "run claude once yourself, in a terminal, while api.anthropic.com is reachable: claude "
    "connects to it at its first start",
    Obstacle.BAD_MODEL: "spawn the agent with a model that claude knows (opus, sonnet, haiku, or a full name), or type "
    "/model in its terminal",
}
"""Hints. `at`: the session's directory, quoted; `detail`: `ScreenContent.detail`; `option`: first word of `detail`."""

"""The interpretation of a screen: `State`, `Obstacle` and `ScreenContent`."""

from enum import StrEnum

from sm.core.dataclass import dataclass


class State(StrEnum):
    """The state of claude, as shown on its screen."""

    IDLE = "idle"
    WORKING = "working"
    PERMISSION = "permission"
    """claude asks for permission to run, write, fetch, or carry out its plan."""
    QUESTION = "question"
    """claude asks a question with options (the AskUserQuestion tool)."""
    DIALOG = "dialog"
    """A menu or a view opened by a person, which receives typed text."""
    BLOCKED = "blocked"
    """claude cannot start or work until a person acts (`ScreenContent.obstacle`)."""
    EXITED = "exited"
    UNKNOWN = "unknown"


class Obstacle(StrEnum):
    """A reason why claude does not start. The value is the end of a sentence."""

    ONBOARDING = "it asks for its first-time setup"
    TRUST = "it asks whether the directory is trusted"
    LOGIN = "it asks for a login"
    API_KEY = "it asks whether to use the API key from the environment"
    SETTINGS = "it reports an error in a settings file"
    BYPASS_WARNING = "it asks you to accept the risks of bypassing permissions"
    MCP_SERVER = "it asks about an MCP server of the project"
    IMPORTS = "it asks about imports in CLAUDE.md"
    # In the following cases, claude has printed the reason and ended.
    BYPASS_AS_ROOT = "it refuses to bypass permissions as root"
    UNKNOWN_OPTION = "it does not know an option"
    BAD_CHOICE = "it does not accept the value of an option"
    BAD_SESSION_ID = "its session id is not a UUID"
    SESSION_ID_IN_USE = "its session id is in use"
    NO_CONVERSATION = "the conversation to resume does not exist"
    NO_FILE = "a file does not exist"
    NO_CONNECTION = "it could not reach Anthropic"
    # In this case, claude accepts prompts, but every turn fails.
    BAD_MODEL = "it cannot use its model"


@dataclass(frozen=True, slots=True)
class ScreenContent:
    """The interpretation of one screen, valid only at the time of the capture."""

    state: State
    what: str
    """One line for a person."""
    composer: str | None = None
    """The text in the input box, wrapped as shown and empty for an empty box, or None without a box.

    In shell mode the text begins with "!" and would be run. Without styles a dim suggestion looks like a draft and is
    included, except for the constant hints of claude.
    """
    queued: bool = False
    """Messages wait in claude's queue for the end of the turn or the next tool result."""
    background: bool = False
    """A background shell or agent still runs after the turn."""
    hint: str | None = None
    """The action for a person, if one is needed."""
    usage_limit: bool = False
    """The dialog is the one that claude opens without a request of a person when it meets its usage limit. Escape
    closes the dialog and changes nothing else.
    """
    obstacle: Obstacle | None = None
    detail: str = ""
    """The subject of the obstacle, as shown: the option, model, file or session id."""


def short(text: str, limit: int = 120) -> str:
    """`text` on one line, truncated for `ScreenContent.what`."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"

"""What a screen can say: `State`, `Obstacle`, a `ScreenContent` of both."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """What claude is doing, as far as its screen shows it."""

    IDLE = "idle"
    WORKING = "working"
    PERMISSION = "permission"
    """It asks whether it may run, write, fetch, or carry out its plan."""
    QUESTION = "question"
    """It asks something with options (the AskUserQuestion tool)."""
    DIALOG = "dialog"
    """A menu or a view that a person has opened: what is typed goes into that."""
    BLOCKED = "blocked"
    """It has not started yet, and will not before a person has done something (`ScreenContent.obstacle`)."""
    EXITED = "exited"
    UNKNOWN = "unknown"


class Obstacle(StrEnum):
    """What keeps claude from starting, in words that end a sentence."""

    ONBOARDING = "it wants to be set up"
    TRUST = "it asks whether the directory is trusted"
    LOGIN = "it asks for a login"
    API_KEY = "it asks whether to use the API key of its environment"
    BYPASS_WARNING = "it asks to accept what bypassing permissions means"
    MCP_SERVER = "it asks about an MCP server of the project"
    IMPORTS = "it asks about imports in CLAUDE.md"
    # From here on: it has ended and said why.
    BYPASS_AS_ROOT = "it does not bypass permissions as root"
    UNKNOWN_OPTION = "it does not know an option"
    BAD_CHOICE = "an option has a value that it does not know"
    BAD_SESSION_ID = "its session id is not a UUID"
    SESSION_ID_IN_USE = "its session id is in use"
    NO_CONVERSATION = "there is no such conversation to resume"
    NO_FILE = "a file is not there"
    NO_CONNECTION = "it could not reach Anthropic"
    # And this one takes the prompt, and fails each turn.
    BAD_MODEL = "it cannot use its model"


@dataclass(frozen=True, slots=True)
class ScreenContent:
    """One reading. It holds for the moment of the capture only."""

    state: State
    what: str
    """One line for a person."""
    composer: str | None = None
    """The text in the input box as it is wrapped there; "" when it is empty, None when there is no box.

    In shell mode it begins with "!": what is typed there is run. A suggestion that claude shows in dim letters
    cannot be told from a draft without colours and is read as one, but for the hints that it always shows.
    """
    queued: bool = False
    """Messages wait in claude for the turn's end or the next tool result."""
    background: bool = False
    """A shell or an agent that it has started goes on though its turn has ended."""
    hint: str | None = None
    """What to type, where a person is needed."""
    obstacle: Obstacle | None = None
    detail: str = ""
    """What of the obstacle has a name, as it stands on the screen: the option, the model, the file, the session id."""


def short(text: str, limit: int = 120) -> str:
    """`text` as a part of `ScreenContent.what`: on one line, its end cut."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"

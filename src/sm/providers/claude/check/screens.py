"""The contract about screens and titles: looks at each kind of them, and says which sm reads as something else."""

from collections.abc import Callable
from functools import partial

from sm.client.http import session_path
from sm.providers.claude.check.play import LONG_COMMAND, ContractBroken, Play
from sm.providers.claude.check.scripted_api import tool
from sm.providers.claude.dialect import NOTHING, current
from sm.providers.claude.screen import ScreenContent, State, read_screen

_DRAWN_S = 5.0
"""The longest wait for a screen that says what the API knows already."""


class SeenScreens:
    """Looks at screens, and collects those that sm reads as something else."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self.missed: list[str] = []
        self.count = 0

    def look(
        self, session_id: str, name: str, state: State, fits: Callable[[ScreenContent], object] = bool
    ) -> None:
        """Wait until the screen is read as this state."""

        def is_read() -> bool:
            content = read_screen(self._play.screen(session_id))
            return content.state is state and bool(fits(content))

        self._wait(is_read, name, lambda: read_screen(self._play.screen(session_id)).what)

    def look_at_title(self, session_id: str, says: str) -> None:
        """Wait until the title is read so, unless the titles of this version do not say it."""
        if current().choose("title.has_state", NOTHING).value is False:
            return

        def read() -> str:
            return self._play.evidence(session_id, "title")[0]

        self._wait(lambda: read() == says, f"the title of a turn that is {says}", read)

    def _wait(self, look: Callable[[], bool], name: str, read: Callable[[], str]) -> None:
        self.count += 1
        try:
            self._play.until(look, name, _DRAWN_S)
        except ContractBroken:
            self.missed.append(f"{name} ({read() or 'nothing'})")


def look_at_screens(play: Play) -> SeenScreens:
    seen = SeenScreens(play)
    _look_at_turns(play, seen)
    _look_at_dialogs(play, seen)
    _look_at_tools(play, seen)
    return seen


def _look_at_turns(play: Play, seen: SeenScreens) -> None:
    plain = play.start_idle("Plain")
    seen.look(plain, "an empty conversation", State.IDLE)
    play.send(plain, "seen-text [[text:begun]][[hold:seen-text]][[text:done]]")
    play.hold("seen-text")
    seen.look(plain, "a turn", State.WORKING)
    seen.look_at_title(plain, "busy")
    play.send(plain, "seen-later")
    seen.look(plain, "a message in its queue", State.WORKING, lambda content: not content.composer)
    play.api.release("seen-text")
    play.turn("seen-later")
    play.wait_status(plain, "idle")
    seen.look(plain, "a finished turn", State.IDLE)
    seen.look_at_title(plain, "idle")


def _look_at_dialogs(play: Play, seen: SeenScreens) -> None:
    question = {
        "question": "Which colour?",
        "header": "Colour",
        "multiSelect": False,
        "options": [{"label": label, "description": label} for label in ("red", "blue")],
    }
    dialogs = {
        "a command": (
            "Plain",
            tool("Bash", command="touch x", description="x"),
            State.PERMISSION,
            "run a command",
        ),
        "a new file": (
            "Plain",
            tool("Write", file_path=str(play.project / "x"), content="x"),
            State.PERMISSION,
            "create a file",
        ),
        "a page": (
            "Plain",
            tool("WebFetch", url="https://example.org/", prompt="x"),
            State.PERMISSION,
            "fetch",
        ),
        "a plan": ("Planner", tool("ExitPlanMode", plan="1. do it"), State.PERMISSION, "its plan"),
        "a question": (
            "Plain",
            tool("AskUserQuestion", questions=[question]),
            State.QUESTION,
            "Which colour?",
        ),
    }
    for number, (name, (agent_type, asks, state, words)) in enumerate(dialogs.items()):
        asking = play.spawn(agent_type, f"seen-dialog{number} {asks}[[then]][[text:so]]")
        play.request(asking)
        seen.look(asking, f"the dialog about {name}", state, partial(_says, words))


def _look_at_tools(play: Play, seen: SeenScreens) -> None:
    editor = play.spawn(
        "Editor", f"seen-tool {tool('Bash', command=LONG_COMMAND, description='x')}[[then]][[text:so]]"
    )
    play.turn("seen-tool")
    seen.look(editor, "a tool that runs", State.WORKING)
    play.until(lambda: play.client.get(session_path(editor, "/progress"))["last_tool"], "the tool runs")
    play.client.post(session_path(editor, "/interrupt"))
    play.wait_status(editor, "idle")
    seen.look(editor, "an interrupted turn", State.IDLE)
    shell = tool("Bash", command=LONG_COMMAND, description="x", run_in_background=True)
    play.send(editor, f"seen-shell {shell}[[then]][[text:so]]")
    play.turn("seen-shell", 1)
    play.wait_status(editor, "idle")
    seen.look(editor, "a shell in the background", State.IDLE, lambda content: content.background)


def _says(words: str, content: ScreenContent) -> bool:
    return words in content.what

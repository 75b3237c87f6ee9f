"""Follows the visible screen of a session's terminal for `sm top`."""

import os
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache

from rich.style import Style
from rich.text import Text

from sm.client import live
from sm.client.http import Client, session_path
from sm.client.live import Json
from sm.core.lines import agent_line
from sm.core.quotation import visible
from sm.errors import SmError

_ATTRIBUTES = {
    "bold": "bold",
    "dim": "dim",
    "italic": "italic",
    "underline": "underline",
    "blink": "blink",
    "reverse": "reverse",
    "hidden": "conceal",
    "strike": "strike",
}
_OUTPUT_LINES = 500
_END_WITHIN_S = 1.0

ShowLines = Callable[[Sequence[Text | str]], object]
"""Called in a thread of the reader with all lines."""


class ScreenFollower:
    """Reads the screen in a thread until `close`. Without a terminal: the saved output, once."""

    def __init__(self, client: Client, session_id: str, show: ShowLines) -> None:
        self._client = client
        self._session_id = session_id
        self._show = show
        # As in Feed: the stream ends when the read end of this pipe is closed.
        self._end, self._reader_fd = os.pipe()
        self._is_closed = False
        self._thread = threading.Thread(target=self._follow, name="sm top: screen", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the stream. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        os.close(self._end)
        self._thread.join(_END_WITHIN_S)
        if not self._thread.is_alive():
            os.close(self._reader_fd)

    def _follow(self) -> None:
        rows: list[Text] = []
        try:
            for update in live.screen(self._client, self._session_id, reader_fd=self._reader_fd):
                rows += [Text()] * (update["height"] - len(rows))
                del rows[update["height"] :]
                for row in update["rows"]:
                    if row["row"] < len(rows):
                        rows[row["row"]] = screen_row(row)
                self._tell(_without_blank_end(rows))
                if self._is_closed:
                    return
        except BrokenPipeError:
            return
        except SmError:
            pass
        if not self._is_closed:
            self._tell(self._saved_output())

    def _saved_output(self) -> Sequence[Text | str]:
        try:
            answer = self._client.get(
                session_path(self._session_id, "/output"), {"lines": _OUTPUT_LINES, "seen": True}
            )
        except SmError as error:
            return [f"not readable: {error.message}"]
        return [agent_line(text) for text in answer["lines"]] or ["the terminal is empty"]

    def _tell(self, lines: Sequence[Text | str]) -> None:
        if not self._is_closed:
            self._show(lines)


def screen_row(row: Json) -> Text:
    """A row of the screen with its styles. Invisible characters become code points."""
    text = Text(no_wrap=True)
    for words, style in row["runs"]:
        text.append(visible(words), _style(style))
    return text


@lru_cache(maxsize=512)
def _style(words: str) -> Style:
    """The style of a run, as docs/protocol.md describes it. Unknown words have no effect."""
    attributes, colour, background = list[str](), None, None
    for word in words.split():
        if word in _ATTRIBUTES:
            attributes.append(_ATTRIBUTES[word])
        elif word.startswith("fg:"):
            colour = _colour(word[3:])
        elif word.startswith("bg:"):
            background = _colour(word[3:])
    style = Style.parse(" ".join(attributes)) if attributes else Style()
    return style + Style(color=colour, bgcolor=background)


def _colour(word: str) -> str | None:
    return word if word.startswith("#") else f"color({word})" if word.isdecimal() else None


def _without_blank_end(rows: Sequence[Text]) -> Sequence[Text]:
    kept = len(rows)
    while kept and not rows[kept - 1].plain.strip():
        kept -= 1
    return list(rows[:kept]) or [Text("the terminal is empty")]

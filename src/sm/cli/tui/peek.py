"""Follows the visible screen of a session's terminal for `sm top`."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import lru_cache

from rich.style import Style
from rich.text import Text

from sm.client.http import session_path
from sm.client.live_stream import Json
from sm.core.lines import agent_line
from sm.core.quotation import visible
from sm.errors import SmError
from sm.feed import FeedSource

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
_OUTPUT_LINES = "500"


async def follow_screen(
    source: FeedSource,
    session_id: str,
    show: Callable[[Sequence[Text | str]], object],
    *,
    seen: bool = True,
) -> None:
    """Call `show` with all lines of the screen after each change. Without a terminal: the saved output, once.

    `seen`: mark an ended session as seen by the person.
    """
    rows: list[Text] = []
    query = {"seen": "1"} if seen else {}
    path = session_path(session_id, "/screen/stream")
    with suppress(SmError):
        async with aclosing(source.events(path, query)) as updates:
            async for update in updates:
                rows += [Text()] * (update["height"] - len(rows))
                del rows[update["height"] :]
                for row in update["rows"]:
                    if row["row"] < len(rows):
                        rows[row["row"]] = screen_row(row)
                show(_without_blank_end(rows))
                if update["over"]:
                    break
    show(await _saved_output(source, session_id, query))


async def _saved_output(
    source: FeedSource, session_id: str, query: Mapping[str, str]
) -> Sequence[Text | str]:
    try:
        answer = await source.get(session_path(session_id, "/output"), {"lines": _OUTPUT_LINES, **query})
    except SmError as error:
        return [f"not readable: {error.message}"]
    return [agent_line(text) for text in answer["lines"]] or ["the terminal is empty"]


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

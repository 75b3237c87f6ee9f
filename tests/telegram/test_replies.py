"""Replies of the bot as Telegram reads them: nothing is lost, nothing is too long, no markup comes from elsewhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.core.telegram_model import BotMethod
from sm.core.telegram_text import TEXT_MAX, marked_again, utf16_length, visible
from sm.telegram.replies import PAGE_MAX, BotReply, NewButton, Place, RenderedReply, render
from tests.telegram_api.entities import parse_html
from tests.telegram_api.methods import CAPTION_MAX

NOW = "2026-01-01T00:00:00.000Z"
HOSTILE = st.text(
    st.characters(codec="utf-16-le") | st.sampled_from("<>&\"'`*_[]()\x1b\u202e\u200b\ud83d😀\n/b"),
    max_size=9000,
)


def rendered(text: str, **options: object) -> RenderedReply:
    return render(BotReply(text, **options), Place(1001), 1001, NOW)  # type: ignore[arg-type]  # fields of BotReply


def shown(reply: RenderedReply) -> list[str]:
    """The texts after entities parsing, each within the limit also when it is repeated."""
    found = []
    for call in reply.calls:
        limit = CAPTION_MAX if call.method is BotMethod.SEND_DOCUMENT else TEXT_MAX
        for parameters in (call.parameters, marked_again(call.parameters)):
            text = parse_html(parameters.get("text", parameters.get("caption", "")))
            assert text.strip() and utf16_length(text) <= limit
        found.append(parse_html(call.parameters.get("text", call.parameters.get("caption", ""))))
    return found


@pytest.mark.parametrize("length", [1, PAGE_MAX, PAGE_MAX + 1, 4096, 4097, 3 * PAGE_MAX])
@pytest.mark.parametrize("character", ["x", "<", "&", "😀"])
def test_text_of_any_length_arrives_whole(length: int, character: str) -> None:
    lines = [character * 76] * (length // 77 + 1)
    reply = rendered("\n".join(lines)[:length])
    if reply.calls[0].method is BotMethod.SEND_DOCUMENT:
        assert reply.calls[0].parameters["document"] == "\n".join(lines)[:length]
    else:
        assert "\n".join(shown(reply)) == "\n".join(lines)[:length]
        assert len(reply.calls) <= 3


@given(HOSTILE, st.booleans())
def test_hostile_text_is_shown_as_it_is(text: str, is_output: bool) -> None:
    reply = rendered(text, is_output=is_output, name="sessions")
    texts = shown(reply)
    if reply.calls[0].method is BotMethod.SEND_MESSAGE and all(
        len(line) < PAGE_MAX for line in text.split("\n")
    ):
        pages = visible(text).split("\n")
        assert [line for line in "\n".join(texts).split("\n") if line.strip() not in ("", "(empty)")] == [
            line for line in pages if line.strip() not in ("", "(empty)")
        ]


@given(st.text(max_size=200))
def test_label_of_a_button_is_never_empty_or_too_long(label: str) -> None:
    reply = rendered("Sure?", buttons=[[NewButton(label, "kill 1a2b3c4d")]])
    ((button,),) = reply.calls[0].parameters["reply_markup"]["inline_keyboard"]
    assert button["text"].strip() and utf16_length(button["text"]) <= 64
    assert len(button["callback_data"].encode()) <= 64
    assert button["callback_data"] not in repr(reply.buttons)

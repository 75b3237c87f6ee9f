"""The progress card in Telegram with the real Claude Code."""

from collections.abc import Iterator

import pytest

from tests.claude_fixtures import scripted_api
from tests.claude_instance import ClaudeInstance
from tests.scripted_api import ScriptedApi, Usage, tool, usage
from tests.telegram_api import TelegramApi
from tests.telegram_instance import configure, start

api = scripted_api("module")


@pytest.fixture
def telegram() -> Iterator[TelegramApi]:
    with TelegramApi() as telegram:
        yield telegram


@pytest.fixture
def claudes(api: ScriptedApi, telegram: TelegramApi) -> Iterator[ClaudeInstance]:
    """An instance whose owner has written to the bot."""
    ann = telegram.person(1001, "Ann", "ann")
    instance = ClaudeInstance(api)
    try:
        configure(instance, telegram, section=", progress: true")
        start(instance, telegram)
        ann.says("/start")
        telegram.wait_for_message(1001, "connected")
        yield instance
    finally:
        instance.end()


def test_card_shows_tokens_cost_context_and_the_last_tool(
    claudes: ClaudeInstance, telegram: TelegramApi
) -> None:
    spent = usage(Usage(30_000, 1_000, 20_000, 10_000, 0))
    prompt = f"{tool('Bash', command='echo hello')}{spent}[[then]][[text:All 26 tests pass.]]"
    id = claudes.spawn("Editor", prompt, "--name", "login")["session_id"]
    card = telegram.wait_for_message(1001, f"editor-login ({id}): ")
    for words in ("31,", " tokens · $0.", " · context ", "last tool: Bash"):
        telegram.wait_for(lambda words=words: words in card.text, f"{words!r} in the card")  # type: ignore[misc]
    claudes.sm("kill", id)
    telegram.wait_for(lambda: f"({id}): killed" in card.text and "31," in card.text, "the summary")
    assert len(telegram.messages(1001, f"editor-login ({id}): ")) == 1

"""Shows and tests the bot of Telegram, for `sm telegram`."""

from collections.abc import Iterator

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import now
from sm.core.lines import JsonObject, age, line, plural
from sm.core.timestamps import span


@click.group()
def command() -> None:
    """Show or test the bot of Telegram.

    The section telegram of the configuration sets up the bot. Agents cannot use these commands.

    \b
    Examples:
      sm telegram status
      sm telegram test
    """


@command.command()
@json_option
def status(call: Call) -> None:
    """Show the connection, the queue and the chats of the bot.

    \b
    Examples:
      sm telegram status
    """
    call.get("/v1/telegram", _lines)


@command.command()
@click.option("--to", metavar="USER", help="An owner or a paired user; default: all owners.")
@json_option
def test(to: str | None, call: Call) -> None:
    """Send a test message to the owners.

    A user gets it only after writing to the bot once. If Telegram refuses it, sm telegram status shows the reason.

    \b
    Examples:
      sm telegram test
      sm telegram test --to 4711
    """
    call.post("/v1/telegram/test", _tested, {"user": to})


def _lines(status: JsonObject) -> Iterator[str]:
    if not status["configured"]:
        yield "No bot is configured: set telegram.token_file and telegram.owner_ids"
        return
    bot = "the bot" if status["bot"] is None else f"@{line(status['bot'])}"
    answered = status["last_answer_s"]
    yield f"{bot}: {'no answer yet' if answered is None else f'last answer {span(answered)} ago'}"
    if status["trouble"] is not None:
        yield f"trouble: {line(status['trouble'])}"
    yield (
        f"{plural(status['waiting'], 'call')} waiting, {status['dropped']} dropped, "
        f"{plural(status['left_out'], 'report')} left out"
    )
    yield f"{plural(len(status['owners']), 'owner')}, {plural(status['paired'], 'paired user')}"
    for chat in status["chats"]:
        yield f"chat {chat['chat_id']} ({line(chat['kind'])}): {line(chat['title'])}"
    for call in status["last_dropped"]:
        where = "" if call["chat_id"] is None else f" to {call['chat_id']}"
        yield f"dropped {age(call['at'], now())}: {line(call['method'])}{where}: {line(call['reason'])}"


def _tested(tested: JsonObject) -> list[str]:
    return [f"Sending a test message to {', '.join(map(line, tested['users']))}"]

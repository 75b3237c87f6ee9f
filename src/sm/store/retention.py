"""Deletes rows and texts that no reader can reach any more. The free pages of the database are reused."""

from collections.abc import Callable
from typing import Any

_CLOSED = "about NOT IN (SELECT 'request r' || id FROM requests WHERE state = 'open')"
_TELEGRAM_MESSAGES = f"""DELETE FROM telegram_messages WHERE at < ? AND (
    about GLOB 'reply *' OR about GLOB 'message *' OR about GLOB 'pair *' OR (about GLOB 'request *' AND {_CLOSED})
    OR (about GLOB 'session *' AND message_id > (SELECT min(f.message_id) FROM telegram_messages AS f
        WHERE f.about = telegram_messages.about AND f.chat_id = telegram_messages.chat_id)))"""  # noqa: S608 - constant
_TELEGRAM_BUTTONS = f"DELETE FROM telegram_buttons WHERE about GLOB 'request *' AND {_CLOSED}"  # noqa: S608
_TELEGRAM_DRAFTS = f"DELETE FROM telegram_drafts WHERE {_CLOSED}"  # noqa: S608


def prune(write: Callable[[str, tuple[Any, ...]], None], before: str) -> None:
    """Delete what became unreachable before that time, which must be longer ago than any retry.

    - Idempotency keys, and finished effects. Failed effects stay: `sm status` counts them. The newest archive that was
      written stays: it shows that earlier failures are over.
    - Updates of Telegram, which repeats an update for a day, and expired buttons and mutes.
    - The objects of old messages in Telegram, but not of the first one about a session, to which all later ones reply,
      nor of the cards of open requests. The buttons and drafts of requests that are over.
    - The texts of notices that can never become part of another message. The row stays: it prevents that the same
      occasion is reported twice.
    """
    write("DELETE FROM idempotency WHERE created_at < ?", (before,))
    write("DELETE FROM telegram_updates WHERE at < ?", (before,))
    write("DELETE FROM telegram_buttons WHERE expires_at < ?", (before,))
    write("DELETE FROM telegram_mutes WHERE until < ?", (before,))
    write(_TELEGRAM_MESSAGES, (before,))
    write(_TELEGRAM_BUTTONS, ())
    write(_TELEGRAM_DRAFTS, ())
    write(
        "DELETE FROM outbox WHERE state = 'done' AND created_at < ?"
        " AND id IS NOT (SELECT max(id) FROM outbox WHERE kind = 'archive' AND state = 'done')",
        (before,),
    )
    write(
        "UPDATE notices SET text = '' WHERE text <> '' AND created_at < ? AND (state IN ('heard', 'dropped')"
        " OR (state = 'sent' AND EXISTS (SELECT 1 FROM messages AS m WHERE m.id = message_id AND m.state_at < ?"
        " AND (m.state = 'acknowledged' OR (m.state = 'submitted' AND m.via = 'inbox')))))",
        (before, before),
    )

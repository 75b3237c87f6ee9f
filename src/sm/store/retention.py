"""Deletes rows and texts that no reader can reach any more. The free pages of the database are reused."""

from collections.abc import Callable
from typing import Any


def prune(write: Callable[[str, tuple[Any, ...]], None], before: str) -> None:
    """Delete what became unreachable before that time, which must be longer ago than any retry.

    - Idempotency keys, and finished effects. Failed effects stay: `sm status` counts them.
    - Updates of Telegram, which repeats an update for a day, and expired buttons and mutes.
    - The texts of notices that can never become part of another message. The row stays: it prevents that the same
      occasion is reported twice.
    """
    write("DELETE FROM idempotency WHERE created_at < ?", (before,))
    write("DELETE FROM telegram_updates WHERE at < ?", (before,))
    write("DELETE FROM telegram_buttons WHERE expires_at < ?", (before,))
    write("DELETE FROM telegram_mutes WHERE until < ?", (before,))
    write("DELETE FROM outbox WHERE state = 'done' AND created_at < ?", (before,))
    write(
        "UPDATE notices SET text = '' WHERE text <> '' AND created_at < ? AND (state IN ('heard', 'dropped')"
        " OR (state = 'sent' AND EXISTS (SELECT 1 FROM messages AS m WHERE m.id = message_id AND m.state_at < ?"
        " AND (m.state = 'acknowledged' OR (m.state = 'submitted' AND m.via = 'inbox')))))",
        (before, before),
    )

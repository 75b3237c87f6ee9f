"""Texts of people on their way to sessions, whose outcome the bot tells. `Open.texts` has all of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sm.core.telegram import WatchedText
from sm.store.rows import TELEGRAM_TEXTS, insertion

if TYPE_CHECKING:
    from sm.store.transaction import Transaction


class TextWrites:
    """Writes watched texts in a transaction."""

    def __init__(self, transaction: "Transaction") -> None:
        self._tx = transaction

    def find(self, number: int) -> WatchedText | None:
        return self._texts.get(number)

    def put(self, text: WatchedText) -> None:
        """Add the text, or replace the one of its message."""
        row = TELEGRAM_TEXTS.row(text)
        self._tx.write(*insertion(TELEGRAM_TEXTS.name, row, verb="INSERT OR REPLACE"))
        self._set({**self._texts, text.id: text})

    def remove(self, number: int) -> None:
        self._tx.write("DELETE FROM telegram_texts WHERE id = ?", (number,))
        self._set({key: text for key, text in self._texts.items() if key != number})

    @property
    def _texts(self) -> Mapping[int, WatchedText]:
        return self._tx.mail.open.texts

    def _set(self, texts: Mapping[int, WatchedText]) -> None:
        self._tx.mail.open = replace(self._tx.mail.open, texts=texts)

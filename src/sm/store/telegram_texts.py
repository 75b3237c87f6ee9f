"""Texts of people on their way to sessions, whose outcome the bot tells. `Open.texts` has all of them."""

from collections.abc import Mapping
from dataclasses import replace

from sm.core.telegram_model import WatchedText
from sm.store.rows import TELEGRAM_TEXTS, insertion
from sm.store.writes import Writes


class TextWrites(Writes):
    """Writes watched texts in a transaction."""

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
        return self._tx.open.texts

    def _set(self, texts: Mapping[int, WatchedText]) -> None:
        self._tx.open = replace(self._tx.open, texts=texts)

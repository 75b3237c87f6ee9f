"""Keeps the choices of a person between two runs of `sm top`, in a file of the state directory."""

from sm.board.choices import Choices, choices_of
from sm.linux.files import replace_private
from sm.wire import decode, encode

_BYTES_MAX = 65_536


class KeptChoices:
    """`path`: the file, or empty to keep nothing. A file that cannot be read or written is ignored."""

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._last = self.read()

    def read(self) -> Choices:
        try:
            with open(self._path, "rb") as file:
                return choices_of(decode(file.read(_BYTES_MAX).decode("utf-8", "replace")))
        except (OSError, ValueError):
            return Choices()

    def write(self, choices: Choices) -> None:
        if not self._path or choices == self._last:
            return
        self._last = choices
        try:
            replace_private(self._path, encode(choices.as_json()).encode())
        except OSError:
            return

"""Hints of errors: sentences with references to operations, which each door words for its readers."""

from sm.core.dataclass import dataclass
from sm.operations import DoorNames


@dataclass(frozen=True, slots=True)
class Argument:
    """An option of commands that tools have as an argument, such as `--working-dir PATH`."""

    name: str
    """The name of the argument, such as `working_dir`."""
    value: str = ""
    """Empty for an option that has none, such as `--copy`."""

    def __str__(self) -> str:
        return f"--{self.name.replace('_', '-')} {self.value}".rstrip()


class Use:
    """A reference to an operation and its arguments."""

    def __init__(self, operation: DoorNames, *words: str | Argument) -> None:
        """`words`: what follows the command in a shell. A word that begins with `--` is an option."""
        self.operation = operation
        self.words = words

    def __str__(self) -> str:
        return self._line("sm", self.operation.verb)

    def in_chat(self) -> str:
        """The command of the bot, or that of the shell: commands of the bot have no options."""
        if not self.operation.chat or any(str(word).startswith("--") for word in self.words):
            return str(self)
        return self._line(f"/{self.operation.chat}")

    def _line(self, *command: str) -> str:
        return " ".join((*command, *map(str, self.words)))


class Hint(str):
    """A hint with references. As a text, also in JSON, it has the words of a shell."""

    parts: tuple[str | Use | Argument, ...]

    def __new__(cls, *parts: str | Use | Argument) -> "Hint":
        """`parts`: they follow each other without blanks."""
        hint = super().__new__(cls, "".join(map(str, parts)))
        hint.parts = tuple(inner for part in parts for inner in parts_of(part))
        return hint


def parts_of(hint: str | Use | Argument) -> tuple[str | Use | Argument, ...]:
    """The texts and the references of a hint. A plain text has no references."""
    return hint.parts if isinstance(hint, Hint) else (hint,)

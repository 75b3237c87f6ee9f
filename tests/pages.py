"""Reads the commands of a documentation page, types them in their order, and compares what they print with the page.

A block of `console` has commands after `$ `, with the lines of their here-documents, and the output below a command. A
page that shows no output for a command only promises that it succeeds; `...` stands for any lines. IDs, times, ages,
dates, costs, versions and the home directory of a page are examples. An ID means the same session wherever the page
shows it.

A block of `yaml` is what the user writes into config.yaml.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.typist import DETACH, INTERRUPT, Typist, plain

_ID = re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8}\b")
_STATUS_LINE = r"\d\d:\d\d \d\d-\w{3}-\d\d"
_QUESTION = re.compile(r"(.*\[y/N\]:? )(\w*)")
_EXAMPLES = {
    r"\b\d+\.\d+\.\d+\b": r"\d+\.\d+\.\d+",
    r"\b\d{4}-\d\d-\d\d\b": r"\d{4}-\d\d-\d\d",
    r"\[?\d\d:\d\d(?::\d\d)?\]?": r"\[?[\d :-]*\d\d:\d\d(?::\d\d)?\]?",  # another day shows its date
    r"\b\d+(?:s|m|h) ago": r"\d+(?:s|m|h) ago",
    r"\b\d+[smh]\b": r"\d+[smh]",
    r"\$\d+\.\d+": r"\$\d+\.\d+",
    r"\b\d+%": r"\d+%",
    r"\b[\d.]+k\b": r"[\d.]+k?",
    r" +": r"\s+",
}


@dataclass(frozen=True, slots=True)
class Command:
    """`text` as typed, with its comment and here-documents; `output` as shown, empty for a command without output."""

    line: int
    text: str
    output: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The first line without its comment: the name of the command in a test."""
        return re.split(r"\s+# ", self.text.partition("\n")[0])[0].strip()


@dataclass(frozen=True, slots=True)
class Configuration:
    line: int
    text: str


Step = Command | Configuration


def steps(page: Path) -> Iterator[Step]:
    """The commands and configurations of a page, from top to bottom."""
    kind, first, block = "", 0, list[str]()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith("```"):
            block.append(line)
        elif kind:
            if kind == "console":
                yield from _commands(block, first)
            elif kind == "yaml":
                yield Configuration(first, "\n".join(block))
            kind = ""
        else:
            kind, first, block = line[3:] or "text", number + 1, []
    assert not kind, f"{page} ends in a block"


def _commands(block: list[str], first: int) -> Iterator[Command]:
    at = 0
    assert block and block[0].startswith("$ "), f"line {first}: a block of console begins with a command"
    while at < len(block):
        number, text = first + at, block[at].removeprefix("$ ")
        at += 1
        end = re.search(r"<<'?(\w+)'?", text)
        while (text.endswith("\\") or end) and at < len(block):
            text += "\n" + block[at]
            at += 1
            if end and block[at - 1] == end[1]:
                break
        shown = []
        while at < len(block) and not block[at].startswith("$ "):
            shown.append(block[at])
            at += 1
        yield Command(number, text, tuple(line for line in shown if line.strip()))


class Reader:
    """A user who types a page.

    `before` has for a command a function that waits for what the user sees before typing the command.
    `configure` writes a configuration, and `examples` has the real values for texts of the page.
    """

    def __init__(
        self,
        terminal: Typist,
        before: Mapping[str, Callable[[], object]],
        configure: Callable[[str], None],
        examples: Mapping[str, str],
    ) -> None:
        self._terminal = terminal
        self._before = before
        self._configure = configure
        self._examples = examples
        self._ids: dict[str, str] = {}

    def read(self, page: Path) -> None:
        """Type the page: every command must succeed."""
        found = list(steps(page))
        names = {step.words for step in found if isinstance(step, Command)}
        assert names and set(self._before) <= names, set(self._before) - names
        for step in found:
            if isinstance(step, Configuration):
                self._configure(self._real(step.text))
            else:
                self._before.get(step.words, lambda: None)()
                self._type(step, f"{page}:{step.line}: $ {step.words}")

    def _type(self, command: Command, place: str) -> None:
        text = self._real(command.text)
        if re.search(r"^sm attach\b", command.words):
            # Earlier keys may be lost: tmux draws its status line when it has taken over the terminal.
            self._terminal.leave(text, _STATUS_LINE, DETACH)
        elif re.search(r"^sm .*(--watch|--follow)\b| -[fw]\b", command.words):
            shown = next((line for line in command.output if line != "..."), "\n")
            self._terminal.leave(text, re.escape(self._real(shown)), INTERRUPT)
        else:
            questions = [_QUESTION.fullmatch(line) for line in command.output]
            answers = {self._real(found[1].split("? ")[-1]): found[2] for found in questions if found}
            code, output = self._terminal.type(text, answers)
            assert code == 0, f"{place}: exit code {code}\n{plain(output)}"
            if command.words.startswith("sm worktree open "):
                self._terminal.type("exit")  # of the shell that the command has started
            if command.output:
                self._compare(command.output, plain(output), place)

    def _compare(self, expected: tuple[str, ...], output: str, place: str) -> None:
        """Compare without empty lines and without the wrapping of lines at the width of the terminal."""
        new: set[str] = set()
        pattern = r"\s+".join(
            r".*?" if line.strip() == "..." else self._pattern(line, new) for line in expected
        )
        pattern = pattern.replace(r"\s+.*?", r".*?").replace(r".*?\s+", r".*?")
        found = re.fullmatch(rf"\s*{pattern}\s*", output, re.DOTALL)
        shown = "\n".join(expected)
        assert found, f"{place} prints\n{output}\nbut the page shows\n{shown}\n({pattern})"
        self._ids |= {name.removeprefix("s_"): value for name, value in found.groupdict().items()}

    def _pattern(self, line: str, new: set[str]) -> str:
        """The regular expression of the lines that this line of a page is an example of.

        `new` has the IDs of this output that the page did not show before.
        """
        parts: list[str] = []
        at = 0
        text = self._real(line.strip())
        any_example = "|".join(f"(?P<e{n}>{example})" for n, example in enumerate(_EXAMPLES))
        values = list(_EXAMPLES.values())
        for found in re.finditer(rf"(?P<id>{_ID.pattern})|{any_example}", text):
            parts.append(re.escape(text[at : found.start()]))
            at = found.end()
            kind = found.lastgroup or ""
            if kind != "id":
                parts.append(values[int(kind[1:])])
            elif found[0] in self._ids.values():
                parts.append(found[0])
            elif found[0] in new:
                parts.append(f"(?P=s_{found[0]})")
            else:
                new.add(found[0])
                parts.append(f"(?P<s_{found[0]}>[0-9a-f]{{8}})")
        return "".join([*parts, re.escape(text[at:])])

    def _real(self, text: str) -> str:
        """The text with the real values for the examples and IDs of the page."""
        for example, value in self._examples.items():
            text = text.replace(example, value)
        return _ID.sub(lambda found: self._ids.get(found[0], found[0]), text)

"""Finds the syntax of lines of code with pygments, by the name of their file.

An agent chooses the lines and the name. So only lexers of common languages are used, on limited texts, and no longer
than a budget of time: a regular expression could need very long for a text that was made for it.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any

LINE_MAX = 1_000
_BLOCK_LINES = 200
"""Lines that are read together. The words of a text over several lines, such as a comment, may be lost between two."""
_BUDGET_S = 5.0


class Syntax(StrEnum):
    NONE = ""
    COMMENT = "comment"
    KEYWORD = "keyword"
    NAME = "name"
    """Of a function, a class or a tag."""
    LITERAL = "literal"
    """A number or a constant."""
    STRING = "string"


Words = Sequence[tuple[int, Syntax]]
"""The parts of a line: their lengths, which together are that of the line."""

_ENDINGS: Mapping[str, str] = {
    "bash": "sh bash zsh bashrc zshrc profile", "c": "c h", "cmake": "cmake", "cpp": "cc cpp cxx hh hpp hxx",
    "csharp": "cs", "css": "css", "dart": "dart", "diff": "diff patch", "docker": "dockerfile", "elixir": "ex exs",
    "erlang": "erl hrl", "go": "go", "graphql": "graphql gql", "groovy": "gradle groovy", "haskell": "hs",
    "html": "html htm", "ini": "ini cfg conf editorconfig gitconfig", "java": "java", "javascript": "js mjs cjs jsx",
    "json": "json jsonl webmanifest", "julia": "jl", "kotlin": "kt kts", "lua": "lua", "make": "mk makefile",
    "markdown": "md", "nix": "nix", "objective-c": "mm", "ocaml": "ml mli", "perl": "pl pm", "php": "php",
    "protobuf": "proto", "python": "py pyi pyw", "r": "r", "ruby": "rb rake gemfile rakefile", "rust": "rs",
    "scala": "scala sbt", "scss": "scss", "sql": "sql", "swift": "swift", "terraform": "tf tfvars hcl",
    "toml": "toml", "typescript": "ts mts cts", "tsx": "tsx", "xml": "xml svg xsd", "yaml": "yaml yml",
    "zig": "zig",
}  # fmt: skip
_LEXERS = {ending: name for name, endings in _ENDINGS.items() for ending in endings.split()}
"""The name of the lexer, by what follows the last dot of a file's name, or by the name without one."""
_FAMILIES = (
    ("Comment", Syntax.COMMENT), ("Keyword.Constant", Syntax.LITERAL), ("Keyword", Syntax.KEYWORD),
    ("Name.Function", Syntax.NAME), ("Name.Class", Syntax.NAME), ("Name.Tag", Syntax.NAME),
    ("Name.Decorator", Syntax.NAME), ("Name.Builtin", Syntax.LITERAL), ("Name.Constant", Syntax.LITERAL),
    ("Operator.Word", Syntax.KEYWORD), ("Literal.String", Syntax.STRING), ("Literal", Syntax.LITERAL),
)  # fmt: skip
"""The types of tokens, the narrower ones first."""


class SyntaxReader:
    def __init__(self, budget_s: float = _BUDGET_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._left_s = budget_s
        self._clock = clock

    def words(self, path: str, lines: Sequence[str]) -> Iterator[Words | None]:
        """The syntax of each line, or None for one whose syntax is not known."""
        name = _LEXERS.get(path.rpartition("/")[2].rpartition(".")[2].lower())
        for begin in range(0, len(lines), _BLOCK_LINES):
            block = lines[begin : begin + _BLOCK_LINES]
            if name is None or self._left_s <= 0 or max(map(len, block)) > LINE_MAX:
                yield from [None] * len(block)
                continue
            began_s = self._clock()
            found = _read(name, block)
            yield from [None] * len(block) if found is None else found
            self._left_s -= self._clock() - began_s


def _read(name: str, lines: Sequence[str]) -> Sequence[Words] | None:
    found: list[list[tuple[int, Syntax]]] = [[]]
    try:
        for _, kind, text in _lexer(name).get_tokens_unprocessed("\n".join(lines)):
            syntax = _syntax(kind)
            for number, piece in enumerate(text.split("\n")):
                if number:
                    found.append([])
                if found[-1] and found[-1][-1][1] is syntax:
                    found[-1][-1] = found[-1][-1][0] + len(piece), syntax
                elif piece:
                    found[-1].append((len(piece), syntax))
    except Exception:  # noqa: BLE001 - a lexer of a library that reads a text that was maybe made to break it
        return None
    sizes = [sum(size for size, _ in words) for words in found]
    return found if sizes == [len(line) for line in lines] else None


@cache
def _lexer(name: str) -> Any:
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]

    return get_lexer_by_name(name)


@cache
def _syntax(kind: Any) -> Syntax:
    name = str(kind).removeprefix("Token.")
    return next((syntax for family, syntax in _FAMILIES if f"{name}.".startswith(f"{family}.")), Syntax.NONE)

"""Finds the programs that a shell command runs, as far as its text shows. Pure.

No shell parser (see ADR 8). For allow rules, `is_one_program` accepts only simple commands. For deny rules,
`scan` reads the plain part of the language, reports whether the command has other parts, and over-approximates.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence

from sm.core.dataclass import dataclass

_PARTS_MAX = 1_000
_SPECIAL_MAX = 2_000
_STARTS_MAX = 20
"""Maximum number of words in one command that are tried as the beginning of a program."""

_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_QUOTED = re.compile(r"""'[^']*'|"[^"$`\\]*["]""")
_OPERATORS = re.compile(r"""[;&|<>()$`\\'"{]""")
"""Characters that join commands, run others or hide a name. A remaining quote has an expansion or no end."""
_COMMENT = re.compile(r"(?:^|\s)#")
_GLOB = re.compile(r"[*?\[]")
_SUBSCRIPT = re.compile(r"[A-Za-z0-9_]\[")
_EXPANSION = re.compile(r"\$[({\[]|`")

_SPECIAL = re.compile(r"""[\s;&|<>()$`\\'"*?\[{^~#]""")
"""Every further word, quote, operator and expansion needs one of these characters."""
_JOINS = re.compile(r"[;&|\n\r()`]+")
_QUOTES = str.maketrans("", "", "'\"\\")
_OPEN = "*?[{^~#$"
"""A shell expands pieces that begin with one of these characters."""
_PIECE = r"""(?:[^\s;&|<>()$`\\'"*?\[{^~\#]+ | \\[^\n] | '[^']*'
    | "(?:[^"\\$`]|\\[^\n]|\$(?![({\[]))*" | [*?\[{^~\#] | \$(?![({\['"`]))"""
_PIECES = re.compile(_PIECE, re.VERBOSE)
_TOKEN = re.compile(
    rf"""(?P<blank>[ \t]+(?:\\\n[ \t]*)*)
    | (?P<redirect>(?:&>>?|[0-9]*(?:<>|>>|>\||[<>]&?))(?![<>&|!(]))
    | (?P<end>\|&|&&?|\|\|?|[;\n])
    | (?P<word>{_PIECE}+)""",
    re.VERBOSE,
)
"""The plain part of the language: neither (...), $(...), ${...}, $'...' and the like, nor <<."""
_ESCAPED = re.compile(r"""\\([$`"\\])""")

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_REDIRECTION = re.compile(r"[0-9]*[<>]")
_KEYWORDS = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "{"})
"""Words after which a command follows directly."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "source", "."})
_WRAPPERS = _SHELLS | {
    "sudo", "doas", "command", "builtin", "exec", "eval", "env", "nohup", "nice", "ionice", "setsid", "stdbuf",
    "timeout", "time", "xargs", "busybox", "noglob", "nocorrect", "-",
}  # fmt: skip
"""Programs that run a command from their arguments."""
_OPAQUE = frozenset({
    "eval", "trap", "alias", "hash", "enable", "function", "coproc", "case", "repeat", "foreach", "mapfile",
    "readarray", "compgen", "script", "su", "runuser", "ssh", "watch", "parallel", "flock", "chroot", "taskset",
    "chrt", "strace", "ltrace", "unshare", "nsenter",
})  # fmt: skip
"""Programs that run others in ways not modelled here, or change the meaning of words."""
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_LOOKUP = re.compile(r"-p*[vV][pvV]*")
"""Options with which `command` describes a program and does not run it."""
_SCRIPT = re.compile(r"(?![-+])(?!.*/(?:stdin|fd/)).+", re.DOTALL)
"""A shell argument that is neither an option nor the standard input."""
_REPLACEMENT = re.compile(r"-[A-Za-z0-9]*I(?!\{\}$).*|-i.+|-J.*|--r.*", re.DOTALL)
"""Options of xargs that replace a word other than {} by the input."""
_DURATION = re.compile(r"\+?[0-9.]|inf|nan", re.IGNORECASE)
_UNKNOWN = "-"
"""Placeholder for an option that a shell expands or xargs adds."""


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    """The word without quotes."""
    open: int | None = None
    """Index in `text` of the first shell expansion, or None if there is none."""


@dataclass(frozen=True, slots=True)
class Program:
    words: Sequence[Word]
    text: str
    """The words, joined with one blank."""
    fed: bool
    """xargs adds more arguments."""
    clear: bool
    """These words cannot run any other program."""

    def may_begin(self, beginnings: Sequence[str]) -> bool:
        """Return whether the command may begin with one of `beginnings` (sorted) in a different spelling.

        A shell may expand words, and options may precede the next word.
        """
        known = before_options = None
        at = 0
        for word in self.words:
            if known is None and word.open is not None:
                known = self.text[: at + word.open]
            if before_options is None and at and word.text.startswith("-"):
                before_options = self.text[:at]
            at += len(word.text) + 1
        if known is None and self.fed:
            known = self.text
        if known is not None and known.startswith(tuple(beginnings)):
            return True
        for start in (known, before_options):
            if start is not None:
                after = bisect_right(beginnings, start)
                if after < len(beginnings) and beginnings[after].startswith(start):
                    return True
        return False

    def may_have_option(self, options: Mapping[str, Sequence[str]]) -> bool:
        """Return whether the command may have one of these options, at any position.

        `options` maps the first words of a command, with a blank at the end, to beginnings of options.
        """
        text = f"{self.text} "
        if not text.startswith(tuple(options)):
            return False
        own = [_UNKNOWN] if self.fed else []
        for word in self.words[1:]:
            if word.open == 0 or (word.open is not None and word.text.startswith("-")):
                own.append(_UNKNOWN)
            elif word.text.startswith("-") and word.text.strip("-"):
                own.append(word.text)
        return any(
            text.startswith(before)
            and any(_may_be_same_option(one, other) for one in wanted for other in own)
            for before, wanted in options.items()
        )


def _may_be_same_option(one: str, other: str) -> bool:
    """Return whether both may mean one option. Options may be shortened, joined (-rf), or have two names."""
    names = [option.lstrip("-") for option in (one, other)]
    if not all(names):
        return True
    if one.startswith("--") and other.startswith("--"):
        one, other = (name.partition("=")[0] for name in names)
        return one.startswith(other) or other.startswith(one)
    letters = [
        name[0] if option.startswith("--") else name for option, name in zip((one, other), names, strict=True)
    ]
    return not set(letters[0]).isdisjoint(letters[1])


@dataclass(frozen=True, slots=True)
class Scan:
    programs: Sequence[Program]
    complete: bool
    """A shell runs only `programs`."""
    candidates: Collection[str]
    """Other commands that may run, as words joined with one blank. Includes text that is only quoted."""


def is_one_program(command: str) -> bool:
    """Return whether a shell runs exactly one program with literal arguments.

    Quoted text is literal in every shell, unless an earlier comment hides a quote or a builtin evaluates a subscript.
    """
    if _HIDDEN.search(command) or _has_evaluated_subscript(
        _QUOTED.sub(lambda quote: quote.group()[1:-1], command)
    ):
        return False
    bare = _QUOTED.sub("", command)
    if _OPERATORS.search(bare) or _COMMENT.search(bare) or not is_printable(bare):
        return False
    name = bare.split(maxsplit=1)[:1]
    return name == ["["] or not any(_GLOB.search(word) for word in name)


def _has_evaluated_subscript(text: str) -> bool:
    """Return whether bash may run a part of this quoted text, as in test -v 'a[$(rm x)]'.

    A builtin that takes the text for the name of a variable evaluates the subscript.
    """
    subscript = _SUBSCRIPT.search(text)
    return subscript is not None and _EXPANSION.search(text, subscript.end()) is not None


def is_printable(text: str) -> bool:
    """Return whether `text` is free of control characters, invisible marks and look-alike blanks."""
    if text.isascii():
        return text.isprintable()
    return all(char == " " or unicodedata.category(char)[0] not in "CZ" for char in text)


def plain_words(command: str) -> str:
    """The words without quotes, joined with one blank."""
    spaced = command.replace("${IFS}", " ").replace("$IFS", " ")
    return " ".join(unicodedata.normalize("NFC", spaced).translate(_QUOTES).split())


def scan(command: str) -> Scan:
    """Find every program that `command` may run, in linear time."""
    commands = _read(command)
    programs = [program for words in commands or () for program in _programs(words)]
    complete = commands is not None and all(program.clear for program in programs)
    # Also split at operators inside quotes, because the text may be passed to another shell.
    parts = dict.fromkeys(_JOINS.split(command.replace("\\\n", "")))
    if len(parts) > _PARTS_MAX:
        parts, complete = {}, False
    candidates: dict[str, None] = {}
    for part in parts:
        for words in ([Word(text) for text in plain_words(part).split(" ")], *(_read(part) or ())):
            candidates |= {program.text: None for program in _programs(words)}
    return Scan(programs, complete, candidates)


def _read(command: str) -> list[list[Word]] | None:
    """The words of each joined command, without redirections, or None outside the plain part of the language."""
    if _HIDDEN.search(command) or len(_SPECIAL.findall(_QUOTED.sub("'", command))) > _SPECIAL_MAX:
        return None
    commands: list[list[Word]] = [[]]
    redirected = False
    at = 0
    while token := _TOKEN.match(command, at):
        at = token.end()
        kind = token.lastgroup
        if kind == "word":
            word = _word(token[0])
            if word is None:
                return None
            if not redirected:
                commands[-1].append(word)
        elif redirected and kind != "blank":
            return None
        elif kind == "end":
            commands.append([])
        if kind != "blank":
            redirected = kind == "redirect"
    if at < len(command) or redirected:
        return None
    texts = [[word.text for word in words] for words in commands]
    # zsh reads the words after `{` and `]]` as another command.
    if any("{" in words or "]]" in words[:-1] for words in texts):
        return None
    return None if _has_evaluated_subscript(" ".join(map(" ".join, texts))) else commands


def _word(source: str) -> Word | None:
    """Remove the quotes of a word. None for a comment and for characters that are not printable."""
    if source in ("[", "[["):
        return Word(source)
    if source.startswith("#"):
        return None
    text, opened = "", None
    for piece in _PIECES.findall(source):
        replaced = piece in _OPEN
        if piece[0] == "'":
            piece = piece[1:-1]
        elif piece[0] == '"':
            replaced = "$" in re.sub(r"\\.", "", piece)
            piece = _ESCAPED.sub(r"\1", piece[1:-1])
        elif piece[0] == "\\":
            piece = piece[1]
        elif not is_printable(piece):
            return None
        if replaced and opened is None:
            opened = len(text)
        text += piece
    return Word(text, opened)


def _programs(words: Sequence[Word]) -> Iterator[Program]:
    """The program of these words, and the programs it runs (as sudo, xargs and find do)."""
    texts = [word.text for word in words]
    runs = _FIND_RUNS | ({"do"} if {"for", "select"} & set(texts) else set())
    any_fed = any(text.rpartition("/")[2] == "xargs" for text in texts)
    starts = [(at + 1, any_fed) for at, text in enumerate(texts) if text in runs]
    starts.append((0, False))
    begun: set[int] = set()
    while starts:
        start, fed = starts.pop()
        if start in begun or start >= len(words):
            continue
        begun.add(start)
        word = words[start]
        assignment = _ASSIGNMENT.match(word.text)
        if assignment and (word.open is None or word.open >= assignment.end()):
            starts.append((start + 1, fed))
            continue
        name, rest = word.text.rpartition("/")[2], words[start + 1 :]
        wrapped, clear = _wrapped(name, rest) if name in _WRAPPERS else ([], True)
        clear = clear and word.open is None and _is_clear(word.text, name, rest) and len(begun) < _STARTS_MAX
        text = " ".join(texts[start:])
        yield Program(words[start:], text, fed, clear)
        if name != word.text:
            yield Program([Word(name), *rest], text[len(word.text) - len(name) :], fed, clear)
        if len(begun) >= _STARTS_MAX:
            return
        if word.text == "command" and rest and _LOOKUP.fullmatch(rest[0].text):
            continue
        if name in _KEYWORDS:
            wrapped.append(0)
        elif _REDIRECTION.match(word.text):
            wrapped += [0, 1]
        starts += [(start + 1 + offset, fed or name == "xargs") for offset in wrapped]


def _is_clear(path: str, name: str, arguments: Sequence[Word]) -> bool:
    """Return whether a program of this name runs only the arguments that `_wrapped` finds."""
    if path.startswith("=") or name in _OPAQUE:
        return False
    first = arguments[0].text if arguments else ""
    if name in _SHELLS:
        return _SCRIPT.fullmatch(first) is not None
    return not (name == "env" and first.startswith("-"))


def _wrapped(wrapper: str, words: Sequence[Word]) -> tuple[list[int], bool]:
    """Possible start indexes of the wrapped command, and whether its words are literal."""
    starts: list[int] = []
    option = ""
    clear = True
    for at, word in enumerate(words):
        if word.text.startswith("-") or not word.text:
            option = word.text or "-"
            replaced = words[at + 1].text if option.endswith("I") and at + 1 < len(words) else ""
            if wrapper == "xargs" and replaced != "{}" and _REPLACEMENT.fullmatch(option):
                clear = False
            continue
        if not (option.endswith("I") and word.text == "{}"):  # xargs -I {}
            starts.append(at)
        if not (option or "=" in word.text or _DURATION.match(word.text)):
            break
        option = ""
    return starts, clear

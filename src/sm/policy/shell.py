"""What a shell's command runs, as far as it can be seen: whether it is one program, and what else may be in it. Pure.

Whatever is not certain counts as more: a shell is not imitated here. `commands_in` finds more than there is, and
`programs_of` reads what is written plainly, or says that it cannot.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_PARTS_MAX = 2_000
_LEADING_MAX = 20
_TOKENS_MAX = 5_000

_QUOTED = re.compile(r"""'[^']*'|"[^"$`\\]*["]""")
_OPERATORS = re.compile(r"""[;&|<>()$`\\'"{]""")
"""What makes more of a shell's command than one program with its arguments, or hides what it is; a quote that is left
has no end, or holds something that is carried out.
"""
_SUBSCRIPT = re.compile(r"[A-Za-z0-9_]\[")
_WORKED_OUT = re.compile(r"\$[({\[]|`")
_WILD = re.compile(r"[*?\[]")
_COMMENT = re.compile(r"(?:^|\s)#")
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_SPLITS = re.compile(r"[;&|\n\r()`]+")
_ASSIGNED = re.compile(r"""\s*[A-Za-z_][A-Za-z0-9_]*\+?=(?:"[^"]*"|'[^']*'|[^\s"'])*(?=\s)""")
_REDIRECTED = re.compile(r"\s*[0-9]*(?:<>|>>|[<>])\s*[^\s<>]+(?=\s)")
_UNQUOTED = str.maketrans("", "", "'\"\\")
_KEYWORDS = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "{"})
"""The next word is a command."""
_WRAPPERS = frozenset({
    "sudo", "doas", "command", "builtin", "exec", "env", "nohup", "nice", "ionice", "setsid", "stdbuf", "timeout",
    "time", "xargs", "busybox", "noglob", "nocorrect", "-",
})  # fmt: skip
"""One of the next words is a command."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "source", "."})
_RUN_ANOTHER = _KEYWORDS | _WRAPPERS | _SHELLS | {"eval"}
"""Words before a command that is run all the same."""
_OPAQUE = frozenset({
    "eval", "trap", "alias", "hash", "enable", "function", "coproc", "case", "repeat", "foreach", "mapfile",
    "readarray", "compgen", "script", "su", "runuser", "ssh", "watch", "parallel", "flock", "chroot", "taskset",
    "chrt", "strace", "ltrace", "unshare", "nsenter",
})  # fmt: skip
"""What runs others in ways of its own, or makes words mean something else."""
_LOOKS_ONLY = re.compile(r"-p*[vV][pvV]*")
"""What makes `command` tell of a program instead of running it."""
_RUNS_OF_FIND = frozenset({"-exec", "-execdir", "-ok", "-okdir"})

_TOKEN = re.compile(
    r"""(?P<blank>[ \t]+)
    | (?P<nothing>(?<=[ \t])\\\n)
    | (?P<redirect>(?:&>>?|<>|>>|>\||[<>]&?)(?![<>&|!(]))
    | (?P<end>\|&|&&?|\|\|?|[;\n])
    | (?P<test>\[\[?(?=[ \t]))
    | (?P<plain>[^\ \t\n;&|<>()$`\\'"*?\[{^~\#]+)
    | \\(?P<escaped>[^\n])
    | '(?P<single>[^']*)'
    | "(?P<double>(?:[^"\\$`]|\\[^\n]|\$(?![({\[]))*)"
    | (?P<open>[*?\[{^~\#]|\$(?![({\['"`]))""",
    re.VERBOSE,
)
"""All that is looked through of a shell's language: neither (...), $(...), ${...}, $'...' and the like, nor <<."""
_ESCAPED = re.compile(r"""\\([$`"\\])""")
_ASSIGNS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_LIKE_A_NUMBER = re.compile(r"\+?[0-9.]|inf|nan", re.IGNORECASE)
_SCRIPT = re.compile(r"(?![-+])(?!.*/(?:stdin|fd/)).+", re.DOTALL)
"""What a shell gets that is neither an option nor what is piped to it."""
_REPLACES = re.compile(r"-[A-Za-z0-9]*I(?!\{\}$).*|-i.+|-J.*|--r.*", re.DOTALL)
"""An option of xargs that makes another word than {} stand for what it reads."""


class Opaque(Exception):
    """A command cannot be looked through, or has more parts, or more before a program, than are looked at."""


@dataclass(frozen=True, slots=True)
class Program:
    text: str
    """Its words without quotes, with one blank between them."""
    certain: str | None
    """The text up to what a shell works out; None: all of it."""
    ordered: str | None
    """The text up to the first option, where words from behind it may stand as well; None: it has no option."""
    options: tuple[str, ...]
    """Its options, wherever they stand; `-` is one that is not known, or that may be one."""

    def may_begin(self, starts: tuple[str, ...]) -> bool:
        """Whether it may be a command that begins with one of these, although it is not written so."""
        if self.certain is not None and self.certain.startswith(starts):
            return True
        return any(
            each.startswith(text) and (text == self.certain or each != text)
            for text in (self.certain, self.ordered)
            if text is not None
            for each in starts
        )

    def may_have(self, wanted: Mapping[str, Sequence[str]]) -> bool:
        """Whether it begins with such words and may have one of their options, at another place than is written.

        `wanted` has the beginnings of options by what is before them, which ends with a blank.
        """
        text = f"{self.text} "
        if not self.options or not text.startswith(tuple(wanted)):
            return False
        return any(
            text.startswith(before)
            and any(_alike(option, each) for option in options for each in self.options)
            for before, options in wanted.items()
        )


def _alike(one: str, other: str) -> bool:
    """Whether two options may be the same: shortened, several letters in one, or a letter for a long name."""
    names = [each.lstrip("-") for each in (one, other)]
    if not all(names):
        return True
    if one.startswith("--") and other.startswith("--"):
        one, other = (name.partition("=")[0] for name in names)
        return one.startswith(other) or other.startswith(one)
    letters = [
        name[0] if each.startswith("--") else name for each, name in zip((one, other), names, strict=True)
    ]
    return not set(letters[0]).isdisjoint(letters[1])


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    open: int | None
    """Where something begins that a shell works out."""


def one_program(command: str) -> bool:
    """Whether a shell runs one program with arguments, that are what one sees, and nothing else.

    What stands in quotes is text to every shell, as long as nothing before it is a comment, which would hide a quote,
    and no builtin works it out as the subscript of a variable.
    """
    if _HIDDEN.search(command) or _works_out_subscripts(
        _QUOTED.sub(lambda quote: quote.group()[1:-1], command)
    ):
        return False
    bare = _QUOTED.sub("", command)
    if _OPERATORS.search(bare) or _COMMENT.search(bare) or not printable(bare):
        return False
    name = bare.split(maxsplit=1)[:1]
    return name == ["["] or not any(_WILD.search(each) for each in name)


def _works_out_subscripts(text: str) -> bool:
    """Whether bash may carry out some of this although it was quoted, where a builtin takes it for the name of a
    variable, as in test -v 'a[$(rm x)]'.
    """
    subscript = _SUBSCRIPT.search(text)
    return subscript is not None and _WORKED_OUT.search(text, subscript.end()) is not None


def printable(text: str) -> bool:
    """Without controls, and without blanks and marks that look like others or like nothing."""
    if text.isascii():
        return text.isprintable()
    return all(each == " " or unicodedata.category(each)[0] not in "CZ" for each in text)


def commands_in(command: str) -> Iterator[str]:
    """Whatever could be run of a shell's command, each as words with one blank between them; also what stands in
    quotes, as another shell may get it. Raises Opaque.
    """
    parts = dict.fromkeys(_SPLITS.split(command))
    if len(parts) > _PARTS_MAX:
        raise Opaque
    for part in parts:
        for _ in range(_LEADING_MAX):
            leading = _ASSIGNED.match(part) or _REDIRECTED.match(part)
            if leading is None:
                break
            part = part[leading.end() :]
        else:
            raise Opaque
        yield from _run_by(words_of(part).split(" "))


def _run_by(words: Sequence[str]) -> Iterator[str]:
    """The command of these words, and the one that it runs, as `sudo rm x` does."""
    start, wrapped, unsure = 0, False, False
    yield " ".join(words)
    while start < min(len(words), _LEADING_MAX):
        word = words[start]
        name = word.rpartition("/")[2]
        if word == "command" and _LOOKS_ONLY.fullmatch(" ".join(words[start + 1 : start + 2])):
            return
        if name in _RUN_ANOTHER:
            wrapped, unsure = True, False
        elif wrapped and word.startswith("-"):
            unsure = True  # the next word may be what the option is about, or the command
        elif "=" not in word or not word.partition("=")[0].rstrip("+").isidentifier():
            yield " ".join([name, *words[start + 1 :]])
            if not unsure and not (wrapped and word[:1].isdigit()):
                return
            unsure = False
        start += 1
    if start < len(words):
        raise Opaque


def words_of(command: str) -> str:
    """Without quotes, and with one blank between words, however a shell was given them."""
    spaced = command.replace("${IFS}", " ").replace("$IFS", " ")
    return " ".join(unicodedata.normalize("NFC", spaced).translate(_UNQUOTED).split())


def programs_of(command: str) -> Iterator[Program]:
    """Every program that a shell runs for this command, if it is written plainly. Raises Opaque if it is not."""
    for words in _split(command):
        yield from _programs(words)


def _split(command: str) -> list[list[_Word]]:
    """The words of each command that is joined with others here; where a redirection leads to is none."""
    if _HIDDEN.search(command):
        raise Opaque
    commands: list[list[_Word]] = [[]]
    word: _Word | None = None
    redirected = False
    at = 0
    for _ in range(_TOKENS_MAX):
        token = _TOKEN.match(command, at)
        kind = token.lastgroup if token else None
        if kind in ("blank", "redirect", "end", None):
            if word is not None and kind == "redirect" and word.text.isdecimal() and not redirected:
                word = None  # the descriptor, as in 2>
            if word is not None and not redirected:
                commands[-1].append(word)
            redirected = redirected and word is None
            word = None
        if token is None or kind is None:
            break
        at = token.end()
        if kind in ("redirect", "end"):
            if redirected:
                raise Opaque
            redirected = kind == "redirect"
            if kind == "end":
                commands.append([])
        elif kind not in ("blank", "nothing"):
            word = _longer(word, kind, token[kind])
    if at < len(command) or redirected:
        raise Opaque
    return commands


def _longer(word: _Word | None, kind: str, piece: str) -> _Word:
    if word is None:
        if piece == "#" and kind == "open":
            raise Opaque  # a comment, in which a quote is none
        word = _Word("", None)
    elif kind == "test":
        kind = "open"
    if kind == "plain" and not printable(piece):
        raise Opaque
    works_out = kind == "open"
    if kind == "double":
        works_out = "$" in re.sub(r"\\.", "", piece)
        piece = _ESCAPED.sub(r"\1", piece)
    return _Word(word.text + piece, len(word.text) if works_out and word.open is None else word.open)


def _programs(words: Sequence[_Word]) -> Iterator[Program]:
    starts = [(0, False)]
    begun = set()
    texts = [word.text for word in words]
    # zsh takes what follows `{` and `]]` for another command.
    if "{" in texts or "]]" in texts[:-1] or _works_out_subscripts(" ".join(texts)):
        raise Opaque
    while starts:
        start, fed = starts.pop()
        if start in begun or start >= len(words):
            continue
        begun.add(start)
        if len(begun) > _LEADING_MAX:
            raise Opaque
        word = words[start]
        assigned = _ASSIGNS.match(word.text)
        if assigned and (word.open is None or word.open >= assigned.end()):
            starts.append((start + 1, fed))
            continue
        name = word.text.rpartition("/")[2]
        if word.open is not None or word.text.startswith("=") or name in _OPAQUE:
            raise Opaque
        rest = words[start + 1 :]
        yield _program([word, *rest], fed)
        if name != word.text:
            yield _program([_Word(name, None), *rest], fed)
        if name in _SHELLS and not (rest and _SCRIPT.fullmatch(rest[0].text)):
            raise Opaque
        if name == "env" and rest and rest[0].text.startswith("-"):
            raise Opaque
        if word.text == "command" and rest and _LOOKS_ONLY.fullmatch(rest[0].text):
            continue
        if name in _KEYWORDS:
            starts.append((start + 1, fed))
        elif name in _WRAPPERS:
            starts.extend((start + 1 + each, fed or name == "xargs") for each in _wrapped(name, rest))
        runs = {"do"} if name in ("for", "select") else _RUNS_OF_FIND
        starts.extend((start + 2 + at, fed) for at, each in enumerate(rest) if each.text in runs)


def _program(words: Sequence[_Word], fed: bool) -> Program:
    """`fed`: it gets more arguments than are written here."""
    text = " ".join(word.text for word in words)
    at, certain, ordered = 0, None, None
    options = ["-"] if fed else []
    for word in words[1:]:
        if word.open == 0 or (word.open is not None and word.text.startswith("-")):
            options.append("-")
        elif word.text.startswith("-") and word.text.strip("-"):
            options.append(word.text)
    for word in words:
        if certain is None and word.open is not None:
            certain = text[: at + word.open]
        if ordered is None and at and word.text.startswith("-"):
            ordered = text[:at]
        at += len(word.text) + 1
    return Program(text, text if fed and certain is None else certain, ordered, tuple(options))


def _wrapped(wrapper: str, words: Sequence[_Word]) -> Iterator[int]:
    """Where in these words the command may begin that the wrapper before them runs. Raises Opaque."""
    option = ""
    for at, word in enumerate(words):
        if word.text.startswith("-") or not word.text:
            option = word.text or "-"
            replaced = words[at + 1].text if option.endswith("I") and at + 1 < len(words) else ""
            if wrapper == "xargs" and replaced != "{}" and _REPLACES.fullmatch(option):
                raise Opaque
            continue
        if not (option.endswith("I") and word.text == "{}"):  # xargs -I {}
            yield at
        if not (option or "=" in word.text or _LIKE_A_NUMBER.match(word.text)):
            return
        option = ""

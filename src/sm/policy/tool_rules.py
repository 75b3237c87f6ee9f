"""Answers permissions by the rules of the configuration: `auto_allow` and `auto_deny` of an agent type. Pure.

A rule is `Tool`, or `Tool(PATTERN)` with `*` for any characters. An uncertain match allows nothing, and an uncertain
match of a deny rule leaves the decision to a person. Deny rules are no security boundary: a program has many names.
"""

import posixpath
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.programs import RuledTool, RuleKind, is_question, ruled_tools
from sm.core.text import overlong_marks, quoted
from sm.policy.patterns import UncertainMatch, matches, pieces_match
from sm.policy.shell import is_one_program, is_printable, plain_words, scan
from sm.policy.urls import denying_pattern, is_url_pattern, url_allowed

RULES_MAX = 100
RULE_MAX = 500
ARGUMENT_MAX = 65_536
"""A person decides about longer arguments."""
_QUOTE_MAX = 120

_TOOL = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
_SERVER = re.compile(r"mcp__[A-Za-z0-9_-]{1,90}__\*")
_REPLACED_IN_NAMES = re.compile(r"[^A-Za-z0-9_*-]")
"""claude replaces these characters by `_` in the names of MCP servers and their tools (2.1.197)."""


@dataclass(frozen=True, slots=True)
class Ruling:
    approved: bool
    rule: str
    """The text in the configuration."""
    why: str
    """The rule and the text it matched, for people."""


@dataclass(frozen=True, slots=True)
class Rule:
    text: str
    tool: str
    """The name of a tool, or `mcp__SERVER__*` for every tool of a server."""
    pattern: str | None
    """None for every use of the tool."""

    def names(self, tool: str) -> bool:
        return tool == self.tool or (self.tool.endswith("*") and tool.startswith(self.tool[:-1]))

    def surely_names(self, tool: str) -> bool:
        """Like `names`, but False if the server is ambiguous: mcp__a__b__c may also be tool c of server a__b."""
        rest = "" if tool == self.tool else tool[len(self.tool) - 1 :]
        return self.names(tool) and not rest.startswith("_") and "__" not in rest


@dataclass(frozen=True, slots=True)
class PathContext:
    """The directories to which relative paths refer."""

    working_dir: str
    """The current directory of the agent, for paths in arguments."""
    bases: tuple[str, ...] = ()
    """All names of the session's directory, for paths in rules, or empty to use `working_dir`."""

    @property
    def is_absolute(self) -> bool:
        return all(path.startswith("/") for path in (self.working_dir, *self.bases))

    def path(self, name: str) -> str:
        return _absolute(name, self.working_dir)

    def pieces(self, pattern: str) -> list[list[str]]:
        """Split a path pattern at its `*`, once for each base. A `*` in the name of a base is a literal character."""
        normal = posixpath.normpath(pattern)
        if normal.startswith("/"):
            return [_absolute(normal, "/").split("*")]
        first, *rest = normal.split("*")
        return [
            [_absolute(".", base)]
            if normal == "."
            else [f"{_absolute('.', base).rstrip('/')}/{first}", *rest]
            for base in self.bases or (self.working_dir,)
        ]


def _absolute(path: str, working_dir: str) -> str:
    """Does not follow symbolic links."""
    return "/" + posixpath.normpath(posixpath.join(working_dir, path)).lstrip("/")


@lru_cache(maxsize=1_000)
def parse_rule(text: str) -> Rule:
    """Raises ValueError. The message continues a sentence that begins with the config key."""
    if len(text) > RULE_MAX:
        raise ValueError(f"is longer than {RULE_MAX} characters")
    if any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in text):
        raise ValueError("must be one line without control characters")
    tool, opened, rest = text.partition("(")
    if opened and not rest.endswith(")"):
        raise ValueError("is not a valid rule: missing closing parenthesis, as in Bash(npm test *)")
    pattern = rest[:-1] if opened else None
    if _SERVER.fullmatch(tool):
        if pattern is not None:
            raise ValueError(f"is not a valid rule: {tool} does not accept a pattern")
        return Rule(text, tool, None)
    if tool.startswith("mcp__") and _REPLACED_IN_NAMES.search(tool):
        raise ValueError(f"is not a valid rule: claude names this tool {_REPLACED_IN_NAMES.sub('_', tool)}")
    if not _TOOL.fullmatch(tool):
        raise ValueError(
            "is not a valid rule: use a tool of claude, such as Read, Bash(npm test *) or mcp__SERVER__*"
        )
    if tool.startswith("mcp__") and "__" not in tool[5:]:
        raise ValueError(f"is not a tool: use {tool}__* for all tools of the server")
    if pattern is not None:
        _check_pattern(tool, pattern)
    return Rule(text, tool, pattern)


def _check_pattern(tool: str, pattern: str) -> None:
    known = ruled_tools()
    if tool not in known:
        raise ValueError(
            f"is not a valid rule: only {', '.join(known)} accept a pattern; use {tool} without one"
        )
    kind = known[tool].kind
    if not pattern.strip():
        raise ValueError(
            f"is not a valid rule: the pattern is empty; use {tool} to match every use of the tool"
        )
    if pattern != pattern.strip():
        raise ValueError("is not a valid rule: the pattern begins or ends with a space")
    if kind is RuleKind.COMMAND:
        if pattern.endswith(":*"):
            raise ValueError(
                f"is not a valid rule: the suffix `:*` is not supported; use {tool}({pattern[:-2]} *)"
            )
    elif kind is RuleKind.URL:
        if pattern.startswith("domain:"):
            raise ValueError(
                f"is not a valid rule: the pattern must match the whole URL; use {tool}(https://{pattern[7:]}/*)"
            )
        if not is_url_pattern(pattern):
            raise ValueError(
                f"is not a valid rule: the pattern must match the whole URL, as in {tool}(https://example.org/*)"
            )
    elif pattern.startswith("~"):
        raise ValueError("is not a valid rule: `~` is not expanded; use the full path")
    elif ".." in pattern.split("/"):
        raise ValueError("is not a valid rule: the path must not contain `..`")
    elif pattern.endswith("/"):
        raise ValueError(f"is not a valid rule: use {tool}({pattern}*) to match the files in a directory")


def evaluate(
    allow: Sequence[str],
    deny: Sequence[str],
    tool: str,
    arguments: Mapping[str, Any],
    place: PathContext,
    *,
    cut: bool,
) -> Ruling | None:
    """Decide about one use of a tool. Deny rules win. Returns None if no rule decides, so that a person must.

    Every rule must be valid for `parse_rule`. `cut`: the texts in `arguments` are truncated. The time is proportional
    to the size of rules and arguments.
    """
    denying = [rule for rule in map(parse_rule, deny) if rule.names(tool)]
    for rule in denying:
        if rule.pattern is None:
            return _ruling(rule)
    patterns = {rule.pattern: rule for rule in denying if rule.pattern is not None}
    try:
        denied = _denied([*patterns], tool, arguments, place) if patterns else None
    except UncertainMatch:
        return None
    if denied:
        pattern, text = denied
        return _ruling(patterns[pattern], text)
    if cut or is_question(tool) or not _is_plain(tool, arguments):
        return None
    ruled = ruled_tools().get(tool)
    command = None if ruled is None or ruled.kind is not RuleKind.COMMAND else arguments.get(ruled.argument)
    literal = command is not None and not is_one_program(command)
    for rule in map(parse_rule, allow):
        if not rule.surely_names(tool) or (literal and rule.pattern not in (None, command)):
            continue
        allowed = None if rule.pattern is None else _allowed(rule.pattern, tool, arguments, place)
        if rule.pattern is None or allowed is not None:
            return _ruling(rule, allowed, approved=True)
    return None


def _ruling(rule: Rule, text: str | None = None, *, approved: bool = False) -> Ruling:
    matched = "" if text is None else f" matches {quoted(text, _QUOTE_MAX)}"
    return Ruling(approved, rule.text, f"auto_{'allow' if approved else 'deny'}: {rule.text}{matched}")


def _is_plain(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether the arguments have types and sizes that an allow rule supports."""
    ruled = ruled_tools().get(tool)
    if ruled is None:
        return True
    main = arguments.get(ruled.argument)
    if ruled.kind is RuleKind.SEARCH and main is None:
        return True
    if not isinstance(main, str) or not main.strip() or len(main) > ARGUMENT_MAX:
        return False
    return ruled.unruled is None or not arguments.get(ruled.unruled)


# ------------------------------------------------------------------------------------------------------- allowed


def _allowed(pattern: str, tool: str, arguments: Mapping[str, Any], place: PathContext) -> str | None:
    """The text that the pattern matches. Requires `_is_plain` arguments."""
    ruled = ruled_tools()[tool]
    main: str = arguments.get(ruled.argument) or place.working_dir
    if ruled.kind in (RuleKind.COMMAND, RuleKind.URL) and main == pattern:
        return main
    if ruled.kind is RuleKind.COMMAND:
        return main if matches(pattern, main) else None
    if ruled.kind is RuleKind.URL:
        return main if url_allowed(pattern, main) else None
    if ruled.names is not None and not _stays_below(arguments.get(ruled.names)):
        return None
    if main.startswith("~") or main != main.strip() or not is_printable(main) or not place.is_absolute:
        return None
    path = place.path(main)
    names = [path, path.rstrip("/") + "/"] if ruled.kind is RuleKind.SEARCH else [path]
    return (
        path
        if any(pieces_match(pieces, name) for pieces in place.pieces(pattern) for name in names)
        else None
    )


def _stays_below(names: object) -> bool:
    """Return whether a search for this pattern finds only files below its start directory."""
    if not isinstance(names, str) or names.startswith(("/", "~")):
        return False
    return ".." not in names and "{" not in names and is_printable(names)


# -------------------------------------------------------------------------------------------------------- denied


def _denied(
    patterns: Sequence[str], tool: str, arguments: Mapping[str, Any], place: PathContext
) -> tuple[str, str] | None:
    """The first matching pattern and the matched text. Raises UncertainMatch."""
    ruled = ruled_tools()[tool]
    main = arguments.get(ruled.argument)
    if ruled.kind is RuleKind.SEARCH and main in (None, ""):
        main = place.working_dir
    if not isinstance(main, str) or len(main) > ARGUMENT_MAX:
        raise UncertainMatch
    names = None if ruled.names is None else arguments.get(ruled.names)
    for text in (main, names, place.working_dir):
        if isinstance(text, str) and not text.isascii() and overlong_marks(text) is not None:
            raise UncertainMatch  # Unicode normalization takes quadratic time in the number of marks
    if ruled.kind is RuleKind.COMMAND:
        return _denied_command(patterns, main)
    if ruled.kind is RuleKind.URL:
        pattern = denying_pattern(patterns, main)
        return None if pattern is None else (pattern, main.strip())
    return _denied_path(patterns, ruled, main.strip(), names, place)  # claude strips paths as well


def _denied_command(patterns: Sequence[str], command: str) -> tuple[str, str] | None:
    split = {pattern: pattern.split("*") for pattern in patterns}
    joined = command.replace("\\\n", "")
    scanned = scan(command)
    programs = scanned.programs
    texts = [
        command,
        joined,
        plain_words(joined),
        *scanned.candidates,
        *(program.text for program in programs),
    ]
    denied = _first_covered(split, texts)
    if denied:
        return denied
    beginnings = sorted({pieces[0] for pieces in split.values()})
    options: dict[str, list[str]] = {}
    for beginning in beginnings:
        before, dash, option = beginning.partition(" -")
        if dash:
            options.setdefault(f"{before} ", []).append(f"-{option.partition(' ')[0]}")
    if not scanned.complete or any(
        program.may_begin(beginnings) or program.may_have_option(options) for program in programs
    ):
        raise UncertainMatch
    return None


def _first_covered(patterns: Mapping[str, Sequence[str]], texts: Sequence[str]) -> tuple[str, str] | None:
    """The first split pattern that matches a text, and the text. `X *` also matches X without arguments."""
    everything = " ".join(texts)
    possible = {
        pattern: pieces
        for pattern, pieces in patterns.items()
        if pieces[0] or pieces[-1] or pieces_match(pieces, everything)
    }
    first = tuple({pieces[0] for pieces in possible.values()})
    last = tuple({pieces[-1] for pieces in possible.values()})
    for text in dict.fromkeys(texts):
        if f"{text} ".startswith(first) and text.endswith(last):
            for pattern, pieces in possible.items():
                if pieces_match(pieces, text) or (pieces[-1] == "" and pieces_match(pieces, f"{text} ")):
                    return pattern, text
    return None


def _denied_path(
    patterns: Sequence[str], tool: RuledTool, main: str, names: object, place: PathContext
) -> tuple[str, str] | None:
    if main.startswith("~") or not (main.startswith("/") or place.is_absolute):
        raise UncertainMatch
    path = place.path(main)
    paths = [path]
    if tool.kind is RuleKind.SEARCH:
        paths.append(path.rstrip("/") + "/")
    if tool.names is not None:
        if not isinstance(names, str) or names.startswith("~"):
            raise UncertainMatch
        paths.append(_absolute(names, path))
    paths = [_fold(name) for name in paths]
    uncertain = tool.names is not None and not _stays_below(names)
    for pattern in patterns:
        if not place.is_absolute and not pattern.startswith("/"):
            uncertain = True
            continue
        for pieces in ([_fold(piece) for piece in pieces] for pieces in place.pieces(pattern)):
            if any(pieces_match(pieces, name) for name in paths):
                return pattern, path
            # The search may find some of the denied files below its directory.
            uncertain = uncertain or (tool.kind is RuleKind.SEARCH and pieces[0].startswith(paths[1]))
    if uncertain:
        raise UncertainMatch
    return None


def _fold(path: str) -> str:
    """Normalize a path as a case-insensitive file system compares it."""
    return unicodedata.normalize("NFC", path).casefold()

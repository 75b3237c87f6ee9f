"""What the configuration answers by itself: `auto_allow` and `auto_deny` of an agent type. Pure.

A rule is `Tool`, or `Tool(PATTERN)` with `*` for anything. What is not certain is not allowed, and what a deny rule may
match neither; it is no wall all the same: there are more ways to a program than its name.
"""

import ipaddress
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sm.core.text import overlong_marks, quoted
from sm.policy.shell import Opaque, commands_in, one_program, printable, programs_of, words_of

RULES_MAX = 100
RULE_MAX = 500
LOOKED_AT_MAX = 65_536
"""A longer argument is left to a person."""
_QUOTE_MAX = 120

_MAIN: Mapping[str, str] = {
    "Bash": "command",
    "Read": "file_path",
    "Edit": "file_path",
    "Write": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
    "WebFetch": "url",
    "Grep": "path",
    "Glob": "path",
}
"""What a pattern is compared with, by tool."""
_FILES = frozenset({"Read", "Edit", "Write", "MultiEdit", "NotebookEdit"})
_TREES = frozenset({"Grep", "Glob"})
NEVER_ALLOWED = frozenset({"AskUserQuestion"})
"""A question needs an answer; yes is none."""

_TOOL = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
_SERVER = re.compile(r"mcp__[A-Za-z0-9_-]{1,90}__\*")

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_*-]")
"""What claude writes `_` for in the names of servers and their tools (2.1.197)."""
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
_HOST = re.compile(r"(?:[a-z0-9_-]+\.)*[a-z0-9_-]+")
_HOST_PATTERN = re.compile(r"(?=.)(?:[a-z0-9_.-]|[^\x00-\x7f]|\[[0-9a-f:.]*\]?)*(?:\*.*)?")
_PORT_PATTERN = re.compile(r"[0-9]*(?:\*.*)?")
_HOST_AND_PORT = re.compile(r"(.*?)\.?(?::0*([^:\]]*))?")
_ODD_PATH = re.compile(r"[^?#]*?(?:[%\\]|//|/\.|[^!-~])")
"""A server, or claude, may make another path of it."""
_PORTS = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True)
class Ruling:
    approved: bool
    rule: str
    """As the configuration has it."""
    why: str
    """Which rule matched what, in words for people."""


@dataclass(frozen=True, slots=True)
class Rule:
    text: str
    tool: str
    """A tool's name; `mcp__SERVER__*`: every tool of that server."""
    pattern: str | None
    """None: every use of the tool."""


@dataclass(frozen=True, slots=True)
class _Place:
    working_dir: str
    bases: tuple[str, ...]
    """What relative paths in rules are relative to: the same directory by each of its names."""

    @property
    def known(self) -> bool:
        return all(path.startswith("/") for path in (self.working_dir, *self.bases))


class _Unsure(Exception):
    """Whether a deny rule matches cannot be said."""


@lru_cache(maxsize=1_000)
def parsed(text: str) -> Rule:
    """A rule as somebody wrote it. Raises ValueError, whose words follow the name of the key."""
    if len(text) > RULE_MAX:
        raise ValueError(f"is longer than {RULE_MAX} characters")
    if any(unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp") for each in text):
        raise ValueError("must be one line without control characters")
    tool, opened, rest = text.partition("(")
    if opened and not rest.endswith(")"):
        raise ValueError("is no rule: the parenthesis is not closed, as in Bash(npm test *)")
    pattern = rest[:-1] if opened else None
    if _SERVER.fullmatch(tool):
        if pattern is not None:
            raise ValueError(f"is no rule: {tool} takes no pattern")
        return Rule(text, tool, None)
    if tool.startswith("mcp__") and _NOT_IN_A_NAME.search(tool):
        raise ValueError(
            f"is no rule: no tool has such a name; claude calls it {_NOT_IN_A_NAME.sub('_', tool)}"
        )
    if not _TOOL.fullmatch(tool):
        raise ValueError(
            "is no rule: a tool of claude as in Read, Bash(npm test *) or mcp__SERVER__*, case as claude has it"
        )
    if tool.startswith("mcp__") and "__" not in tool[5:]:
        raise ValueError(f"is no tool; all tools of that server are {tool}__*")
    if pattern is not None:
        _check_pattern(tool, pattern)
    return Rule(text, tool, pattern)


def _check_pattern(tool: str, pattern: str) -> None:
    if tool not in _MAIN:
        raise ValueError(f"is no rule: only {', '.join(_MAIN)} take a pattern; write {tool} alone")
    if not pattern.strip():
        raise ValueError(f"is no rule: its pattern is empty; every use of the tool is {tool} alone")
    if pattern != pattern.strip():
        raise ValueError("is no rule: its pattern begins or ends with a blank")
    if tool == "Bash" and pattern.endswith(":*"):
        raise ValueError(f"is no rule: `*` stands for anything by itself; write Bash({pattern[:-2]} *)")
    if tool == "WebFetch" and pattern.startswith("domain:"):
        raise ValueError(f"is no rule: it is compared with the URL; write WebFetch(https://{pattern[7:]}/*)")
    if tool == "WebFetch" and not (pattern == "*" or _AUTHORITY.match(pattern)):
        raise ValueError("is no rule: it is compared with the URL, as in WebFetch(https://example.org/*)")
    if tool in _FILES | _TREES:
        if pattern.startswith("~"):
            raise ValueError("is no rule: `~` is not expanded; write the whole path")
        if ".." in pattern.split("/"):
            raise ValueError("is no rule: its path must not hold `..`")
        if pattern.endswith("/"):
            raise ValueError(f"is no rule: what lies in a directory is {tool}({pattern}*)")


def ruling(
    allow: Sequence[str],
    deny: Sequence[str],
    tool: str,
    arguments: Mapping[str, Any],
    working_dir: str,
    cut: bool,
    *bases: str,
) -> Ruling | None:
    """What the rules say of this use of a tool; None: nothing, so a person decides. A deny rule wins.

    The rules are such that `parsed` accepts them. `working_dir` is where the agent is now, to which its paths are
    relative; those in rules are to each of `bases`, else to `working_dir`. `cut` says that texts in `arguments` are
    only beginnings. Takes time in proportion to rules and arguments.
    """
    at = _Place(working_dir, bases or (working_dir,))
    mine = [rule for rule in map(parsed, deny) if _names(rule.tool, tool)]
    try:
        for rule in mine:
            if rule.pattern is None:
                return Ruling(False, rule.text, f"auto_deny has {rule.text}")
        patterns = [(rule, rule.pattern) for rule in mine if rule.pattern is not None]
        denied = _denied(patterns, tool, arguments, at) if patterns else None
    except (_Unsure, Opaque):
        return None
    if denied:
        rule, matched = denied
        return Ruling(False, rule.text, _why("auto_deny", rule, matched))
    if cut or tool in NEVER_ALLOWED or not _plain(tool, arguments):
        return None
    for rule in _that_can_allow(allow, tool, arguments):
        if not _names(rule.tool, tool) or (rule.tool != tool and _is_ambiguous(tool[len(rule.tool) - 1 :])):
            continue
        if rule.pattern is None:
            return Ruling(True, rule.text, f"auto_allow has {rule.text}")
        found = _allowed(rule.pattern, tool, arguments, at)
        if found is not None:
            return Ruling(True, rule.text, _why("auto_allow", rule, found))
    return None


def _why(key: str, rule: Rule, matched: str) -> str:
    return f"{key} has {rule.text}, which matches {quoted(matched, _QUOTE_MAX)}"


def _names(named: str, tool: str) -> bool:
    return tool == named or (named.endswith("*") and tool.startswith(named[:-1]))


def _is_ambiguous(rest: str) -> bool:
    """Whether the name of an MCP tool could be that of a server with a longer name: mcp__a__b__c is c of a__b, too."""
    return rest.startswith("_") or "__" in rest


def _plain(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether the arguments are what this tool takes, so that a rule about it can speak of them."""
    if tool not in _MAIN:
        return True
    main = arguments.get(_MAIN[tool])
    if tool in _TREES and main is None:
        return True
    if not isinstance(main, str) or not main.strip() or len(main) > LOOKED_AT_MAX:
        return False
    # It would run outside of the sandbox that claude puts its commands into.
    return not (tool == "Bash" and arguments.get("dangerouslyDisableSandbox"))


def matches(pattern: str, text: str) -> bool:
    """Whether `text` is what the pattern says, whole; `*` is anything, also nothing."""
    return _fits(pattern.split("*"), text)


def _fits(pieces: Sequence[str], text: str) -> bool:
    """The pieces of a pattern between its `*`. No piece is ever tried at an earlier place again."""
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return text == first
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in pieces[1:-1]:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


# ------------------------------------------------------------------------------------------------------- allowed


def _allowed(pattern: str, tool: str, arguments: Mapping[str, Any], at: _Place) -> str | None:
    """What of the arguments matched; None: nothing did. The arguments are plain."""
    main = arguments.get(_MAIN[tool])
    if tool == "Bash":
        assert isinstance(main, str)
        return main if matches(pattern, main) or main == pattern else None
    if tool == "WebFetch":
        assert isinstance(main, str)
        return main if main == pattern or _url_fits(pattern, main) else None
    if main is None or main == "":
        main = at.working_dir
    if tool == "Glob" and not _stays_below(arguments.get("pattern")):
        return None
    if main.startswith("~") or main != main.strip() or not printable(main) or not at.known:
        return None
    path = _absolute(main, at.working_dir)
    found = [path, path.rstrip("/") + "/"] if tool in _TREES else [path]
    wanted = [_path_pieces(pattern, base) for base in at.bases]
    return path if any(_fits(pieces, each) for pieces in wanted for each in found) else None


def _that_can_allow(allow: Sequence[str], tool: str, arguments: Mapping[str, Any]) -> Iterator[Rule]:
    """The rules but for those whose wildcard this command is too much for."""
    command = arguments.get("command") if tool == "Bash" else None
    stands_alone = isinstance(command, str) and not one_program(command)
    for rule in map(parsed, allow):
        if not (stands_alone and rule.pattern is not None and rule.pattern != command):
            yield rule


def _url_fits(pattern: str, url: str) -> bool:
    """What stands for a host in the pattern is compared with the host only, and so is what comes after it."""
    if not url.isascii() or not url.isprintable() or re.search(r"[\s\\]", url):
        return False
    host, wanted = _AUTHORITY.match(url), _AUTHORITY.match(pattern)
    if host is None or "@" in host.group() or "/.." in url or re.search("%2e", url, re.IGNORECASE):
        return False
    if wanted is None:  # `*`
        return matches(pattern, url)
    head, rest = wanted.group().lower(), pattern[wanted.end() :]
    if head.endswith("*"):
        rest = rest or "*"
        if not head.endswith("//*"):
            head = head.rstrip("*")  # else https://example.org* would be https://example.org.somebody.else
    return matches(head, host.group().lower()) and matches(rest, url[host.end() :])


def _stays_below(pattern: object) -> bool:
    """Whether names that a search looks for lie below where it begins."""
    if not isinstance(pattern, str) or pattern.startswith(("/", "~")):
        return False
    return ".." not in pattern and "{" not in pattern and printable(pattern)


def _absolute(path: str, working_dir: str) -> str:
    """By its names alone: what a symbolic link on the way leads to is not looked at."""
    return "/" + posixpath.normpath(posixpath.join(working_dir, path)).lstrip("/")


def _path_pieces(pattern: str, base: str) -> list[str]:
    """The directory is no pattern, whatever its name is."""
    normal = posixpath.normpath(pattern)
    if normal.startswith("/"):
        return ("/" + normal.lstrip("/")).split("*")
    base = _absolute(".", base)
    if normal == ".":
        return [base]
    first, *rest = normal.split("*")
    return [f"{base.rstrip('/')}/{first}", *rest]


# -------------------------------------------------------------------------------------------------------- denied


def _denied(
    rules: Sequence[tuple[Rule, str]], tool: str, arguments: Mapping[str, Any], at: _Place
) -> tuple[Rule, str] | None:
    """The first rule that matches, and what. Raises _Unsure."""
    main = arguments.get(_MAIN[tool])
    if tool in _TREES and main in (None, ""):
        main = at.working_dir
    if not isinstance(main, str) or len(main) > LOOKED_AT_MAX:
        raise _Unsure
    names = arguments.get("pattern") if tool == "Glob" else None
    for text in (main, names, at.working_dir):
        if isinstance(text, str) and not text.isascii() and overlong_marks(text) is not None:
            raise _Unsure  # to put them in order takes the square of their number
    if tool == "Bash":
        return _command_denied(rules, main)
    if tool == "WebFetch":
        return _url_denied(rules, main)
    return _path_denied(rules, tool, main, arguments, at)


def _command_denied(rules: Sequence[tuple[Rule, str]], command: str) -> tuple[Rule, str] | None:
    split = [(rule, pattern.split("*")) for rule, pattern in rules]
    joined = command.replace("\\\n", "")
    for text in dict.fromkeys((command, joined, words_of(joined))):
        for rule, pieces in split:
            if _covers(pieces, text):
                return rule, text
    begins = tuple({pieces[0] for _, pieces in split})
    # What begins and ends with `*` would have been found in the whole.
    rest = [(rule, pieces) for rule, pieces in split if pieces[0] or pieces[-1]]
    if rest:
        found = _first_covered(rest, commands_in(joined))
        if found is not None:
            return found
    programs = list(programs_of(command))
    found = _first_covered(split, (program.text for program in programs))
    if found is not None:
        return found
    optional: dict[str, list[str]] = {}
    for begin in begins:
        before, dash, option = begin.partition(" -")
        if dash:
            optional.setdefault(f"{before} ", []).append(f"-{option.partition(' ')[0]}")
    if any(program.may_begin(begins) or program.may_have(optional) for program in programs):
        raise _Unsure
    return None


def _first_covered(
    rules: Sequence[tuple[Rule, Sequence[str]]], commands: Iterable[str]
) -> tuple[Rule, str] | None:
    begins = tuple({pieces[0] for _, pieces in rules})
    ends = tuple({pieces[-1] for _, pieces in rules})
    for command in commands:
        if f"{command} ".startswith(begins) and command.endswith(ends):
            for rule, pieces in rules:
                if _covers(pieces, command):
                    return rule, command
    return None


def _covers(pieces: Sequence[str], command: str) -> bool:
    """Whether a deny rule matches: `X *` also means X with nothing more."""
    return _fits(pieces, command) or (pieces[-1] == "" and _fits(pieces, f"{command} "))


def _url_denied(rules: Sequence[tuple[Rule, str]], url: str) -> tuple[Rule, str] | None:
    """As it is written, and however the same page is spelled; claude makes https of http itself. Raises _Unsure, also
    for others' ports.
    """
    url = url.strip()
    head, rest = _url_halves(url)
    for rule, pattern in rules:
        start, behind = _url_halves(pattern)
        if matches(pattern, url) or matches(start.lower() + behind, head.lower() + rest):
            return rule, url
    scheme, host, port = _url_head(head)
    port = port or _PORTS.get(scheme, "")
    rest = rest if rest.startswith("/") else f"/{rest}"
    pages = {(scheme, port)}
    if scheme == "http":
        pages.add(("https", _PORTS["https"] if port == _PORTS["http"] else port))
    without_port = (host + rest, host) if rest == "/" else (host + rest,)
    odd = _ODD_PATH.match(rest) is not None
    unsure = "\\" in head or not _is_plain(scheme, host, port)
    for rule, pattern in rules:
        start, behind = _url_halves(pattern)
        wanted_scheme, wanted_host, wanted_port = _url_head(start)
        usual = _PORTS.get(wanted_scheme, "")
        # Its last `*` before a path may stand for a port, or for what is behind one, too.
        wanted = f"{wanted_host}{wanted_port and f':{wanted_port}'}{behind}"
        elsewhere = any(matches(wanted_host + behind, text) for text in without_port)
        ports = [
            each
            for each in dict.fromkeys((port, usual, *(port for _, port in pages)))
            if (elsewhere and matches(wanted_port or usual, each)) or matches(wanted, f"{host}:{each}{rest}")
        ]
        if any((wanted_scheme, each) in pages for each in ports):
            return rule, url
        unsure = (
            unsure
            or (bool(usual or wanted_port) and bool(ports))
            or (odd and matches(wanted_host, host))
            or ("xn--" in host and not wanted_host.isascii())
            or not (_HOST_PATTERN.fullmatch(wanted_host) and _PORT_PATTERN.fullmatch(wanted_port))
        )
    if unsure:
        raise _Unsure
    return None


def _url_halves(url: str) -> tuple[str, str]:
    """Scheme and host with all around it, and the rest."""
    found = _AUTHORITY.match(url)
    return (found.group(), url[found.end() :]) if found else ("", url)


def _url_head(head: str) -> tuple[str, str, str]:
    """Scheme, host and port, of a URL or a pattern, without what makes no difference."""
    scheme, _, authority = head.lower().partition("://")
    parts = _HOST_AND_PORT.fullmatch(authority.rpartition("@")[2])
    return (scheme, parts.group(1), parts.group(2) or "") if parts else (scheme, "", "")


def _is_plain(scheme: str, host: str, port: str) -> bool:
    """Whether all clients read it in the same way."""
    if scheme not in _PORTS or not _HOST.fullmatch(host) or not re.fullmatch("[0-9]{1,5}", port):
        return False
    if re.fullmatch("[0-9]+|0x.*", host.rpartition(".")[2]):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            return False
    return True


def _path_denied(
    rules: Sequence[tuple[Rule, str]], tool: str, main: str, arguments: Mapping[str, Any], at: _Place
) -> tuple[Rule, str] | None:
    main = main.strip()  # as claude does
    if main.startswith("~") or not (main.startswith("/") or at.known):
        raise _Unsure
    path = _absolute(main, at.working_dir)
    candidates = [path]
    if tool in _TREES:
        candidates.append(path.rstrip("/") + "/")
    if tool == "Glob":
        names = arguments.get("pattern")
        if not isinstance(names, str) or names.startswith("~"):
            raise _Unsure
        candidates.append(_absolute(names, path))
    unsure = False
    for rule, pattern in rules:
        if not at.known and not pattern.startswith("/"):
            unsure = True
            continue
        for base in at.bases:
            pieces = [_folded(piece) for piece in _path_pieces(pattern, base)]
            if any(_fits(pieces, _folded(each)) for each in candidates):
                return rule, path
            # It searches a directory in which something of what is denied lies.
            unsure = unsure or (tool in _TREES and pieces[0].startswith(_folded(candidates[1])))
    if unsure or (tool == "Glob" and not _stays_below(arguments.get("pattern"))):
        raise _Unsure
    return None


def _folded(path: str) -> str:
    """As a file system compares that takes no notice of case."""
    return unicodedata.normalize("NFC", path).casefold()

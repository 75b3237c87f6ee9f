"""Only providers/claude uses claude's words, and there the patterns of readers have none: they are in its dialect.

ALLOWED and OWN_PATTERNS list the exceptions with their reasons.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import sm
from sm.providers.claude.hooks import EVENTS

SOURCE = Path(sm.__file__).parent
CLAUDE_ROOM = SOURCE / "providers" / "claude"
ANY = {"any"}
"""Every word is allowed."""
ALLOWED: dict[str, tuple[str, set[str]]] = {
    "providers/__init__.py": (
        "the registry",
        {
            *("claude", "_claude", "_claude_check", "ClaudeCheck", "CLAUDE_CONFIG_DIR"),
            *("sm.providers.claude", "sm.providers.claude.check.contracts"),
        },
    ),
    "config/__init__.py": ("exports the section", {"Claude"}),
    "config/model.py": ("the section `claude` and what it may hold", ANY),
    "config/fields.py": ("the kinds of fields of the section, with examples", {"Bash", "claude"}),
    "config/loading.py": ("finds mistakes in the section, and its files", {"claude", "claude.toml"}),
    "config/example.py": ("shows the section", {"claude-sonnet"}),
    "config/definitions.py": (
        "its messages name a key of the section and give a tool as an example",
        {"claude.agent_configs", "Bash"},
    ),
    "config/sandbox.py": (
        "protects files that claude executes, and refuses its variable",
        {".claude", "CLAUDE_CODE_SANDBOXED"},
    ),
    "policy/mounts.py": ("refuses to mount the directory of claude's user", {".claude"}),
    "policy/rules.py": ("`auto_allow` and `auto_deny` of the section are about claude's tools", ANY),
    "policy/shell.py": ("as rules.py", ANY),
    "wire.py": ("a member of the messages of its MCP client", {"claudecode"}),
    "api/answers/sessions.py": ("documents what stands on the wire", {"claude"}),
    "api/routes/agents.py": ("a parameter on the wire", {"claude_config_dir", "CLAUDE_CONFIG_DIR"}),
    "api/routes/sandbox.py": ("documents what stands on the wire", {"claude"}),
    "cli/commands/sandbox.py": ("the programs that an image can have", {"claude"}),
    "sandboxes/docker/build.py": ("the programs that an image can have", {"claude", "CLAUDE"}),
    "sessions/sandboxing.py": (
        "starts the login of a program of the image",
        {"claude", "CLAUDE_CODE_SANDBOXED"},
    ),
    "cli/__init__.py": ("the help of `sm trust`", {"claude"}),
    "cli/commands/spawn.py": ("the help of --preset names a key of the section", {"claude.presets"}),
    "cli/mcp/client_config.py": (
        "the clients of `sm mcp --print-config`",
        {".claude.json", "_claude", "claude"},
    ),
    "cli/hook/formats.py": ("registers `sm hook claude`", {"claude", "PermissionRequest"}),
    "core/request_lines.py": ("a request on the wire does not say that it is a plan", {"ExitPlanMode"}),
}
"""By module: the reason, and the allowed words."""
NAMED = re.compile(r"[\w.-]*claude[\w.-]*", re.IGNORECASE)
TOOLS = (
    "AskUserQuestion ExitPlanMode MultiEdit NotebookEdit WebFetch WebSearch TodoWrite Bash BashOutput".split()
)
ALSO_ENGLISH = {"Read", "Edit", "Write", "Glob", "Grep", "Skill", "Stop", "Notification"}
"""Tools and events that are also English words: they count only if they are the whole text."""
UNMISTAKABLE = re.compile(rf"\b(?:{'|'.join({*TOOLS, *EVENTS} - ALSO_ENGLISH)})\b")


MENTION = re.compile(rf"claude|{UNMISTAKABLE.pattern}|[\"'](?:{'|'.join(ALSO_ENGLISH)})[\"']", re.IGNORECASE)
"""Found in every module with a word of claude: the others need not be parsed."""


def words_of(text: str) -> Iterator[str]:
    """Words of claude in an identifier or a text."""
    yield from (name.rstrip(".") for name in NAMED.findall(text))
    yield from UNMISTAKABLE.findall(text)


def words_in(tree: ast.AST) -> Iterator[str]:
    """Words of claude in the identifiers and string constants of a module, except docstrings."""
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield from {text} & ALSO_ENGLISH
                yield from words_of(text)
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text) | ast.alias(name=text):
                yield from words_of(text)
            case ast.ClassDef(name=text) | ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text):
                yield from words_of(text)
            case ast.keyword(arg=str(text)) | ast.ImportFrom(module=str(text)):
                yield from words_of(text)
            case _:
                pass


def words_by_module() -> dict[str, set[str]]:
    words: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        if CLAUDE_ROOM in path.parents or not MENTION.search(text := path.read_text()):
            continue
        if used := set(words_in(ast.parse(text))):
            words[str(path.relative_to(SOURCE))] = used
    return words


def test_words_of_claude_are_used_only_in_providers_claude_and_allowed_modules() -> None:
    used = words_by_module()
    for path, (_, words) in ALLOWED.items():
        if words is ANY:
            used.pop(path, None)
    assert used == {path: words for path, (_, words) in ALLOWED.items() if words is not ANY}


def test_words_in_finds_words_in_names_and_texts_but_not_in_docstrings() -> None:
    source = """
'''A module of claude.'''
import sm.providers.claude.plan as plan
X = 1
'''The Bash of claude.'''
def of_claude(stop, Stop): return stop["Stop"], stop["do not Stop"], f"{stop} uses Bash(ls)", CLAUDE_X
"""
    assert sorted(words_in(ast.parse(source))) == [
        "Bash",
        "CLAUDE_X",
        "Stop",
        "of_claude",
        "sm.providers.claude.plan",
    ]


# --------------------------------------------------------------------------------- the readers of claude's words

READERS = (
    *("box_reader.py", "facts.py", "faults.py", "hooks.py", "pasted_text.py", "reset_time.py", "state.py"),
    *("screen/box.py", "screen/dialog.py", "screen/ending.py", "screen/reading.py", "screen/rows.py"),
    *("screen/start_dialog.py", "todos.py", "transcript.py", "background.py"),
)
OWN_PATTERNS: dict[str, tuple[str, set[str]]] = {
    "pasted_text.py": ("suffixes of images", {"gif", "jpe", "png", "webp"}),
    "screen/dialog.py": (
        "names of keys",
        {"esc", "ape", "enter", "return", "space", "tab", "shift", "ctrl", "any", "key", "keys"},
    ),
    "screen/ending.py": (
        "lines of tmux, of a shell and of sm",
        {"Pane", "dead", "the", "agent", "has", "ended", "exit"},
    ),
}
"""By reader: the reason, and the words in its patterns."""


def patterns_in(tree: ast.AST) -> Iterator[str]:
    """The constant parts of the regular expressions of a module."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re")), args=[pattern, *_]):
                for part in ast.walk(pattern):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield part.value
            case _:
                pass


NO_WORDS = re.compile(r"\\.|\(\?P<\w+>|\[[^\]]*\]|\{[^}]*\}")
"""Escapes, names of groups, sets of characters and counts."""


def test_patterns_of_readers_have_no_words_of_claude() -> None:
    found = {}
    for name in READERS:
        patterns = patterns_in(ast.parse((CLAUDE_ROOM / name).read_text()))
        words = {word for text in patterns for word in re.findall(r"[A-Za-z]{3,}", NO_WORDS.sub(" ", text))}
        if words:
            found[name] = words
    assert found == {name: words for name, (_, words) in OWN_PATTERNS.items()}

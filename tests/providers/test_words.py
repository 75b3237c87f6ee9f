"""Only the package of an agent CLI or an engine uses its words, and the package of claude has its own in its dialect.

ALLOWED and OWN_PATTERNS list the exceptions with their reasons.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import sm
from sm import registry
from sm.providers.claude.hooks import EVENTS

SOURCE = Path(sm.__file__).parent
CLAUDE_ROOM = SOURCE / "providers" / "claude"
ALLOWED: dict[str, tuple[str, set[str]]] = {
    "registry.py": (
        "the registries",
        {
            *("claude", "sm.providers.claude", "codex", "sm.providers.codex"),
            *("docker", "sm.sandboxes.docker"),
        },
    ),
    "capabilities/completion/rules/words/english.py": ("words of final messages", {"docker", "dockeri"}),
    "config/fields.py": ("the kinds of fields of the section, with examples", {"Bash", "claude"}),
    "config/definitions.py": (
        "its messages name a key of the section and give a tool as an example",
        {"claude.agent_configs", "Bash"},
    ),
    "policy/tool_rules.py": ("its messages give tools as examples", {"Bash", "claude"}),
    "cli/group.py": ("the help of `sm trust`", {"claude"}),
    "cli/display/patch_syntax.py": (
        "a language, and the files that are written in it",
        {"docker", "dockerfile"},
    ),
    "cli/commands/spawn.py": ("the help of --preset names a key of the section", {"claude.presets"}),
}
"""By module: the reason, and the allowed words."""
PACKAGES = {
    name: SOURCE.joinpath(*package.split(".")[1:])
    for name, package in {**registry.PROVIDERS, **registry.ENGINES}.items()
    if name != "command"  # an English word, and any program
}
"""The folder of each package of the registries."""
NAMED = re.compile(rf"[\w.-]*(?:{'|'.join(PACKAGES)})[\w.-]*", re.IGNORECASE)
TOOLS = (
    "AskUserQuestion ExitPlanMode MultiEdit NotebookEdit WebFetch WebSearch TodoWrite Bash BashOutput".split()
)
ALSO_ENGLISH = {"Read", "Edit", "Write", "Glob", "Grep", "Skill", "Stop", "Notification"}
"""Tools and events that are also English words: they count only if they are the whole text."""
UNMISTAKABLE = re.compile(rf"\b(?:{'|'.join({*TOOLS, *EVENTS} - ALSO_ENGLISH)})\b")


MENTION = re.compile(
    rf"{'|'.join(PACKAGES)}|{UNMISTAKABLE.pattern}|[\"'](?:{'|'.join(ALSO_ENGLISH)})[\"']", re.IGNORECASE
)
"""Found in every module with a word of a package: the others need not be parsed."""


def words_of(text: str) -> Iterator[str]:
    """Words of a package in an identifier or a text."""
    yield from (name.rstrip(".") for name in NAMED.findall(text))
    yield from UNMISTAKABLE.findall(text)


def words_in(tree: ast.AST) -> Iterator[str]:
    """Words of a package in the identifiers and string constants of a module, except docstrings."""
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
        if not MENTION.search(text := path.read_text()):
            continue
        own = next((name for name, folder in PACKAGES.items() if folder in path.parents), None)
        used = set(words_in(ast.parse(text)))
        if own is not None:
            used = {word for word in used if any(name in word.lower() for name in PACKAGES if name != own)}
        if used:
            words[str(path.relative_to(SOURCE))] = used
    return words


def test_words_of_a_package_are_used_only_in_it_and_in_allowed_modules() -> None:
    assert words_by_module() == {path: words for path, (_, words) in ALLOWED.items()}


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
    *("todos.py", "transcript.py", "background.py"),
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

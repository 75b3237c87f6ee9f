"""The list of errors in docs/reference/errors.md: `python -m tests.error_list` writes it.

Reads every call of an error class in src/sm. A message that is assembled elsewhere is listed in PASSED_ON; any other
message without words of its own raises AssertionError, so that no error is missing from the list.
"""

import ast
import functools
import importlib
import itertools
import math
import pkgutil
import re
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from types import EllipsisType, NoneType
from typing import Any

import sm
from sm.errors import BY_CODE, SmError
from sm.operations import hints
from sm.operations.hints import Hint

DOCUMENT = Path("docs/reference/errors.md")
HEAD = """# Errors

<!-- written by: python -m tests.error_list -->

Every error has a code, an HTTP status and an exit code. `<...>` stands for a value. Each line is the message, and
after the arrow the hint of the command. With `--json` an error is `{"error": {"code", "message", "hint"}}` on stderr.
Mistakes in config.yaml are shown by `sm config --check`.
"""
PASSED_ON = {
    "sm/api/body.py:of": "<field> <mistake>",
    "sm/cli/display/errors.py:_usage_error": "<message of the command line parser>",
    "sm/cli/display/errors.py:print_error": "<file or the system>: <reason>",
    "sm/cli/instance.py:__call__": "<message of the lost connection>",
    "sm/capabilities/worktrees/git/calls.py:_done": "<message of git>",
    "sm/capabilities/worktrees/git/long_commands.py:git_with_progress": "<message of git>",
    "sm/cli/config_editor.py:_edit_until_valid": "<path>:<line>:<column>: <key>: <mistake>",
    "sm/cli/commands/spawn.py:explain": "unknown agent type <name>",
    "sm/client/http.py:__exit__": "the daemon closed the connection during its answer",
    "sm/client/http.py:refusal_of": "<message of the daemon>",
    "sm/config/definitions.py:_document": "<line>:<column>: <mistake in the YAML>",
    "sm/config/definitions.py:read_definition": "<line>:<column>: <key>: <mistake>",
    "sm/config/loading.py:load_config": "<path>:<line>:<column>: <key>: <mistake>",
    "sm/config/rules_file.py:load": "<path>:<line>:<column>: <mistake>",
    "sm/config/rules_file.py:parse_rules": "<path>:<line>:<column>: <mistake>",
    "sm/daemon/start_effects.py:start": "cannot run <program>: <reason>",
    "sm/providers/claude/dialect/loading.py:load_own": "<path>: <mistake in a fact>",
    "sm/sessions/spawn_options.py:mode": "unknown lifecycle mode '<mode>': use auto, manual or supervised",
    "sm/capabilities/pairing/pairings.py:_level": "unknown trust level <value>: use sandboxed or direct",
    "sm/sessions/restore.py:_give_up_sandbox": "unknown trust level <value>: use sandboxed or direct",
    "sm/sessions/workspaces.py:_lifecycle": "unknown lifecycle mode '<mode>': use auto, manual or supervised",
    "sm/sandboxes/docker/start_report.py:explained": "cannot run <program>: <reason>",
    "sm/sessions/effective_mode.py:decide": "unknown trust level <value>: use sandboxed or direct",
    "sm/sessions/starts.py:_wait_for_process": "<reason why the agent did not start>",
    "sm/sessions/workspaces.py:_trust": "unknown trust level <value>: use sandboxed or direct",
    "sm/terminals/tmux/adopt.py:look": "<message of tmux>",
    "sm/terminals/tmux/control.py:_close": "<message of tmux>",
    "sm/terminals/tmux/control.py:_fail": "<message of tmux>",
    "sm/terminals/tmux/control.py:_send": "<message of tmux>",
    "sm/terminals/tmux/control.py:wait_attached": "<message of tmux>",
    "sm/web/settings.py:read_settings": "<path>:<line>:<column>: <key>: <mistake>",
    "sm/web/app.py:_check_page": "the request comes from another <origin or site>",
    "sm/web/app.py:_answer": "this host is not in the list",
    "sm/web/acts.py:_words": "<field>: <mistake>",
}
"""Functions (file:name) whose message comes from elsewhere, and its text in the list."""
_VALUES = {
    **dict.fromkeys(("strerror", "error", "message"), "reason"),
    **dict.fromkeys(("now", "known", "target"), "session"),
    **dict.fromkeys(("geteuid", "uid"), "user id"),
    **dict.fromkeys(("describe", "subject"), "caller"),
    "pid": "process id",
    "ref": "name",
}
"""Plain words for names in the code."""
_FILLERS = {
    "str",
    "folded",
    "line",
    "repr",
    "plural",
    "quoted",
    "_shown",
    "shown",
    "label",
    "short_label",
    "name_to_type",
    "lower",
    "strip",
    "hex",
    "join",
    "sorted",
}
"""Calls that show their argument."""
_ALTERNATIVES_MAX = 12
_LEAVES = {str, bytes, int, float, complex, bool, NoneType, EllipsisType, ast.Load, ast.Store, ast.Del}


def classes() -> Mapping[str, type[SmError]]:
    """Every error class by its name, also those that other modules define."""
    for module in pkgutil.walk_packages(sm.__path__, "sm."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)

    def below(error: type[SmError]) -> Iterator[type[SmError]]:
        yield error
        for sub in error.__subclasses__():
            yield from below(sub)

    return {error.__name__: error for error in below(SmError)}


class Texts:
    """Renders the expressions of one function as texts with placeholders."""

    def __init__(self, function: ast.AST, module: ast.Module, name: str) -> None:
        self._names = vars(importlib.import_module(name))
        self._assigned: dict[str, list[ast.expr]] = defaultdict(list)
        for node in (*ast.walk(function), *module.body):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self._assigned[node.targets[0].id].append(node.value)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [a.arg for a in function.args.args if a.arg not in ("self", "tx")]
            for call in _calls_by_words(module).get(_words(ast.Name(function.name)), ()):
                for name, value in zip(names, call.args, strict=False):
                    if _is_text(value) and " " in ast.unparse(value):
                        self._assigned[name].append(value)

    def of(self, value: ast.expr | None) -> list[str]:
        """The alternatives of a message or a hint; an empty text for None."""
        match value:
            case None | ast.Constant(value=None):
                return [""]
            case ast.Constant(value=float(number)):
                return [f"{number:g}"]
            case ast.Constant(value=int(number)):
                return [str(number)]
            case ast.Constant(value=str(text)):
                return [text]
            case ast.JoinedStr():
                parts = [self.of(part) for part in value.values]
                if math.prod(map(len, parts)) > _ALTERNATIVES_MAX:
                    parts = [
                        part if len(part) == 1 else [f"<{_words(expression)}>"]
                        for part, expression in zip(parts, value.values, strict=True)
                    ]
                return ["".join(part) for part in itertools.product(*parts)]
            case ast.FormattedValue():
                return self.of(value.value)
            case ast.IfExp():
                texts = list(dict.fromkeys((*self.of(value.body), *self.of(value.orelse))))
                return [max(texts, key=len)] if max(map(len, texts)) <= 3 else texts  # is or are
            case ast.Call(func=ast.Name(id="plural"), args=[_, ast.Constant(value=str(noun))]):
                return [f"<number> {noun}s"]
            case ast.Call(func=ast.Name(id="Hint" | "Use" | "Argument" as made), args=parts):
                return self._hints(made, parts)
            case ast.Name(id=name) if isinstance(self._names.get(name), Hint):
                return [self._names[name]]
            case ast.BinOp(op=ast.Add()) if _is_text(value.left):
                return [a + b for a in self.of(value.left) for b in self.of(value.right)]
            case ast.Name(id=name) if name in self._assigned:
                values = self._assigned.pop(name)  # a value may contain an earlier value of the same name
                read = [text for v in values if _is_text(v) for text in self.of(v)]
                unread = not all(_is_text(v) or _is_none(v) for v in values)
                self._assigned[name] = values
                return list(dict.fromkeys([*read, *([f"<{_words(value)}>"] if unread or not read else [])]))
            case _:
                return [f"<{_words(value)}>"]

    def _hints(self, made: str, parts: Sequence[ast.expr]) -> list[Any]:
        """The alternatives of a hint, or of a reference in one."""
        first = [self._names[parts[0].id]] if made == "Use" and isinstance(parts[0], ast.Name) else None
        read = [first or self.of(parts[0]), *map(self.of, parts[1:])] if parts else []
        return [getattr(hints, made)(*texts) for texts in itertools.product(*read)]

    def classes(self, called: ast.expr) -> list[str]:
        """The names of the classes that a call may make."""
        match called:
            case ast.Name(id=name):
                choices = [v for v in self._assigned.get(name, ()) if isinstance(v, ast.IfExp)]
                return [name] if not choices else [n for choice in choices for n in self.classes(choice)]
            case ast.Attribute(attr=name):
                return [name]
            case ast.IfExp(body=ast.Name(id=first), orelse=ast.Name(id=second)):
                return [first, second]
            case _:
                return []


def _is_text(value: ast.expr) -> bool:
    return (
        isinstance(value, ast.JoinedStr | ast.IfExp | ast.BinOp)
        or _is_hint(value)
        or (isinstance(value, ast.Constant) and isinstance(value.value, str | int | float))
    )


def _is_hint(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "Hint"


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _words(value: ast.expr) -> str:
    """A name for a value in plain words."""
    match value:
        case ast.Attribute(attr="id" | "slug" | "name" | "pane_id" as attr, value=ast.Name(id=owner)):
            return f"{_words(ast.Name(owner))} {attr.removeprefix('pane_')}"
        case ast.Name(id=name) | ast.Attribute(attr=name):
            plain = re.sub(r"(_max|_min)?(_s|_bytes)?$", "", name.strip("_").lower()).replace("_", " ")
            return _VALUES.get(plain, plain)
        case ast.Call(func=ast.Name(id="len"), args=[of]):
            return f"number of {_words(of)}"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[of, *_]) if name in _FILLERS:
            return _words(of)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self" | "os")) | ast.Name() as of):
            return _words(of)
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return _words(ast.Name(key))
        case ast.Call(func=ast.Attribute(value=of)) | ast.Subscript(value=of) | ast.Starred(value=of):
            return _words(of)
        case ast.BoolOp(values=[of, *_]) | ast.BinOp(left=of) | ast.FormattedValue(value=of):
            return _words(of)
        case ast.GeneratorExp(generators=[ast.comprehension(iter=of), *_]):
            return _words(of)
        case ast.IfExp(body=of):
            return _words(of)
        case _:
            return "value"


def _name_of(path: Path) -> str:
    """The name of the module in this file."""
    return ".".join(path.with_suffix("").parts[1:]).removesuffix(".__init__")


@functools.lru_cache(maxsize=16)
def _texts_of(function: ast.AST, module: ast.Module, name: str) -> Texts:
    return Texts(function, module, name)


def sites(*without: str) -> Iterator[tuple[type[SmError], str, str]]:
    """(class, message, hint) of every error that the code can make. `without`: rooms to leave out."""
    known = classes()
    unused = {place for place in PASSED_ON if place.split("/")[1] not in without}
    for path in sorted(Path("src/sm").rglob("*.py")):
        if path.parts[2] in without:
            continue
        module = ast.parse(path.read_text(encoding="utf-8"))
        places = _places(module)
        for raised in [node.exc for node in places.raises]:
            plain = raised.func if isinstance(raised, ast.Call) else raised
            assert isinstance(plain, ast.Name | ast.Attribute | ast.BoolOp | ast.IfExp | None), (
                f"{path}:{raised.lineno if raised else 0}: cannot tell which error this raises"
            )
        for function, call in places.calls:
            if not places.may_call(call.func, known):
                continue
            texts = _texts_of(function, module, _name_of(path))
            for name in texts.classes(call.func):
                if name not in known:
                    continue
                arguments = [
                    *call.args,
                    *(keyword.value for keyword in call.keywords if keyword.arg == "hint"),
                ]
                key = f"{path.relative_to('src').as_posix()}:{getattr(function, 'name', '')}"
                messages = texts.of(arguments[0])
                if not all(re.search(r"[a-z]{2}", re.sub(r"<[^>]*>", "", text)) for text in messages):
                    assert key in PASSED_ON, f"{path}:{call.lineno}: the message has no words of its own"
                    unused.discard(key)
                    messages = [PASSED_ON[key]]
                for message in messages:
                    for hint in texts.of(arguments[1] if len(arguments) > 1 else None):
                        yield known[name], message, hint
    assert not unused, f"no such site for these entries of PASSED_ON: {unused}"


class _Places:
    """The calls and the raised errors of a module. `calls`: each call with its innermost function."""

    def __init__(self, module: ast.Module) -> None:
        self.calls: list[tuple[ast.AST, ast.Call]] = []
        self.raises: list[ast.Raise] = []
        self._variables: set[str] = set()
        self._visit(module, module)

    def may_call(self, called: ast.expr, names: Container[str]) -> bool:
        """Tell whether a call may be one of a class with one of the names. A variable may stand for several."""
        match called:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return name in names or name in self._variables
            case _:
                return True

    def _visit(self, node: ast.AST, function: ast.AST) -> None:
        for name in node._fields:
            value = getattr(node, name)
            for child in value if isinstance(value, list) else (value,):
                kind = type(child)
                if kind in _LEAVES:
                    continue
                inner = function
                if kind is ast.Call:
                    if child.args:
                        self.calls.append((function, child))
                elif kind is ast.Raise:
                    self.raises.append(child)
                elif kind is ast.FunctionDef or kind is ast.AsyncFunctionDef:
                    inner = child
                    self._variables.update(a.arg for a in child.args.args)
                elif kind is ast.Assign and isinstance(child.targets[0], ast.Name):
                    self._variables.add(child.targets[0].id)
                self._visit(child, inner)


_places = functools.lru_cache(maxsize=1)(_Places)


@functools.lru_cache(maxsize=1)
def _calls_by_words(module: ast.Module) -> Mapping[str, Sequence[ast.Call]]:
    """The calls of a module, by the words for the called function."""
    calls = defaultdict[str, list[ast.Call]](list)
    for _, call in _places(module).calls:
        calls[_words(call.func)].append(call)
    return calls


def document() -> str:
    """The whole of docs/reference/errors.md."""
    by_class: dict[type[SmError], dict[str, dict[str, None]]] = defaultdict(lambda: defaultdict(dict))
    for error, message, hint in sites():
        by_class[error][message][hint] = None
    lines = [HEAD.rstrip()]
    for error in BY_CODE.values():
        messages: dict[str, dict[str, None]] = defaultdict(dict)
        for cls, texts in by_class.items():
            if cls.code == error.code:
                for message, hints in texts.items():
                    messages[message] |= hints
        if not messages:
            continue
        lines.append(f"\n## {error.code}\n\nHTTP status {error.http_status}, exit code {error.exit_code}.\n")
        for message, hints in sorted(messages.items()):
            lines.append(f"- `{_shown(message)}`")
            lines += [f"  → `{_shown(hint)}`" for hint in hints if re.sub(r"<[^>]*>", "", hint)]
    return "\n".join(lines) + "\n"


def _shown(text: str) -> str:
    return text.replace("`", "'").replace("\n", " ")


if __name__ == "__main__":
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text(document(), encoding="utf-8")

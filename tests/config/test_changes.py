"""Taking over a changed configuration, and that no part of the daemon keeps a copy of a value that may change."""

import ast
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

import sm
from sm.config import NEEDS_RESTART, Config, load, take_over
from sm.config.example import descriptions
from sm.section import Section

SOURCE = Path(sm.__file__).parent
REBUILT = {"providers", "notifiers"}
"""The daemon builds the parts of these rooms again from each configuration."""


def loaded(path: Path, text: str) -> Config:
    path.write_text(text)
    return load(str(path)).config


def test_sections_keep_their_identity_and_take_the_new_values(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    running = loaded(path, "limits: {max_depth: 3}\n")
    limits, cleanup = running.limits, running.child_agents.cleanup
    changes = take_over(
        running, loaded(path, "default_trust: direct\nchild_agents: {cleanup: {close_tmux_session: true}}\n")
    )
    assert changes.taken == ("default_trust", "child_agents.cleanup.close_tmux_session", "limits.max_depth")
    assert changes.waiting == ()
    assert (limits.max_depth, cleanup.close_tmux_session, running.default_trust) == (4, True, "direct")


def test_keys_that_need_a_restart_keep_their_values_until_then(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    running = loaded(path, "")
    text = "tmux: {width: 99, height: 9}\nsandbox: {engine: 'unix:///x', image: other}\n"
    changes = take_over(running, loaded(path, text))
    assert (changes.taken, changes.waiting) == (("sandbox.image",), ("tmux", "sandbox.engine"))
    assert (running.tmux.width, running.sandbox.engine) == (200, Config().sandbox.engine)
    assert take_over(running, loaded(path, text)).waiting == changes.waiting
    assert take_over(running, loaded(path, "")).waiting == ()


def test_take_over_changes_no_other_configuration(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    running, other = loaded(path, ""), load(str(tmp_path / "none.yaml")).config
    take_over(running, loaded(path, "limits: {max_depth: 7}\n"))
    assert (Config().limits.max_depth, other.limits.max_depth) == (4, 4)


def described(section: BaseModel, path: str = "") -> Iterator[tuple[str, str]]:
    """Each dotted key with its description."""
    for name in type(section).model_fields:
        yield f"{path}{name}", descriptions(type(section)).get(name, "")
        value = getattr(section, name)
        if isinstance(value, Section):
            yield from described(value, f"{path}{name}.")


def test_descriptions_name_exactly_the_keys_that_need_a_restart() -> None:
    found = {
        key for key, text in described(Config()) if "change needs sm daemon restart" in " ".join(text.split())
    }
    assert found == set(NEEDS_RESTART)


def sections(section: BaseModel, path: str = "") -> Iterator[tuple[str, str]]:
    """The class of each section with its dotted path."""
    yield type(section).__name__, path
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, Section):
            yield from sections(value, f"{path}{name}.")


PATHS = dict(sections(Config()))


def chains(node: ast.AST) -> Iterator[list[str]]:
    """Each longest chain of attributes, such as config.limits.max_depth. Excludes functions, which read later."""
    if isinstance(node, ast.Lambda | ast.FunctionDef):
        return
    names: list[str] = []
    inner = node
    while isinstance(inner, ast.Attribute):
        names.insert(0, inner.attr)
        inner = inner.value
    if names and isinstance(inner, ast.Name):
        yield [inner.id, *names]
        return
    for child in ast.iter_child_nodes(node):
        yield from chains(child)


def copies(source: str) -> Iterator[str]:
    """Dotted keys whose values a constructor reads."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef) or function.name != "__init__":
            continue
        arguments = (*function.args.args, *function.args.kwonlyargs)
        types = {a.arg: ast.unparse(a.annotation) for a in arguments if a.annotation is not None}
        roots = {name: PATHS.get(type) for name, type in {"config": "Config", **types}.items()}
        for root, *names in (chain for statement in function.body for chain in chains(statement)):
            if (path := roots.get(root)) is not None and f"{path}{'.'.join(names)}." not in PATHS.values():
                yield f"{path}{'.'.join(names)}"


def test_copies_are_found() -> None:
    assert list(copies("class A:\n def __init__(self, config): self.a = config.limits.max_depth")) == [
        "limits.max_depth"
    ]
    assert list(copies("class A:\n def __init__(self, it: Cleanup): self.a = f(it.archive_path)")) == [
        "child_agents.cleanup.archive_path"
    ]
    assert (
        list(copies("class A:\n def __init__(self, config): self.a = lambda: config.limits.max_depth")) == []
    )
    assert list(copies("class A:\n def __init__(self, config): self.a = config.limits")) == []


def test_no_constructor_copies_a_value_that_may_change() -> None:
    found = {
        f"{module.relative_to(SOURCE)}: {key}"
        for module in SOURCE.rglob("*.py")
        if module.relative_to(SOURCE).parts[0] not in REBUILT
        for key in copies(module.read_text())
        if not any(f"{key}.".startswith(f"{entry}.") for entry in NEEDS_RESTART)
    }
    assert found == set()

"""The body of a transaction does no I/O: it blocks every other writer, and it may run again."""

import ast
from collections.abc import Iterator
from pathlib import Path

import sm

SOURCE = Path(sm.__file__).parent
OUTSIDE = {
    "os",
    "shutil",
    "subprocess",
    "asyncio",
    "_terminals",
    "_sandbox",
    "_archives",
    "_keeper",
    "audit",
    "_audit",
}
"""The file system, processes, terminals and the audit log, by the names that rooms use for them."""
AUDITED = {"find", "require", "record_allowed"}
"""Methods of the authorizer that write to the audit log."""


def bodies(tree: ast.AST) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncWith) and "transaction(" in ast.unparse(node.items[0].context_expr):
            yield from node.body


def outside(statement: ast.stmt) -> Iterator[str]:
    """The calls in a statement that reach outside of the database."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            words = ast.unparse(node.func).split(".")
            by_authorizer = words[-2:-1] == ["_authorizer"] and words[-1] in AUDITED
            if by_authorizer or words[0] == "open" or OUTSIDE & set(words[:-1]) or words[-1] == "_audit":
                yield f"line {node.lineno}: {'.'.join(words)}"


def test_transaction_bodies_use_no_files_processes_or_terminals() -> None:
    found = {
        str(path.relative_to(SOURCE)): calls
        for path in SOURCE.rglob("*.py")
        if "transaction(" in (text := path.read_text())
        and (calls := [call for statement in bodies(ast.parse(text)) for call in outside(statement)])
    }
    assert found == {}


def test_outside_finds_a_call_to_the_session_authorizer() -> None:
    body = "async with self._store.transaction(caller, key) as tx:\n    self._authorizer.find(caller, name)"
    (statement,) = bodies(ast.parse(f"async def kill():\n    {body}".replace("\n    self", "\n        self")))
    assert list(outside(statement)) == ["line 3: self._authorizer.find"]

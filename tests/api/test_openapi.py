"""docs/openapi.json is generated, valid, and tells of every route, parameter and field that the code reads."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import schemathesis
from aiohttp import web

from sm.server import Server
from tests.openapi import document

METHODS = {"get", "post", "put", "patch", "delete"}
READS_QUERY = re.compile(
    r'"(\w+)" (?:not )?in request\.query|\bquery\.get\(\s*"(\w+)"|number\(request, "(\w+)"'
)
READS_BODY = re.compile(r'\bbody\.(?:text|flag|number|texts|numbers|mapping)\(\s*"(\w+)"')


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, item in document()["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    ]


@pytest.mark.processes
def test_the_document_is_the_generated_one() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "tests.openapi"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": "src"},
    ).stdout
    documented = Path("docs/openapi.json").read_text(encoding="utf-8")
    assert documented == printed, "python -m tests.openapi > docs/openapi.json"


def test_it_is_valid() -> None:
    schemathesis.openapi.from_path("docs/openapi.json").validate()
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len(set(ids)) == len(ids)


def read_in_source(what: re.Pattern[str]) -> set[str]:
    files = [
        *Path("src/sm/api").rglob("*.py"),
        Path("src/sm/server.py"),
    ]
    return {
        name for file in files for names in what.findall(file.read_text()) for name in _several(names) if name
    }


def _several(found: str | tuple[str, ...]) -> tuple[str, ...]:
    return (found,) if isinstance(found, str) else found


def test_every_parameter_that_is_read_is_told() -> None:
    shared = document()["components"]["parameters"]
    told = {p["name"] for p in shared.values() if p["in"] == "query"}
    for _, _, operation in operations():
        told |= {p["name"] for p in operation.get("parameters", ()) if p.get("in") == "query"}
    assert told == read_in_source(READS_QUERY)


def test_every_field_of_a_body_that_is_read_is_told() -> None:
    told: set[str] = set()
    for _, _, operation in operations():
        if "requestBody" in operation:
            told |= operation["requestBody"]["content"]["application/json"]["schema"]["properties"].keys()
    not_by_name = {"capabilities", "strict_mcps", "sandbox"}  # `workspaces.py` takes them as they come
    unread = {"provider"}  # of a hook: for who reads the spool
    assert told - not_by_name - unread == read_in_source(READS_BODY)


def routes(app: web.Application) -> set[tuple[str, str]]:
    """(method, path) of each of its routes; aiohttp adds a HEAD to every GET."""
    found = [(r.method.lower(), r.resource.canonical) for r in app.router.routes() if r.resource is not None]
    return {(method, path) for method, path in found if method != "head"}


class Nothing:
    """In the place of a daemon, of which nothing is asked before a request comes."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *given: Any, **more: Any) -> Any:
        return self


SERVER = Server(cast(Any, Nothing()))


@pytest.mark.parametrize(
    ("make", "asked"), [(SERVER.app, 0), (SERVER.agent_app, 1)], ids=["operator's socket", "agents' sockets"]
)
def test_the_routes_are_those_of(make: Callable[[], web.Application], asked: int) -> None:
    """Those of agents are told to take a token."""
    told = {(method, path) for method, path, operation in operations() if len(operation["security"]) >= asked}
    assert told == routes(make())

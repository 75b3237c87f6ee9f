"""docs/openapi.json is generated from the route table, valid, and has every route of the applications."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import schemathesis
from aiohttp import web

from sm.api.openapi import document
from sm.server import ApiServer

METHODS = {"get", "post", "put", "patch", "delete"}


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
        [sys.executable, "-m", "sm.api.openapi"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": "src"},
    ).stdout
    documented = Path("docs/openapi.json").read_text(encoding="utf-8")
    assert documented == printed, "python -m sm.api.openapi > docs/openapi.json"


def test_it_is_valid() -> None:
    schemathesis.openapi.from_path("docs/openapi.json").validate()
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len(set(ids)) == len(ids)


def test_a_handler_reads_only_its_models() -> None:
    """A field or parameter that is read past the models would be missing in the document."""
    for file in Path("src/sm/api/routes").glob("*.py"):
        source = file.read_text(encoding="utf-8")
        assert not {
            word for word in (".query.get", "http.query", "match_info", "read_json") if word in source
        }, file


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


SERVER = ApiServer(cast(Any, Nothing()), lambda *given: None)


@pytest.mark.parametrize(
    ("make", "asked"), [(SERVER.app, 0), (SERVER.agent_app, 1)], ids=["operator's socket", "agents' sockets"]
)
def test_the_routes_are_those_of(make: Callable[[], web.Application], asked: int) -> None:
    """Those of agents are told to take a token."""
    told = {(method, path) for method, path, operation in operations() if len(operation["security"]) >= asked}
    assert told == routes(make())

"""docs/openapi.json is generated from the route table, valid, and complete."""

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
def test_openapi_file_equals_the_generated_document() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "sm.api.openapi"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": "src"},
    ).stdout
    documented = Path("docs/openapi.json").read_text(encoding="utf-8")
    assert documented == printed, "python -m sm.api.openapi > docs/openapi.json"


def test_openapi_document_is_valid_with_unique_operation_ids() -> None:
    schemathesis.openapi.from_path("docs/openapi.json").validate()
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len(set(ids)) == len(ids)


def test_openapi_schema_of_a_dataclass_has_its_docstrings_and_only_its_required_fields() -> None:
    sent = document()["components"]["schemas"]["Sent"]
    assert sent["description"] == "A sent message."
    assert sent["properties"]["from"]["description"].startswith("`operator`, `sm`, the id of a session")
    assert sent["properties"]["request_id"]["description"] == "The question that the text answered."
    assert {"from", "settled"} <= set(sent["required"])
    assert not {"request_id", "unarchived"} & set(sent["required"])


def test_route_handlers_read_input_only_through_models() -> None:
    """A field read without a model would be missing from the document."""
    for file in Path("src/sm/api/routes").glob("*.py"):
        source = file.read_text(encoding="utf-8")
        assert not {
            word for word in (".query.get", "http.query", "match_info", "read_json") if word in source
        }, file


def routes(app: web.Application) -> set[tuple[str, str]]:
    """The (method, path) pairs without HEAD, which aiohttp adds to every GET."""
    pairs = [(r.method.lower(), r.resource.canonical) for r in app.router.routes() if r.resource is not None]
    return {(method, path) for method, path in pairs if method != "head"}


class Stub:
    """Replaces the use cases, which the server uses only when a request arrives."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self


SERVER = ApiServer(cast(Any, Stub()), lambda *args: None, cast(Any, None), set())


@pytest.mark.parametrize(
    ("make", "least_security"),
    [(SERVER.app, 0), (SERVER.agent_app, 1)],
    ids=["operator's socket", "agents' sockets"],
)
def test_openapi_document_has_exactly_the_routes_of(
    make: Callable[[], web.Application], least_security: int
) -> None:
    """Routes for agents document a token as their security."""
    documented = {
        (method, path)
        for method, path, operation in operations()
        if len(operation["security"]) >= least_security
    }
    assert documented == routes(make())

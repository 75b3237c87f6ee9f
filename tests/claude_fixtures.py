"""Fixtures of tests with the real Claude Code. Each test file chooses their scope:

api = scripted_api("module")
claudes = claude_instance("module")
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

from tests.claude_instance import ClaudeInstance
from tests.scripted_api import Request, ScriptedApi

Scope = Literal["function", "module"]
"""One fixture value per test, or one for all tests of a file."""


def scripted_api(scope: Scope, *models: Callable[[Request], str | None]) -> Any:
    """A fixture, to be named `api`: the model API for claude. `models` are asked for an answer before the API's own."""

    @pytest.fixture(scope=scope)
    def api() -> Iterator[ScriptedApi]:
        with ScriptedApi() as scripted:
            for model in models:
                scripted.when(model)
            yield scripted

    return api


def claude_instance(
    scope: Scope, kind: Callable[..., ClaudeInstance] = ClaudeInstance, **options: Any
) -> Any:
    """A fixture: an instance of this `kind`, made with `options`, that talks to the file's `api`."""

    @pytest.fixture(scope=scope)
    def claudes(api: ScriptedApi) -> Iterator[ClaudeInstance]:
        instance = kind(api, **options)
        yield instance
        instance.end()

    return claudes


def shared_sessions() -> Any:
    """A fixture, to be named `shared`: sessions that tests pass on to later tests.

    A run may split the tests of a file, so it lasts as long as the instance.
    """

    @pytest.fixture(scope="module")
    def shared() -> dict[str, Any]:
        return {}

    return shared

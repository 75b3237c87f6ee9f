"""The fixtures of tests with the real Claude Code, each test file choosing for how long one lasts.

api = scripted_api("module")
claudes = claude_instance("module")
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

from tests.claude_instance import ClaudeInstance
from tests.scripted_api import Request, ScriptedApi

Scope = Literal["function", "module"]
"""One for each test, or one for all the tests of a file."""


def scripted_api(scope: Scope, *models: Callable[[Request], str | None]) -> Any:
    """A fixture, to be named `api`: what claude talks to; `models` are asked first what it answers."""

    @pytest.fixture(scope=scope)
    def api() -> Iterator[ScriptedApi]:
        with ScriptedApi() as made:
            for model in models:
                made.when(model)
            yield made

    return api


def claude_instance(
    scope: Scope, kind: Callable[..., ClaudeInstance] = ClaudeInstance, **options: Any
) -> Any:
    """A fixture: an instance of this `kind`, made with `options`, that talks to the file's `api`."""

    @pytest.fixture(scope=scope)
    def claudes(api: ScriptedApi) -> Iterator[ClaudeInstance]:
        made = kind(api, **options)
        yield made
        made.end()

    return claudes

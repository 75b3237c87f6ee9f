"""Makes a fixture of a context manager, each test file choosing its scope.

shared = context_fixture("module", Instance, "limits: {max_children: 3}")
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Literal

import pytest


def context_fixture(
    scope: Literal["function", "module"],
    kind: Callable[..., AbstractContextManager[Any]],
    *arguments: Any,
    **options: Any,
) -> Any:
    """A fixture whose value is that of `with kind(*arguments, **options)`."""

    @pytest.fixture(scope=scope)
    def entered() -> Iterator[Any]:
        with kind(*arguments, **options) as value:
            yield value

    return entered

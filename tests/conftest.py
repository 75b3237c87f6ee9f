from collections.abc import Iterator

import pytest

from tests.instance import Instance


@pytest.fixture
def instance() -> Iterator[Instance]:
    made = Instance()
    yield made
    made.end()

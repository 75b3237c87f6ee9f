import signal
from collections.abc import Iterator

import pytest

from tests.instance import Instance

# A shell starts what it puts into the background with SIGINT ignored, and that would be inherited by every
# command that a test wants to interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def instance() -> Iterator[Instance]:
    made = Instance()
    yield made
    made.end()

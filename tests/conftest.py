import signal
from collections.abc import Iterator

import pytest
import pytest_timeout  # type: ignore[import-untyped]
from hypothesis import HealthCheck, settings

from tests.instance import Instance
from tests.load import scaled

# A shell starts what it puts into the background with SIGINT ignored, and that would be inherited by every
# command that a test wants to interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Neither depends on the speed of the machine.
settings.register_profile("sm", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sm")


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> object:
    """Scale the limit of each test, which is in seconds of an idle machine."""
    scaled_settings = settings._replace(timeout=scaled(settings.timeout))
    return pytest_timeout.pytest_timeout_set_timer(item, scaled_settings)


@pytest.fixture
def instance() -> Iterator[Instance]:
    made = Instance()
    yield made
    made.end()

"""The contract of Kernel on the played kernel of tests/sim."""

import pytest

from tests.linux import test_kernel_contract
from tests.linux.test_kernel_contract import machine

pytestmark = pytest.mark.simulation
globals().update({n: test for n, test in vars(test_kernel_contract).items() if n.startswith("test_")})

__all__ = ["machine"]

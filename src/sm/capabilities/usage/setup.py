"""Builds reports of usage, and registers them at the kernel."""

from sm.kernel import Kernel


def setup(kernel: Kernel) -> None:
    pass

"""Builds the search, and registers its operation at the kernel."""

from sm.capabilities.search import operations
from sm.capabilities.search.finding import Search
from sm.kernel import Kernel


def setup(kernel: Kernel) -> None:
    kernel.use_cases[operations.FIND] = Search(kernel.store, kernel.authorizer).find

"""Builds pull requests, and registers their parts at the kernel."""

from sm.capabilities.pull_requests import operations
from sm.capabilities.pull_requests.recording import PullRequestRecords
from sm.kernel import Kernel


def setup(kernel: Kernel) -> None:
    records = PullRequestRecords(kernel.store, kernel.authorizer)
    kernel.use_cases[operations.SHOW] = records.show
    kernel.use_cases[operations.RECORD] = records.record

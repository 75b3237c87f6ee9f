"""Builds pull requests, and registers their parts at the kernel."""

from sm.capabilities.pull_requests import operations
from sm.capabilities.pull_requests.recording import PullRequestRecords
from sm.capabilities.pull_requests.settings import PullRequestsSection
from sm.kernel import Kernel


def setup(kernel: Kernel) -> None:
    section = kernel.config.with_keys(PullRequestsSection)
    records = PullRequestRecords(kernel.store, kernel.authorizer, kernel.messages, lambda: section.pr.retries)
    kernel.use_cases[operations.SHOW] = records.show
    kernel.use_cases[operations.RECORD] = records.record
    kernel.use_cases[operations.REPORT] = records.report

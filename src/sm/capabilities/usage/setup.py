"""Builds sums and reports of usage, and registers them at the kernel."""

from sm.capabilities.usage import operations
from sm.capabilities.usage.kept_parts import TreeSums
from sm.capabilities.usage.reporting import Reporting
from sm.kernel import Kernel


def setup(kernel: Kernel) -> None:
    store, authorizer, providers = kernel.store, kernel.authorizer, kernel.providers
    sums = TreeSums(kernel.config, store, kernel.usage, authorizer, providers)
    reporting = Reporting(store, authorizer, providers, kernel.workspaces, sums)
    kernel.sums.append(sums)
    kernel.on_config.append(reporting.reconfigure)
    kernel.use_cases[operations.REPORT] = reporting.report
    kernel.use_cases[operations.SERIES] = reporting.series
    kernel.use_cases[operations.CHART] = reporting.chart

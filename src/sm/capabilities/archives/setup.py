"""Builds archives, and registers their parts at the kernel."""

from sm.capabilities.archives import operations
from sm.capabilities.archives.collector import ArchiveRecords
from sm.capabilities.archives.exporting import Exporting
from sm.capabilities.archives.keeper import Archives
from sm.capabilities.archives.retention import ArchiveRetention
from sm.capabilities.archives.settings import ArchivesSection
from sm.core.effects import EffectKind
from sm.kernel import Kernel


def setup(kernel: Kernel) -> None:
    settings = kernel.config.with_keys(ArchivesSection).archives
    cleanup, store = kernel.config.child_agents.cleanup, kernel.store
    records = ArchiveRecords(store, kernel.providers, kernel.usage, kernel.threads)
    archives = Archives(cleanup.archive_path or kernel.paths.archives, kernel.screen, records)
    retention = ArchiveRetention(settings, store, kernel.notices, archives)
    exporting = Exporting(store, kernel.authorizer, archives, retention)

    async def show_last_failure() -> None:
        failure = await store.last_failure(EffectKind.ARCHIVE)
        if failure is not None and cleanup.auto_archive_transcript:
            archives.set_trouble(*failure)

    kernel.keepers.each.append(archives)
    kernel.at_start.append(show_last_failure)
    kernel.troubles.extend((lambda: archives.trouble, lambda: archives.erase_trouble))
    kernel.tasks["archives"] = retention.run
    kernel.use_cases[operations.SHOW] = exporting.show
    kernel.use_cases[operations.EXPORT] = exporting.export

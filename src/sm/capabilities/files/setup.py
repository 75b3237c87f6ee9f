"""Builds files, and registers their parts at the kernel."""

from sm.capabilities.files import operations
from sm.capabilities.files.disk import FileDisk
from sm.capabilities.files.listeners import FileAttacher, FileKeeper
from sm.capabilities.files.retention import FileRetention
from sm.capabilities.files.settings import FilesSection
from sm.capabilities.files.uploads import Uploads
from sm.kernel import Kernel


def setup(kernel: Kernel) -> None:
    settings, store = kernel.config.with_keys(FilesSection).files, kernel.store
    disk = FileDisk(kernel.paths)
    uploads = Uploads(settings, store, kernel.authorizer, disk)
    retention = FileRetention(settings, store, disk)
    kernel.attachers.each.append(FileAttacher(store, kernel.paths, disk))
    kernel.keepers.each.append(FileKeeper(disk))
    kernel.at_start.append(retention.remove_strays)
    kernel.tasks["uploads"] = retention.run
    kernel.use_cases[operations.SHOW] = uploads.show
    kernel.use_cases[operations.UPLOAD] = uploads.upload
    kernel.use_cases[operations.DELETE] = uploads.delete

"""Copies files and symbolic links, on file systems that can share their blocks without reading them."""

import errno
import os
import shutil
import time
from collections.abc import Callable

from sm.errors import ExternalError
from sm.linux.files import regular_file

_PIECE = 16 << 20
_REPORT_EVERY_S = 0.2
_NOT_BY_KERNEL = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF)


class FileCopies:
    """Copies files of `source` to `target`, until a time of the monotonic clock.

    `check`: is called before each piece, and raises an exception to end.
    """

    def __init__(self, source: str, target: str, until: float, check: Callable[[], None]) -> None:
        self._source = source
        self._target = target
        self._until = until
        self._check = check

    def copy(self, paths: list[str], report: Callable[[int], None]) -> None:
        """Copy all files. `report` gets the number of copied ones.

        Raises OSError, and ExternalError if the time is over.
        """
        told = time.monotonic()
        for count, path in enumerate(paths):
            if time.monotonic() - told > _REPORT_EVERY_S:
                told = time.monotonic()
                report(count)
            self._copy(f"{self._source}/{path}", f"{self._target}/{path}")

    def _copy(self, source: str, target: str) -> None:
        if os.path.islink(source):
            self._go_on()
            os.symlink(os.readlink(source), target)
        else:
            with regular_file(source) as given:
                made = os.open(
                    target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
                )
                try:
                    self._copy_content(given, made)
                finally:
                    os.close(made)
        shutil.copystat(source, target, follow_symlinks=False)

    def _copy_content(self, given: int, made: int) -> None:
        is_by_kernel = True  # which lets both files have the same blocks, where it can
        while True:
            self._go_on()
            if is_by_kernel:
                try:
                    if os.copy_file_range(given, made, _PIECE):
                        continue
                except OSError as error:
                    if error.errno not in _NOT_BY_KERNEL:
                        raise
                is_by_kernel = False  # at the end too: some file systems say nothing else
            left = memoryview(os.read(given, _PIECE))
            if not left:
                return
            while left:
                left = left[os.write(made, left) :]

    def _go_on(self) -> None:
        self._check()
        if time.monotonic() > self._until:
            raise ExternalError(
                "the files were not copied in time", "worktrees.timeout_s in config.yaml is the limit"
            )

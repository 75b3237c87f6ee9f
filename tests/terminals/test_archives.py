"""Files of the output of ended sessions."""

import errno
import os
from pathlib import Path
from typing import cast

import pytest

from sm.errors import StorageFull
from sm.terminals.archives import Archives
from sm.terminals.base import Screen


class FixedScreen:
    async def capture(self, name: str, lines: int) -> list[str]:
        return [f"the output of {name}"]


async def test_keep_raises_storage_full_and_leaves_no_partial_file_when_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Archives(str(tmp_path), cast(Screen, FixedScreen()))

    def full(*paths: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", full)
        with pytest.raises(StorageFull):
            await kept.keep("1a2b3c4d", "command-1a2b3c4d")
    assert list(tmp_path.iterdir()) == []
    assert await kept.keep("1a2b3c4d", "command-1a2b3c4d") is None
    assert (Path(kept.path("1a2b3c4d")) / "terminal.txt").read_text() == "the output of command-1a2b3c4d\n"

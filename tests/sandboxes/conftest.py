"""Directories of the tests of sandboxes: a container mounts nothing of the memory file system of other tests."""

from tests.memory_files import path_on_disk

__all__ = ["path_on_disk"]

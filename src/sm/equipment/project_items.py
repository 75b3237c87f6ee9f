"""Lists the items of a workspace's files that need the operator's agreement, and records agreements."""

import asyncio
import errno
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from sm.core.dataclass import dataclass
from sm.core.items import ItemKind, ItemState, ProjectItem
from sm.core.text import folded
from sm.equipment.agreements import Agreements
from sm.equipment.directories import definition_items, workspace_directories
from sm.equipment.mcp_servers import project_servers, server_items
from sm.errors import ExternalError, IllegalState, StorageFull, UsageError
from sm.providers.base import Provider

ItemReader = Callable[[str], Sequence[ProjectItem]]
"""Reads the items of one kind in a directory. Blocks. Raises UsageError for a file that cannot be read."""
_THREADS = 2
_TIME_S = 10.0
_ITEMS_MAX = 200


@dataclass(frozen=True, slots=True)
class ProjectListing:
    """The items of one workspace."""

    items: tuple[tuple[ProjectItem, ItemState], ...] = ()
    """At most 200, those without an agreement first."""
    warnings: tuple[str, ...] = ()
    """The reasons why a file could not be read."""


class ProjectItems:
    def __init__(self, providers: Mapping[str, Provider], agreements: Agreements) -> None:
        self._providers = providers
        self._agreements = agreements
        self.readers = list[ItemReader]()
        """Readers of capabilities, for the items of their own files."""
        # A separate pool: a file system that does not answer blocks its threads.
        self._threads = ThreadPoolExecutor(_THREADS, "sm-project-items")

    async def listing(self, directory: str) -> ProjectListing:
        """The items in the directory of a workspace. Never raises: a broken file must not hide the workspace."""
        return await self._in_thread(self._read, directory)

    async def read_by(self, reader: ItemReader, directory: str) -> ProjectListing:
        """The items that one reader finds, as `listing`."""
        return await self._in_thread(self._read_by, directory, reader)

    async def _in_thread(
        self, read: Callable[..., ProjectListing], directory: str, *more: ItemReader
    ) -> ProjectListing:
        try:
            async with asyncio.timeout(_TIME_S):
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._threads, read, directory, *more)
        except TimeoutError:
            trouble = (
                f"the files in {folded(directory, 400)} were not checked: no answer within {_TIME_S:g} s"
            )
            return ProjectListing(warnings=(trouble,))

    async def agree(self, slug: str, directory: str, ids: Collection[str]) -> None:
        """Agree to the items with these ids. Raises IllegalState, if an item has changed since it was listed."""
        listing = await self.listing(directory)
        present = {item.id: item for item, _ in listing.items}
        if not present.keys() >= set(ids):
            raise IllegalState(
                f"a file of workspace {slug} has changed since you looked at it: nothing was agreed",
                f"look at the items again: sm workspace agree {slug}",
            )
        await self._record(present[id] for id in ids)

    async def agree_to_named(self, directory: str, names: Mapping[ItemKind, Collection[str]]) -> None:
        """Agree to the items with these names, as they are now."""
        listing = await self.listing(directory)
        await self._record(item for item, _ in listing.items if item.name in names.get(item.kind, ()))

    async def _record(self, items: Iterable[ProjectItem]) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._threads, self._agreements.agree, tuple(items)
            )
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull("the disk is full: the agreement was not stored") from None
            raise ExternalError(
                f"the agreement was not stored: {(error.strerror or str(error)).lower()}"
            ) from None

    def _read(self, directory: str) -> ProjectListing:
        items: list[ProjectItem] = []
        warnings: list[str] = []
        for provider in self._providers.values():
            sources = provider.capability_sources({}, (directory,))
            if sources is None:
                continue
            path = sources.project_mcps[directory]
            try:
                items += server_items(path, project_servers(path))
            except UsageError as error:
                warnings.append(error.message)
        for place in workspace_directories(directory, self._providers):
            items += definition_items(place)
        for reader in self.readers:
            try:
                items += reader(directory)
            except UsageError as error:
                warnings.append(error.message)
        return self._decided(items, warnings)

    def _read_by(self, directory: str, reader: ItemReader) -> ProjectListing:
        try:
            return self._decided(reader(directory), ())
        except UsageError as error:
            return ProjectListing(warnings=(error.message,))

    def _decided(self, items: Sequence[ProjectItem], warnings: Sequence[str]) -> ProjectListing:
        decided = sorted(
            zip(items, self._agreements.states(items), strict=True),
            key=lambda pair: pair[1] is ItemState.AGREED,
        )
        return ProjectListing(tuple(decided[:_ITEMS_MAX]), tuple(warnings))

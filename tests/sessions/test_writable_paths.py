"""The paths that a sandboxed session of any time could write, and the repositories that meet one of them."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sm.config import SandboxSection
from sm.core.models import Workspace
from sm.core.states import TrustLevel
from sm.core.statuses import Status
from sm.sandboxes.path_map import Mount
from sm.sessions.writable_paths import StartingSession, WritablePaths
from sm.store import Store
from tests.samples import AT, LAUNCH, session

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(str(tmp_path / "sm.db"), lambda: AT) as opened:
        yield opened


def paths(store: Store, *mounts: str) -> WritablePaths:
    return WritablePaths(store, lambda workspace: SandboxSection(mounts=mounts))


async def test_writable_mount_of_a_container_is_never_forgotten(store: Store) -> None:
    mounts = (
        Mount("/a", "/a", writable=True),
        Mount("/b", "/b"),
        Mount("/home/x", "/home/sandbox", writable=True),
    )
    for _ in range(2):
        await paths(store).record("shop", mounts)
    # Neither a session nor a workspace nor the configuration names them.
    assert await paths(store).all() == ("/a", "/home/x")


async def test_directory_of_a_sandboxed_session_and_its_workspace_count(store: Store) -> None:
    sandboxed = replace(
        session("aaaa1111", status=Status.COMPLETED),
        effective_mode=TrustLevel.SANDBOXED,
        workspace="web",
        working_dir="/w/sub",
    )
    async with store.transaction() as tx:
        for slug in ("web", "bank"):
            tx.put_workspace(Workspace(slug, f"/{slug}", AT, deleted_at=AT))
        await tx.insert(sandboxed, LAUNCH, None)
        await tx.insert(replace(session("aaaa2222"), working_dir="/direct"), LAUNCH, None)
    found = await paths(store, "/data:rw", "/read").all()
    assert set(found) == {"/w/sub", "/web", "/data"}


@pytest.mark.parametrize("is_removed", [False, True])
async def test_session_that_ran_while_another_one_waited_counts_for_it_also_when_it_is_removed(
    store: Store, is_removed: bool
) -> None:
    """Files that it has written in the container stay there."""
    both = replace(
        session("aaaa1111", status=Status.COMPLETED),
        effective_mode=TrustLevel.SANDBOXED,
        workspace="web",
        working_dir="/w",
    )
    async with store.transaction() as tx:
        tx.put_workspace(Workspace("web", "/web", AT, deleted_at=AT))
        await tx.insert(replace(both, id="aaaa2222", name="waits"), LAUNCH, None)
    starting = StartingSession("aaaa2222", "web", AT)
    assert await paths(store).all(starting) == ()
    async with store.transaction() as tx:
        await tx.insert(both, LAUNCH, None)
        if is_removed:
            await tx.remove(both)
    assert set(await paths(store).all(starting)) == {"/w", "/web"}
    assert await paths(store).all(replace(starting, since="9999")) == (() if is_removed else ("/w", "/web"))


async def test_configured_mounts_do_not_count_before_a_sandboxed_session(store: Store) -> None:
    assert await paths(store, "/data:rw").all() == ()


async def test_older_database_keeps_what_its_sandboxed_sessions_could_write(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "old.db"
    shutil.copy(DATA / "v10.db", path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "UPDATE sessions SET effective_mode = 'sandboxed', removed = 1 WHERE id = 'aaaa1111'"
        )
        database.execute("""UPDATE workspaces SET sandbox = '{"mounts": ["/srv/data:rw", "/srv/read"]}'""")
        (directory,) = database.execute("SELECT working_dir FROM sessions WHERE id = 'aaaa1111'").fetchone()
    database.close()
    async with await Store.open(str(path)) as store:
        assert set(await store.writable.all()) == {directory, "/home/u/äpp", "/srv/data"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "place"
    (path / "app/.git").mkdir(parents=True)
    return path


async def meets(store: Store, writable: Path, *asked: Path) -> list[str]:
    known = paths(store)
    await known.record(None, [Mount(str(writable), str(writable), writable=True)])
    found = await known.among([str(path) for path in asked])
    return [os.path.relpath(path, asked[0].parent) for path in found]


async def test_paths_above_and_below_a_writable_one_meet_it(store: Store, place: Path) -> None:
    app = place / "app"
    asked = (app, place, app / ".git", app / ".git/config", place / "apple", place / "missing/x")
    assert await meets(store, app, *asked) == ["app", ".", "app/.git", "app/.git/config"]


async def test_path_behind_a_link_meets_the_writable_one(store: Store, place: Path) -> None:
    (place / "link").symlink_to(place / "app")
    assert await meets(store, place / "app", place / "link", place / "link/.git") == ["link", "link/.git"]


async def test_writable_path_that_became_a_link_counts_where_it_leads(store: Store, place: Path) -> None:
    (place / "moved").mkdir()
    (place / "old").symlink_to(place / "moved")
    assert await meets(store, place / "old", place / "moved", place / "app") == ["moved"]


async def test_git_directory_of_a_linked_worktree_counts(store: Store, place: Path) -> None:
    own = place / "app/.git/worktrees/tree"
    for directory in (own, place / "app/.git/objects", place / "tree"):
        directory.mkdir(parents=True)
    (place / "app/.git/HEAD").write_text("ref: refs/heads/main\n")
    (place / "tree/.git").write_text(f"gitdir: {own}\n")
    (own / "gitdir").write_text(f"{place}/tree/.git\n")
    (own / "commondir").write_text("../..\n")
    assert await meets(store, place / "tree", place / "app", place / "other") == ["app"]


@pytest.mark.processes
@pytest.mark.skipif(os.geteuid() != 0, reason="a bind mount needs root")
async def test_same_directory_under_another_name_counts(store: Store, place: Path) -> None:
    (place / "other").mkdir()
    done = subprocess.run(
        ["mount", "--bind", place / "app", place / "other"], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no bind mounts here: {done.stderr!r}")
    try:
        assert await meets(store, place / "app", place / "other", place / "other/.git") == [
            "other",
            "other/.git",
        ]
    finally:
        subprocess.run(["umount", place / "other"], check=True)

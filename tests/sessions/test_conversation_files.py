"""The place of a transcript that comes back: where the agent CLI of the new process looks for it."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sm.capabilities.archives.keeper import Archives
from sm.core.models import Session
from sm.errors import IllegalState, StorageFull
from sm.paths import INSIDE_HOME
from sm.providers.claude.plan import ClaudeProvider
from sm.sandboxes.home import ContainerHome
from sm.sessions.conversation_files import ConversationFiles
from sm.store import Store
from tests import golden
from tests.archived import Archived
from tests.samples import LAUNCH
from tests.store.test_history import NOW, ended, insert

TALK = "5e55aaaa-0000-4000-8000-000000000001"
ENTRY = json.dumps({"type": "user", "uuid": "u1", "parentUuid": None}) + "\n"
PROVIDER = cast(Any, SimpleNamespace(readers=ClaudeProvider.readers))


class Bench:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.session = replace(golden.COMPLETED, conversation=TALK, working_dir="/srv/shop", transcript=None)
        self.others: list[Session] = []
        self.store: Store | None = None
        self.home: ContainerHome | None = None
        self.user: tuple[int, int] | None = None

    def archive(self, session_id: str | None = None) -> None:
        place = self.root / "archives" / (session_id or self.session.id) / "transcripts"
        place.mkdir(parents=True)
        (place / f"{TALK}.jsonl").write_text(ENTRY)
        Archived(place.parent).pack()

    @property
    def files(self) -> ConversationFiles:
        sessions = {session.id: session for session in (self.session, *self.others)}

        async def none(chosen: object) -> list[Session]:
            return []

        store = SimpleNamespace(sessions=sessions, history=SimpleNamespace(all=none))
        return ConversationFiles(
            cast(Any, self.store or store),
            lambda session: self.home,
            Archives(str(self.root / "archives"), cast(Any, None)),
            lambda workspace: self.user,
        )

    async def give_back(self, environment: Mapping[str, str]) -> list[str]:
        """Return every transcript below the root, but not in archives."""
        launch = replace(LAUNCH, environment=environment)
        found = await self.files.recovery(self.session, PROVIDER, launch, TALK)
        await self.files.give_back(self.session, found)
        paths = (path.relative_to(self.root) for path in self.root.rglob(f"{TALK}.jsonl"))
        return sorted(str(path) for path in paths if path.parts[0] != "archives")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_transcript_comes_back_to_the_directory_of_the_project(bench: Bench) -> None:
    bench.archive()
    (bench.root / "me").mkdir()
    assert await bench.give_back({"HOME": str(bench.root / "me")}) == [
        f"me/.claude/projects/-srv-shop/{TALK}.jsonl"
    ]
    path = bench.root / "me" / ".claude" / "projects" / "-srv-shop" / f"{TALK}.jsonl"
    assert (path.read_text(), path.stat().st_mode & 0o777) == (ENTRY, 0o600)


async def test_transcript_comes_back_to_the_place_that_the_agent_has_reported(bench: Bench) -> None:
    bench.archive()
    reported = bench.root / "me" / ".claude" / "projects" / "other" / f"{TALK}.jsonl"
    bench.session = replace(bench.session, transcript=str(reported))
    found = await bench.give_back({"HOME": str(bench.root / "me")})
    assert found == [f"me/.claude/projects/other/{TALK}.jsonl"]


async def test_transcript_of_another_configuration_directory_is_copied(bench: Bench) -> None:
    reported = bench.root / "old" / "projects" / "-srv-shop" / f"{TALK}.jsonl"
    reported.parent.mkdir(parents=True)
    reported.write_text(ENTRY)
    bench.session = replace(bench.session, transcript=str(reported))
    found = await bench.give_back({"HOME": "/nowhere", "CLAUDE_CONFIG_DIR": str(bench.root / "new")})
    assert found == [f"new/projects/-srv-shop/{TALK}.jsonl", f"old/projects/-srv-shop/{TALK}.jsonl"]


async def test_transcript_in_another_directory_of_projects_is_copied(bench: Bench) -> None:
    elsewhere = bench.root / "me" / ".claude" / "projects" / "-srv-elsewhere" / f"{TALK}.jsonl"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_text(ENTRY)
    found = await bench.give_back({"HOME": str(bench.root / "me")})
    assert found == [f"me/.claude/projects/-srv-{name}/{TALK}.jsonl" for name in ("elsewhere", "shop")]


async def test_archive_of_the_original_serves_a_fork_that_has_not_begun(bench: Bench) -> None:
    bench.others = [replace(bench.session, id="0badcafe")]
    bench.session = replace(bench.session, conversation="another")
    bench.archive("0badcafe")
    assert len(await bench.give_back({"HOME": str(bench.root / "me")})) == 1


async def test_archives_of_the_newest_forks_serve_another_one(bench: Bench) -> None:
    """Also if they ended so long ago that they are not in memory."""
    forks = [ended(f"{99 - n:08x}", 60 - n, conversation=TALK) for n in range(50)]
    async with await Store.open(str(bench.root / "sm.db"), lambda: NOW) as bench.store:
        await insert(bench.store, *forks)
        bench.store.memory.forget_old()
        bench.archive(forks[-20].id)
        assert len(await bench.give_back({"HOME": str(bench.root / "me")})) == 1
        await insert(bench.store, ended("recent01", 0.5, conversation=TALK))
        assert await bench.files.is_archived(bench.session) is False


async def test_transcript_of_a_sandboxed_session_comes_back_inside_of_its_home(bench: Bench) -> None:
    bench.archive()
    home = bench.root / "home"
    home.mkdir()
    bench.home, bench.user = ContainerHome(str(home)), (os.geteuid(), os.getegid())
    assert await bench.give_back({"HOME": INSIDE_HOME}) == [f"home/.claude/projects/-srv-shop/{TALK}.jsonl"]


@pytest.mark.parametrize("depth", [".claude", ".claude/projects", ".claude/projects/-srv-shop"])
async def test_link_that_an_agent_put_into_its_home_is_not_followed(bench: Bench, depth: str) -> None:
    bench.archive()
    outside = bench.root / "outside"
    outside.mkdir()
    home = bench.root / "home"
    (home / depth).parent.mkdir(parents=True)
    (home / depth).symlink_to(outside)
    bench.home = ContainerHome(str(home))
    assert await bench.give_back({"HOME": INSIDE_HOME}) == []
    assert list(outside.iterdir()) == []


async def test_conversation_without_any_copy_is_refused(bench: Bench) -> None:
    with pytest.raises(IllegalState, match="is gone, and no archive has it"):
        await bench.give_back({"HOME": str(bench.root / "me")})
    assert list(bench.root.iterdir()) == []


async def test_damaged_archive_is_the_reason_why_a_conversation_is_refused(bench: Bench) -> None:
    bench.archive()
    Archived(bench.root / "archives" / bench.session.id).path.write_text("no archive")
    with pytest.raises(IllegalState, match=r"its archive cannot be read \(the archive is damaged\)"):
        await bench.give_back({"HOME": str(bench.root)})


@pytest.mark.parametrize(("number", "error"), [(28, StorageFull), (5, IllegalState)])
async def test_failed_write_changes_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception]
) -> None:
    bench.archive()

    def fails(*arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(error, match="cannot write the transcript of session"):
        await bench.give_back({"HOME": str(bench.root / "me")})
    project = bench.root / "me" / ".claude" / "projects" / "-srv-shop"
    assert list(project.iterdir()) == []

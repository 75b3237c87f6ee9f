"""scripts/upgrade-database: databases of versions 1 to 9, with a kill at any step, in use, and not of sm."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sm.core.states import MessageState, NoticeKind, TrustLevel
from sm.core.statuses import Status
from sm.store import Store, backups
from tests.capabilities.usage.test_tables import OPUS, count, outputs, used
from tests.samples import LAUNCH, commit
from tests.store.test_messages import FULL_MESSAGE, FULL_REQUEST, LATER, done, message, notice, request
from tests.store.test_migrations import described

pytestmark = pytest.mark.processes

DATA = Path(__file__).parent / "data"
SCRIPT = Path(__file__).parents[1] / "scripts" / "upgrade-database"
PYTHON = [sys.executable, "-I", "-S"]
"""Python without any package."""

KILLED = """
import importlib.machinery, os, signal, sys
path, at = sys.argv[2], int(sys.argv[3])
script = importlib.machinery.SourceFileLoader("upgrade", sys.argv[1]).load_module()
found = script.steps
def steps(db, version):
    for number, statement in enumerate(found(db, version)):
        if number == at:
            os.kill(os.getpid(), signal.SIGKILL)
        yield statement
    os.kill(os.getpid(), signal.SIGKILL)
script.steps = steps
script.main([path])
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "sm.db")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PYTHON, SCRIPT, *arguments], capture_output=True, text=True, check=False)


def upgrade(path: str, version: int) -> None:
    shutil.copy(DATA / f"v{version}.db", path)
    finish(path, version)


def finish(path: str, version: int) -> None:
    upgraded = run(path)
    assert (upgraded.returncode, upgraded.stderr) == (0, "")
    assert upgraded.stdout.endswith(f"upgraded {path} from version {version} to 10\n")


def content(path: str) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        return [f"version {version}", *db.iterdump()]


@pytest.mark.parametrize("version", [1, 2])
async def test_upgraded_database_has_the_schema_of_a_new_one(tmp_path: Path, path: str, version: int) -> None:
    upgrade(path, version)
    new = str(tmp_path / "new.db")
    for opened in (path, new):
        async with await Store.open(opened):
            pass
    assert described(path) == described(new)


async def test_database_of_version_1_keeps_its_rows_and_accepts_new_ones(path: str) -> None:
    upgrade(path, 1)
    assert backups(path) == [f"{path}.v1.backup"]
    assert content(f"{path}.v1.backup") == content(str(DATA / "v1.db"))
    async with await Store.open(path) as store:
        assert store.instance == "8c0a5f6e-2f0e-4c0f-9a53-0d9c3a1b7e11"
        assert {s.id: s.status for s in [*store.sessions.values(), *await store.history.all()]} == {
            "aaaa1111": Status.RUNNING,
            "aaaa2222": Status.COMPLETED,
        }
        assert store.sessions["aaaa2222"].parent_id == "aaaa1111"
        assert await store.launch("aaaa1111") == LAUNCH
        assert [c.message for c in await store.checkpoints("aaaa2222", 50)] == ["Phase 1 (3/5 tasks)"]
        assert store.last_seq == 3
        assert store.mail.open.messages == {}
        assert [(e.id, e.kind) for e in store.mail.open.effects.values()] == [(1, "start")]
        await done(
            store, lambda tx: tx.mail.add_message(message(tx.mail.new_id("messages"), "aaaa1111"), "x")
        )
        await commit(store, lambda tx: tx.mail.add_notice(notice(1, session_id="aaaa2222")))
        assert store.mail.open.messages == {1: message(1, "aaaa1111")}


async def test_database_of_version_2_keeps_its_rows_and_numbers(path: str) -> None:
    upgrade(path, 2)
    async with await Store.open(path) as store:
        assert store.instance == "5d0f2c57-0c5b-4b57-8a55-2a2b1f0e9c22"
        assert {s.id: s.status for s in [*store.sessions.values(), *await store.history.all()]} == {
            "aaaa1111": Status.RUNNING,
            "aaaa2222": Status.COMPLETED,
        }
        assert store.mail.open.messages == {
            # The reason is stored in the database of that version, so new wordings do not change it.
            2: message(2, expires_at=LATER, reason="it has not taken it yet"),
            3: message(3, "aaaa1111", sender="sm"),
        }
        assert store.mail.open.requests == {1: request(1, expires_at=LATER), 2: replace(FULL_REQUEST, id=2)}
        assert store.mail.open.notices == {2: notice(2, "request:1", kind=NoticeKind.REQUEST)}
        assert await store.mail.message(1) == replace(FULL_MESSAGE, id=1, state=MessageState.SUBMITTED)
        assert await store.mail.texts([1, 2, 3, 4]) == {
            1: "done with it",
            2: "päth\n\tand more",
            3: "child x cömpleted",
            4: "",
        }
        assert [(e.id, e.kind) for e in store.mail.open.effects.values()] == [(1, "close")]
        assert [e.message for e in await store.events(sessions=["aaaa3333"])] == ["Child aaaa3333 started"]
        assert store.last_seq == 3
        assert await store.mail.lost() == 0
        # New numbers do not repeat old numbers.
        assert [store.mail.numbers[t] for t in ("messages", "requests", "notices", "outbox")] == [4, 2, 2, 1]


@pytest.mark.parametrize("version", [1, 2])
async def test_older_database_has_no_usage_and_accepts_new_usage(path: str, version: int) -> None:
    upgrade(path, version)
    async with await Store.open(path) as store:
        old = store.sessions["aaaa1111"]
        assert (old.conversation, old.transcript) == (None, None)
        measures = store.measures
        assert [
            await measures.positions(old.id),
            await measures.tools(old.id),
        ] == [{}, {}]
        assert await store.usage.of([old.id]) == {}
        assert await measures.facts(old.id) == {}
        await count(store, used("m1", 5))
        assert await outputs(store) == {(OPUS, False): 5}
        assert await store.sums.removed() == []
        assert {session.program_version for session in store.sessions.values()} == {None}


def test_texts_of_an_older_database_are_found(path: str) -> None:
    upgrade(path, 2)
    with closing(sqlite3.connect(path)) as db:
        found = (
            "SELECT source FROM search_texts WHERE id IN (SELECT rowid FROM search_index('more OR bäuild'))"
        )
        assert {source for (source,) in db.execute(found)} == {"message 2", "request 2"}
        assert not db.execute(
            "SELECT * FROM search_texts WHERE session_id = 'aaaa3333'"
        ).fetchall()  # removed


async def test_upgrade_maps_older_names_of_trust_levels(path: str) -> None:
    levels = {
        "trusted": TrustLevel.DIRECT,
        "full": TrustLevel.DIRECT,
        "vault": TrustLevel.DIRECT,
        " Vault ": TrustLevel.DIRECT,
        "UNTRUSTED": TrustLevel.SANDBOXED,
        "untrusted": TrustLevel.SANDBOXED,
        "direct": TrustLevel.DIRECT,
        "sandboxed": TrustLevel.SANDBOXED,
        "root": TrustLevel.SANDBOXED,
        "": TrustLevel.SANDBOXED,
    }
    shutil.copy(DATA / "v1.db", path)
    with closing(sqlite3.connect(path)) as db:
        names = [name for _, name, *_ in db.execute("PRAGMA table_info(sessions)")]
        values = ["?" if n in ("id", "trust_level", "effective_mode") else n for n in names]
        copy = f"INSERT INTO sessions SELECT {', '.join(values)} FROM sessions WHERE id = 'aaaa1111'"  # noqa: S608
        db.executemany(copy, [(f"bbbb{n:04}", name, name) for n, name in enumerate(levels)])
        db.commit()
    finish(path, 1)
    async with await Store.open(path) as store:
        kept = [store.sessions[f"bbbb{n:04}"] for n in range(len(levels))]
        assert [session.trust_level for session in kept] == list(levels.values())
        assert all(session.trust_level is session.effective_mode for session in kept)
    with closing(sqlite3.connect(path)) as db:
        after = {name for (name,) in db.execute("SELECT trust_level FROM sessions")}
    # Unknown names are kept and load as the least trusted level.
    assert after == {"direct", "sandboxed", "root", ""}


@pytest.mark.parametrize("at", [0, 1, 40, 95, 1000])
def test_killed_upgrade_leaves_the_older_database_and_can_be_repeated(path: str, at: int) -> None:
    shutil.copy(DATA / "v1.db", path)
    killed = subprocess.run(
        [*PYTHON, "-c", KILLED, SCRIPT, path, str(at)], stdout=subprocess.DEVNULL, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert content(path) == content(str(DATA / "v1.db"))
    finish(path, 1)
    assert {os.path.basename(backup) for backup in backups(path)} == {"sm.db.v1.backup", "sm.db.v1-2.backup"}
    assert content(f"{path}.v1.backup") == content(f"{path}.v1-2.backup") == content(str(DATA / "v1.db"))


async def test_database_that_is_open_is_refused(path: str) -> None:
    async with await Store.open(path):
        refused = run(path)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == f"error: {path} is in use\nhint: sm daemon stop\n"


def test_frames_of_a_log_that_a_killed_daemon_left_are_upgraded_too(path: str) -> None:
    shutil.copy(DATA / "v1.db", path)
    change = (
        "import os, sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('PRAGMA journal_mode = WAL');"
    )
    change += "db.execute(\"UPDATE sessions SET note = 'from the log'\"); db.commit(); os._exit(0)"
    subprocess.run([*PYTHON, "-c", change, path], check=True)
    assert os.path.getsize(f"{path}-wal")
    finish(path, 1)
    for file in (path, f"{path}.v1.backup"):
        with closing(sqlite3.connect(file)) as db:
            assert set(db.execute("SELECT note FROM sessions")) == {("from the log",)}


@pytest.mark.parametrize("version", [10, 13])
def test_database_that_sm_opens_stays_as_it_is(path: str, version: int) -> None:
    shutil.copy(DATA / f"v{version}.db", path)
    done = run(path)
    assert (done.returncode, done.stdout) == (0, f"{path} has version {version}: nothing to do\n")
    assert Path(path).read_bytes() == (DATA / f"v{version}.db").read_bytes()


def test_file_that_is_no_database_of_sm_is_refused(path: str) -> None:
    assert run(path).stderr == f"error: {path} was not changed: unable to open database file\n"
    Path(path).write_bytes(b"")
    assert run(path).stderr == f"error: {path} is not a database of sm\n"
    Path(path).write_bytes(b"this is not a database" * 100)
    refused = run(path)
    assert (refused.returncode, refused.stderr) == (
        1,
        f"error: {path} was not changed: file is not a database\n",
    )


def test_upgrade_explains_itself_with_help_and_without_a_path() -> None:
    assert (run("--help").returncode, run("--help").stderr) == (0, "")
    assert run().returncode == 2
    assert run("--help").stdout == run().stderr
    assert "scripts/upgrade-database PATH" in run().stderr

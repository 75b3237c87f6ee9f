"""Files of the operator for sandboxed sessions, on a played engine."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sm.paths import INSIDE_LAUNCH
from tests.sim.sandbox_stage import OWNER, SandboxInstance, open_instance

INBOX = "while sm inbox --take --wait --json >> read-$SM_SESSION_ID; do :; done"


@pytest.fixture
def instance() -> Iterator[SandboxInstance]:
    with open_instance() as instance:
        yield instance


def written(instance: SandboxInstance, name: str) -> str:
    path = instance.home / name
    path.write_bytes(b"content")
    return str(path)


def test_sandboxed_session_gets_its_files_where_its_container_mounts_them(instance: SandboxInstance) -> None:
    path = written(instance, "shot.png")
    session = instance.spawn("Sh", INBOX, "--workspace", "shop", "--file", path)["session_id"]
    instance.sm("send", session, "look", "--no-wait", "--file", path)
    (logged,) = instance.json("log", session)
    line = logged["text"].split("\n")[-1]
    assert line.startswith(f"[sm] file 1: {INSIDE_LAUNCH}/{session}.files/f-")
    (container,) = instance.containers
    (mount,) = [mount for mount in container.mounts if mount["Destination"] == INSIDE_LAUNCH]
    assert not mount["RW"]
    named = line.removeprefix("[sm] file 1: ").removesuffix(" (image/png, 7 bytes)")
    own = Path(mount["Source"], f"{session}.files")
    assert len(list(own.iterdir())) == 2
    copy = Path(mount["Source"]) / Path(named).relative_to(INSIDE_LAUNCH)
    assert copy.read_bytes() == b"content"
    owner = OWNER if os.geteuid() == 0 else os.geteuid()
    for place, mode in ((own, 0o700), (copy.parent, 0o700), (copy, 0o600)):
        assert (place.stat().st_mode & 0o777, place.stat().st_uid) == (mode, owner), place
    assert not list(instance.launch_dir.glob("*.files"))
    instance.sm("kill", session)
    instance.sm("rm", session)
    instance.settle()
    assert not own.exists()

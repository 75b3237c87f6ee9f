"""Archives on full or read-only file systems, exports to slow readers, and `sm archive` on a terminal."""

import os
import pty
import select
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.archived import Archived
from tests.instance import SM, Instance, until
from tests.integration.ended_agents import wait_outbox
from tests.integration.played_claude import BOX, Stage
from tests.played.test_archives import SETTINGS, killed, said
from tests.raw_http import connected


@contextmanager
def small_disk(directory: Path, size_bytes: int = 20 * 2**20) -> Iterator[Path]:
    """A file system of its own."""
    directory.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "none", directory]).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


def remount(disk: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", disk], check=True)


def archiving_to(directory: Path) -> str:
    return f'\nchild_agents: {{cleanup: {{archive_path: "{directory}"}}}}\n'


def test_export_of_an_archive_that_waits_for_disk_space_says_so(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 2**20) as disk, Instance(archiving_to(disk / "archives")) as instance:
        filler = disk / "filler"
        filler.write_bytes(bytes(2**20))
        session = instance.spawn("Sh", "echo the dunnart")["session_id"]
        instance.ended(session)
        until(lambda: instance.get("/v1/status")["trouble"], "the archive could not be written")
        file = str(tmp_path / "x.tar.gz")
        refusal = instance.refused("export", session, file, exit_code=6)
        assert f"the archive of session {session} could not be saved in {disk}/archives" in refusal
        assert "free disk space: sm tries again" in refusal and "auto_archive_transcript" not in refusal
        filler.unlink()
        wait_outbox(instance)
        instance.sm("export", session, file)


def test_transcript_that_is_cut_on_an_almost_full_disk_is_an_event_and_a_trouble(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk", 2 * 2**20) as disk,
        Stage(SETTINGS + archiving_to(disk / "ar"), BOX) as stage,
    ):
        (disk / "filler").write_bytes(bytes(2 * 2**20 - 80 * 1024))
        agent = stage.agent("Plain")
        agent.send_event("UserPromptSubmit", prompt="work", prompt_id="1")
        agent.write_message(said(f"The walrus {'parser ' * 20_000}"))
        until(
            lambda: "walrus" in str(stage.get(f"/v1/sessions/{agent.id}/actions")), "the transcript is known"
        )
        stage.sm("kill", agent.id)
        wait_outbox(stage)
        assert (Archived(disk / "ar" / agent.id) / "cut.json").exists()
        for path in (disk / "ar").rglob("*"):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
        (warning,) = [e["message"] for e in stage.events(agent.id) if e["type"] == "warning"]
        assert "free disk space is low" in warning
        (trouble,) = stage.json("status")["trouble"]
        assert "free disk space is low" in trouble
        (disk / "filler").unlink()
        other = stage.agent("Plain")
        stage.sm("kill", other.id)
        wait_outbox(stage)
        assert stage.json("status")["trouble"] == []


def test_archive_of_a_removed_session_is_deleted_when_its_disk_can_be_written_again(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, Instance(archiving_to(disk / "archives")) as instance:
        session = instance.spawn("Sh", "echo the dunnart")["session_id"]
        instance.ended(session)
        wait_outbox(instance)
        archive = Archived(disk / "archives" / session)
        reason = (
            f"session {session}: its archive could not be deleted from {disk}/archives: Read-only file system"
        )
        remount(disk, "ro")
        instance.sm("rm", session)
        until(lambda: instance.get("/v1/status")["trouble"] == [reason], "the failure is shown")
        instance.restart_daemon()
        until(lambda: instance.get("/v1/status")["trouble"] == [reason], "the next daemon tries again")
        assert (archive / "terminal.txt").exists()
        remount(disk, "rw")
        until(lambda: instance.get("/v1/status")["trouble"] == [], "it is deleted")
        assert list(archive.path.parent.iterdir()) == []
        assert instance.json("status")["dead_letters"] == 0


def begins_export(answer: socket.socket, session: str) -> bool:
    answer.sendall(f"GET /v1/sessions/{session}/export HTTP/1.1\r\nHost: sm\r\n\r\n".encode())
    return answer.recv(100).startswith(b"HTTP/1.1 200")


def test_exports_at_the_same_time_are_limited(instance: Instance, tmp_path: Path) -> None:
    noise = "head -c 2000000 /dev/urandom | base64 -w 200; echo the end"
    session = instance.spawn("Sh", f"{noise}; exec sleep 1000")["session_id"]
    until(lambda: "the end" in instance.output(session), "its output is shown")
    killed(instance, session)
    answers = [connected(str(instance.socket)) for _ in range(2)]
    for answer in answers:
        assert begins_export(answer, session)  # the rest waits for a reader
    file = str(tmp_path / "x.tar.gz")
    assert "too many archives" in instance.refused("export", session, file, exit_code=6)
    for answer in answers:
        answer.close()

    def have_ended() -> bool:
        with connected(str(instance.socket)) as answer:
            return begins_export(answer, session)

    until(have_ended, "the exports have ended")
    assert instance.sm("export", session, file)


@pytest.mark.parametrize(("key", "archived"), [(b"u", False), (b"x", True)])
def test_archive_is_taken_back_with_a_key_on_a_terminal(
    instance: Instance, key: bytes, archived: bool
) -> None:
    session = instance.spawn("Sh", "true")["session_id"]
    instance.ended(session)
    parent, child = pty.openpty()
    process = subprocess.Popen([SM, "archive", session], stdin=child, stdout=child, env=instance.env)
    os.close(child)
    shown = b""
    while b"undo)" not in shown:
        assert select.select([parent], [], [], 60)[0]
        shown += os.read(parent, 1000)
    os.write(parent, key)
    assert process.wait(60) == 0
    os.close(parent)
    assert instance.session(session)["archived"] is archived

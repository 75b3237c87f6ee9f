"""Files of the operator with real processes: a daemon that is killed, and the rights of files on the disk."""

import os
import signal
from pathlib import Path

import pytest

from sm.client.http import Client
from tests.instance import Instance

pytestmark = pytest.mark.processes


def test_upload_outlives_a_killed_daemon_and_only_its_owner_can_read_it() -> None:
    with Instance() as instance:
        instance.start_daemon()
        session = instance.spawn("Sleeper", "a task")["session_id"]
        client = Client(str(instance.socket))
        file = client.upload("/v1/files", {"name": "shot.png"}, b"a picture")["file_id"]
        os.kill(instance.daemon_pid, signal.SIGKILL)
        instance.sm("daemon", "start")
        client.post("/v1/messages", {"to": session, "text": "look", "files": [file]})
        (logged,) = instance.json("log", session)
        path = Path(logged["text"].split("file 1: ")[1].removesuffix(" (image/png, 9 bytes)"))
        assert path.read_bytes() == b"a picture"
        modes = [place.stat().st_mode & 0o777 for place in (path, path.parent, path.parent.parent)]
        assert modes == [0o600, 0o700, 0o700]
        assert list((instance.state / "uploads").iterdir()) == []

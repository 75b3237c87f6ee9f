"""The end of `sm events --follow`: its reader is gone, or a person presses Ctrl-C."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.instance import SM, Instance
from tests.session_client import request_as


@contextmanager
def following(instance: Instance) -> Iterator["subprocess.Popen[str]"]:
    """A follower that has printed its first event."""
    with subprocess.Popen(
        [SM, "events", "--follow", "--since", "0"],
        env=instance.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as follower:
        assert follower.stdout is not None
        assert "spawned" in follower.stdout.readline()
        yield follower


def test_follower_exits_silently_when_its_output_is_closed(instance: Instance) -> None:
    session_id = instance.spawn("Sleeper", "x")["session_id"]
    with following(instance) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        follower.stdout.close()
        request_as(
            instance, session_id, ("POST", "/v1/sessions/me/note", None, {"text": "nobody reads this"})
        )
        follower.wait()
        assert follower.stderr.read() == ""


def test_follower_exits_with_130_on_ctrl_c(instance: Instance) -> None:
    instance.spawn("Sleeper", "x")
    with following(instance) as follower:
        follower.send_signal(signal.SIGINT)
        assert follower.wait() == 130

"""The engine of the tests: it starts again after a crash, and other tests have none."""

import json
import os
import signal
import subprocess
import sys

import pytest

from sm.linux.processes import is_alive
from tests.engine import NO_ENGINE, REPOSITORY, EngineProcess, started_anew
from tests.engine_images import IMAGE
from tests.instance import Instance

pytestmark = pytest.mark.processes


def _labels(url: str, image: str) -> dict[str, str]:
    command = ["docker", "-H", url, "image", "inspect", "--format", "{{json .Config.Labels}}", image]
    labels: dict[str, str] = json.loads(subprocess.check_output(command))
    return labels


def test_sandbox_image_has_the_labels_of_an_image_of_sm(engine: str, sandbox_image: str) -> None:
    assert _labels(engine, sandbox_image).items() >= {"app": "sm", "type": "image"}.items()


def test_engine_starts_again_after_a_crash_beside_a_stale_pid_file(private_engine: EngineProcess) -> None:
    before = private_engine.process()
    private_engine.kill()
    assert private_engine.process() is None
    (private_engine.run / "pid").write_text(str(os.getpid()))
    private_engine.start()
    assert private_engine.process() not in (None, before)
    assert private_engine.answers()


LEAVE = """
import os, signal, sys
from pathlib import Path
from tests.engine import EngineProcess
left = EngineProcess(Path(sys.argv[1]), "--live-restore")
left.start()
left.run_docker("run", "-d", "--network=none", sys.argv[2], "sleep", "1000")
left.hang()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_engine_that_a_killed_run_left_is_taken_over(private_engine: EngineProcess, engine: str) -> None:
    private_engine.stop()
    argv = [sys.executable, "-c", LEAVE, str(private_engine.data), IMAGE]
    assert subprocess.run(argv, cwd=REPOSITORY, check=False).returncode == -signal.SIGKILL
    left = private_engine.process()
    assert left is not None
    containers = ["docker", "-H", private_engine.url, "ps", "-aq"]
    with started_anew(private_engine.data, engine, IMAGE) as taken:
        assert taken.process() not in (None, left)
        assert not is_alive(left)
        assert subprocess.check_output(containers) == b""
        assert _labels(taken.url, IMAGE)
    assert taken.process() is None
    assert not taken.run.exists()


def test_other_tests_and_their_daemons_have_no_engine(instance: Instance) -> None:
    assert os.environ["DOCKER_HOST"] == instance.env["DOCKER_HOST"] == NO_ENGINE

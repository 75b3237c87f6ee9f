"""The engine of the tests: it starts again after a crash, and other tests have none."""

import json
import os
import subprocess

import pytest

from tests.engine import NO_ENGINE, EngineProcess
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


def test_other_tests_and_their_daemons_have_no_engine(instance: Instance) -> None:
    assert os.environ["DOCKER_HOST"] == instance.env["DOCKER_HOST"] == NO_ENGINE

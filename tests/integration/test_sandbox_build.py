"""`sm sandbox build` as a user sees it: the real command and daemon, a real engine, and a short Dockerfile."""

import json
import re
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sm import __version__
from tests.engine_images import BASE
from tests.instance import SM, Instance
from tests.typist import Typist

DAEMON = [sys.executable, "-m", "tests.integration.image_build_daemon"]
REPOSITORY = Path(__file__).parents[2]
LABELS = f"LABEL app=sm type=image version={__version__} uid=1 gid=1 agents="
STEPS = ["FROM debian:bookworm-slim", "RUN echo first; echo second", LABELS]


class Builds:
    """An instance whose image has a name of its own. `write` changes its Dockerfile."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.image = f"sm-test-{uuid.uuid4().hex[:8]}"
        self.instance = Instance(f'sandbox: {{engine: "{engine}", image: {self.image}}}')
        self.dockerfile = self.instance.home / "Dockerfile"
        self.write(*STEPS)
        environment = {"SM_TEST_DOCKERFILE": str(self.dockerfile), "PYTHONPATH": str(REPOSITORY)}
        self.instance.run_daemon(*DAEMON, env=environment)

    def write(self, *steps: str) -> None:
        self.dockerfile.write_text("".join(f"{step}\n" for step in steps))

    def docker(self, *arguments: str) -> str:
        return subprocess.run(
            ["docker", "-H", self.engine, *arguments],
            capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip

    def id(self) -> str:
        return self.docker("images", "--quiet", "--no-trunc", self.image)

    def build(self, *options: str) -> str:
        return self.instance.sm("sandbox", "build", "--with", "none", *options)

    def remove(self) -> None:
        if self.id():
            self.docker("rmi", self.image)


@pytest.fixture(scope="module")
def opened(engine: str, base_image: str) -> Iterator[Builds]:
    builds = Builds(engine)
    yield builds
    builds.instance.end()


@pytest.fixture
def builds(opened: Builds) -> Iterator[Builds]:
    """Without an image, and with the steps of all tests."""
    opened.write(*STEPS)
    yield opened
    opened.remove()


@pytest.fixture
def gate(builds: Builds) -> Iterator[socket.socket]:
    """A listener to which the second step connects, and which then waits for a line. Builds have the host's network."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(None)
        port = listener.getsockname()[1]
        builds.write(STEPS[0], f'RUN ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/{port}; read -u 3"]', LABELS)
        yield listener


def numbered(*steps: str) -> list[str]:
    return [f"{number}/{len(steps)} {step}" for number, step in enumerate(steps, 1)]


def test_build_prints_one_line_for_each_step_and_the_image(builds: Builds) -> None:
    *steps, last = builds.build().splitlines()
    assert steps == numbered(*STEPS)
    assert re.fullmatch(rf"Built {builds.image} with no agents, [\d.]+ MB", last)
    assert builds.id()


def test_build_shows_the_output_of_a_step_in_one_changing_line_on_a_terminal(builds: Builds) -> None:
    typist = Typist(builds.instance.env, builds.instance.work)
    try:
        code, output = typist.type("sm sandbox build --with none --no-cache")
    finally:
        typist.end()
    assert code == 0
    start = "\r\x1b[K"
    for step in numbered(*STEPS):
        assert f"{start}{step}\n" in output
    # The next line replaces each line of output.
    assert f"{start}  first{start}  second{start}" in output
    assert output.rstrip().rpartition(start)[2].startswith(f"Built {builds.image} with no agents")


def test_build_is_one_line_of_the_audit_log(builds: Builds) -> None:
    def lines() -> int:
        builds.instance.sm("sandbox", "status")
        text = (builds.instance.state / "log/audit.jsonl").read_text()
        return [json.loads(line)["what"] for line in text.splitlines()].count("manage_sandboxes")

    before = lines()
    builds.build()
    assert lines() == before + 1


def test_build_prints_one_object_with_json(builds: Builds) -> None:
    image = json.loads(builds.build("--json"))
    assert (image["name"], image["version"], image["agents"]) == (builds.image, __version__, [])
    assert (image["id"], image["warnings"]) == (builds.id(), [])


def test_two_builds_at_the_same_time_are_one(builds: Builds, gate: socket.socket) -> None:
    command = [SM, "sandbox", "build", "--with", "none"]
    runs = [start(builds, *command) for _ in range(2)]
    connection, _ = gate.accept()
    try:
        assert "being built with other options" in builds.instance.refused(
            "sandbox", "build", "--with", "none", "--no-cache", exit_code=4
        )
        outputs = [first_line(run) for run in runs]
        connection.sendall(b"go\n")
    finally:
        connection.close()
    outputs = [first + run.communicate()[0] for first, run in zip(outputs, runs, strict=True)]
    assert [run.returncode for run in runs] == [0, 0]
    assert outputs[0] == outputs[1]
    gate.settimeout(0)
    with pytest.raises(BlockingIOError):  # no second build connected
        gate.accept()


def start(builds: Builds, *command: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command, env=builds.instance.env, cwd=builds.instance.work, stdout=subprocess.PIPE, text=True
    )


def first_line(run: "subprocess.Popen[str]") -> str:
    """Wait until a build shows its first step."""
    assert run.stdout is not None
    return run.stdout.readline()


def test_interrupted_command_leaves_the_build_which_the_next_one_joins(
    builds: Builds, gate: socket.socket
) -> None:
    run = start(builds, SM, "sandbox", "build", "--with", "none")
    first_line(run)
    connection, _ = gate.accept()
    run.terminate()
    run.communicate()
    again = start(builds, SM, "sandbox", "build", "--with", "none")
    assert first_line(again).startswith("1/3 ")
    connection.sendall(b"go\n")
    connection.close()
    again.communicate()
    assert again.returncode == 0
    gate.settimeout(0)
    with pytest.raises(BlockingIOError):
        gate.accept()


def test_failed_build_prints_the_last_lines_of_its_step_and_leaves_the_image(builds: Builds) -> None:
    builds.build()
    before = builds.id()
    builds.write(STEPS[0], "RUN for n in $(seq 100); do echo line $n; done; exit 3")
    for options in ([], ["--json"]):
        failed = builds.instance.run("sandbox", "build", "--with", "none", *options)
        assert failed.returncode == 9
        message = json.loads(failed.stderr)["error"]["message"] if options else failed.stderr
        assert "the image could not be built" in message
        assert "line 100" in message
        assert "line 50" not in message
        assert "exit code 3" in message
    assert builds.id() == before


def test_build_without_the_registry_names_the_option_and_leaves_the_image(builds: Builds) -> None:
    missing = "127.0.0.1:9/sm-test:base"  # nothing listens on the port
    builds.docker("tag", BASE, missing)
    try:
        builds.write(f"FROM {missing}", *STEPS[1:])
        builds.build()
        before = builds.id()
        error = builds.instance.run("sandbox", "build", "--with", "none", "--pull")
        assert error.returncode == 9
        assert "127.0.0.1:9" in error.stderr
        assert error.stderr.splitlines()[-1] == (
            "hint: without --pull, the build uses the base image that the engine has: sm sandbox build"
        )
        assert builds.id() == before
    finally:
        builds.docker("rmi", missing)
    error = builds.instance.run("sandbox", "build", "--with", "none")
    assert error.returncode == 9
    assert error.stderr.splitlines()[-1].startswith(
        "hint: the engine must reach the registry, perhaps through"
    )
    assert error.stderr.rstrip().endswith(f"docker pull {missing}")
    assert builds.id() == before


def test_build_repeats_every_step_only_without_the_cache(builds: Builds) -> None:
    builds.write(STEPS[0], "RUN head -c 16 /dev/urandom > /random", LABELS)
    builds.build()
    before = builds.id()
    builds.build()
    assert builds.id() == before
    builds.build("--no-cache")
    assert builds.id() != before
    builds.docker("rmi", before)

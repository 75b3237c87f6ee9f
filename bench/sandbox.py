"""Measures sandboxed sessions on a real engine: their start, reports, end and costs.

SM_TEST_ENGINE names the engine, else the one of this machine is used. It must have the image of the tests
(`sm-sandbox:work`) or `sm-sandbox`.
"""

import asyncio
import contextlib
import os
import select
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from bench import agents, watching
from bench.container_floor import run_options
from bench.instance import Connection, Instance, until
from bench.row import Effort, Judged, Pairs, Row, timed_ms
from sm.config import sandbox_for
from sm.config.model import Config
from sm.core.models import Workspace
from sm.daemon.client_files import write_client
from sm.paths import InstancePaths
from sm.sandboxes.docker.containers import Containers
from sm.sandboxes.docker.engine import DEFAULT_URL, Engine
from sm.sandboxes.docker.spec import build_spec

_IMAGES = ("sm-sandbox:work", "sm-sandbox")
_OWNER = 1000
"""The user of the container where the daemon runs as root, because no container does."""
_INSTANCE = "0" * 32
_ANSWER_S = 60.0
# Reports once for each line, and answers with the milliseconds that it took.
_REPORTER = """\
import subprocess, sys, time
with open(sys.argv[1] + ".go") as go, open(sys.argv[1] + ".ms", "w", buffering=1) as answers:
    for line in go:
        begin = time.perf_counter()
        subprocess.run(["sm", "checkpoint", "step " + line.strip()], check=True, stdout=subprocess.DEVNULL)
        print((time.perf_counter() - begin) * 1000, file=answers)
"""


def measure(effort: Effort) -> Iterator[Row]:
    url = os.environ.get("SM_TEST_ENGINE") or os.environ.get("DOCKER_HOST") or DEFAULT_URL
    image = _image(url)
    with Sandboxed(url, image) as instance:
        _settle(instance)
        before_kb = watching.memory_kb(instance.daemon.pid)["Rss"]
        (alone,) = watching.cpu_percent(effort.watch_s, [], instance.daemon.pid)
        container = instance.first_container()
        after_kb = watching.memory_kb(instance.daemon.pid)["Rss"]
        yield from _warm(instance, container, effort.pairs)
        yield _checkpoint(instance, effort.pairs)
        yield _death(instance, effort.pairs)
        yield _watching(instance, effort, alone)
    yield from _first(url, image, effort.containers)
    yield _memory(
        "memory of the daemon (RSS) with the SDK", after_kb, before_kb, "before the first container", 25
    )
    with Instance() as instance:
        _settle(instance)
        without_kb = watching.memory_kb(instance.daemon.pid)["Rss"]
    what = "memory of the daemon (RSS) before the first container"
    yield _memory(what, before_kb, without_kb, "a daemon whose engine does not exist", 1)


def _settle(instance: Instance) -> None:
    """Start an agent on the host, and wait for the work that follows.

    A daemon that ends in the middle of its first command leaves a tmux client, which makes files in the home.
    """
    instance.spawn()
    until(instance.has_spare, "a spare session exists")


def _image(url: str) -> str:
    for image in _IMAGES:
        found = subprocess.run(
            ("docker", "-H", url, "images", "--quiet", image), capture_output=True, check=False
        )
        if found.returncode == 0 and found.stdout:
            return image
    raise SystemExit(
        f"bench sandbox needs a Docker engine with the image {_IMAGES[0]} or {_IMAGES[1]} at {url}"
    )


class Sandboxed(Instance):
    """An instance with a workspace whose sessions run in a container, which it removes at the end."""

    def __init__(self, url: str, image: str) -> None:
        super().__init__(config=f'sandbox: {{engine: "{url}", image: "{image}", network: none}}\n')
        self.url = url
        self.work = make_work(self.home)

    def __enter__(self) -> Self:
        super().__enter__()
        self.client.post("/v1/workspaces", {"slug": "shop", "working_dir": str(self.work)})
        return self

    def _end(self) -> None:
        with contextlib.suppress(AttributeError):  # the daemon did not start
            self.kill(self.daemon)
        remove_containers(self.url, self.work)
        super()._end()

    def sandboxed_request(self, agent_type: str = "Sleep", prompt: str | None = None) -> dict[str, object]:
        request = self.spawn_request(agent_type, prompt)
        return request | {"workspace": "shop", "trust": "sandboxed", "cwd": str(self.work)}

    def spawn_sandboxed(self, agent_type: str = "Sleep", prompt: str | None = None) -> dict[str, Any]:
        session: dict[str, Any] = self.client.post("/v1/sessions", self.sandboxed_request(agent_type, prompt))
        if session["effective_mode"] != "sandboxed":
            raise RuntimeError("the session is not sandboxed")
        return session

    def end_session(self, session: dict[str, Any]) -> None:
        self.client.post(f"/v1/sessions/{session['session_id']}/kill", {"force": True})

    def first_container(self) -> str:
        """Make the container of the workspace, and return its id."""
        self.end_session(self.spawn_sandboxed())
        return containers_of(self.url, self.work)[0]


def make_work(home: Path) -> Path:
    """A directory for a workspace, whose owner is not root."""
    work = home / "work"
    work.mkdir()
    if os.geteuid() == 0:
        os.chown(work, _OWNER, _OWNER)
    return work


def containers_of(url: str, work: Path) -> list[str]:
    """The ids of all containers that mount the directory."""
    argv = ("docker", "-H", url, "ps", "--all", "--quiet", "--no-trunc", "--filter", f"volume={work}")
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


def remove_containers(url: str, work: Path) -> None:
    if found := containers_of(url, work):
        subprocess.run(("docker", "-H", url, "rm", "--force", *found), stdout=subprocess.DEVNULL, check=True)


# ------------------------------------------------------------------------------------------------------- starts


def _warm(instance: Sandboxed, container: str, times: int) -> Iterator[Row]:
    connection = Connection(instance.socket)
    request = instance.sandboxed_request()
    command = ("docker", "-H", instance.url, "exec", container, "true")
    started: list[dict[str, Any]] = []

    def spawn() -> None:
        started.append(connection.ask("POST", "/v1/sessions", request))

    def one() -> tuple[float, float]:
        ours = timed_ms(spawn)
        instance.end_session(started[-1])  # its end would disturb the floor
        return ours, timed_ms(partial(subprocess.run, command, check=True))

    one()
    pairs = _pairs([one() for _ in range(times)])
    connection.close()
    ours, floor = statistics.median(pairs.ours), statistics.median(pairs.floor)
    what = "spawn into a warm container: request to agent running"
    yield Row(
        *(what, "ms", ours, floor, "docker exec true", pairs.ratio),
        gate=1.2 * floor + 15,
        aim=1.05 * floor + 10,
    )
    yield Row("  with a fixed limit", "ms", ours, gate=200)


def _pairs(measured: Sequence[tuple[float, float]]) -> Pairs:
    return Pairs([ours for ours, _ in measured], [floor for _, floor in measured])


def _first(url: str, image: str, times: int) -> Iterator[Row]:
    with Instance() as instance:
        work = make_work(instance.home)
        try:
            pairs = asyncio.run(_containers(url, image, instance.home, work, times))
        finally:
            remove_containers(url, work)
    yield pairs.row("first container", "docker run -d, same options", Judged.RATIO, 1.2, None)


async def _record_nothing(*_: object) -> None: ...


async def _containers(url: str, image: str, home: Path, work: Path, times: int) -> Pairs:
    """Make the container as the daemon does, in turn with the command."""
    paths = InstancePaths(f"{home}/config.yaml", f"{home}/state")
    config = Config.model_validate({"sandbox": {"engine": url, "image": image, "network": "none"}})
    workspace = Workspace("shop", str(work), "2026-01-01T00:00:00Z")
    settings: Callable[[Workspace | None], Any] = partial(sandbox_for, config)
    engine = Engine(url)
    containers = Containers(
        engine,
        paths,
        _INSTANCE,
        settings,
        {"shop": workspace}.get,
        partial(write_client, paths),
        _record_nothing,
    )
    measured = []
    try:
        nofile_max = (await engine.facts()).nofile_max
        for _ in range(times + 1):
            begin = asyncio.get_running_loop().time()
            await containers.ensure(workspace)
            ours = (asyncio.get_running_loop().time() - begin) * 1000
            await containers.remove("shop")
            spec = build_spec(workspace, settings(workspace), paths, _INSTANCE, nofile_max=nofile_max)
            argv = ("docker", "-H", url, "run", *run_options(spec))
            run = partial(subprocess.run, argv, capture_output=True, check=True)
            measured.append((ours, timed_ms(run)))
            remove_containers(url, work)
    finally:
        await containers.close()
        engine.close()
    return _pairs(measured[1:])


# ------------------------------------------------------------------------------------------ reports, end, costs


def _checkpoint(instance: Sandboxed, times: int) -> Row:
    """Two agents run the same program, in turn: one in a container and one on the host."""
    script = instance.work / "reporter.py"
    script.write_text(_REPORTER)
    script.chmod(0o644)
    with contextlib.ExitStack() as stack:
        inside, outside = (
            stack.enter_context(contextlib.closing(_Reporter(instance.work / name, os.stat(instance.work))))
            for name in ("inside", "outside")
        )
        sessions = [
            instance.spawn_sandboxed("Sh", inside.command(script)),
            instance.spawn("Sh", outside.command(script)),
        ]
        pairs = _pairs([(inside.report(), outside.report()) for _ in range(times + 1)][1:])
        for session in sessions:
            instance.end_session(session)
    return pairs.row("sm checkpoint in a container", "sm checkpoint on the host", Judged.RATIO, 1.5, None)


class _Reporter:
    """The two pipes of an agent that reports when it is told to."""

    def __init__(self, base: Path, owner: os.stat_result) -> None:
        self._base = base
        for suffix in (".go", ".ms"):
            os.mkfifo(f"{base}{suffix}", 0o600)
            os.chown(f"{base}{suffix}", owner.st_uid, owner.st_gid)
        # Open for both directions: neither side waits for the other one.
        self._go, self._ms = (os.open(f"{base}{suffix}", os.O_RDWR) for suffix in (".go", ".ms"))

    def command(self, script: Path) -> str:
        return f"exec python3 {script} {self._base}"

    def report(self) -> float:
        """The milliseconds of one report."""
        os.write(self._go, b"report\n")
        if not select.select([self._ms], [], [], _ANSWER_S)[0]:
            raise RuntimeError(f"{self._base.name}: no report within {_ANSWER_S:.0f} s")
        return float(os.read(self._ms, 100))

    def close(self) -> None:
        os.close(self._go)
        os.close(self._ms)


def _death(instance: Sandboxed, times: int) -> Row:
    pairs = agents.deaths(instance, times, instance.spawn_sandboxed)
    ours, floor = statistics.median(pairs.ours), statistics.median(pairs.floor)
    return Row("a sandboxed agent dies -> event with its signal", "ms", ours, floor, "its pidfd", gate=50)


def _watching(instance: Sandboxed, effort: Effort, alone: float) -> Row:
    for _ in range(effort.sandboxed):
        instance.spawn_sandboxed()
    watching.settle()
    (with_sessions,) = watching.cpu_percent(effort.watch_s, [], instance.daemon.pid)
    what = f"watching {effort.sandboxed} sandboxed sessions: CPU of the daemon, of a core"
    return Row(what, "%", with_sessions, alone, "without sessions", judged=Judged.ABOVE, gate=1)


def _memory(what: str, ours_kb: int, floor_kb: int, floor_is: str, gate: float) -> Row:
    return Row(what, "MB", ours_kb / 1024, floor_kb / 1024, floor_is, judged=Judged.ABOVE, gate=gate)

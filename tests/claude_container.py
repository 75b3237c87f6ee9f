"""The container of a workspace in which tests run the real Claude Code, a program of this host that is mounted.

`SM_CLAUDE_INSIDE=1` runs the tests of the host's claude in it too, except those in `NOT_INSIDE`.
"""

import os
import subprocess
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from sm.linux.processes import namespace_pid
from tests import claude_cli
from tests.container_port import forwarded

INSIDE = os.environ.get("SM_CLAUDE_INSIDE") == "1"
OWNER = 1234
"""The user of the container if the tests run as root, for whom no container runs."""
CONFIG = """
sandbox:
  engine: "{engine}"
  image: "{image}"
  network: none
  mounts: ["{program}"]
"""

_FIRST_START = "a container has no first-start dialogs: sm answers them before"
_PANE = "a person starts claude in a shell of the host"
NOT_INSIDE = {
    "test_claude_start.py": "the program, the environment and the dialogs of the host; see test_claude_sandbox.py",
    "test_claude_setup.py": _FIRST_START,
    "test_claude_project.py": "trust in repositories of the host: a container trusts its workspace",
    "test_claude_pages.py": "a reader types the pages on the host",
    "test_claude_capabilities.py": "the MCP servers are programs of the host",
    "test_claude_sandbox.py": "it always runs inside",
    "test_interrupt_is_refused_while_claude_shows_its_first_start_question": _FIRST_START,
    "test_claude_in_a_users_pane_can_be_adopted_killed_and_restored": _PANE,
    "test_adopted_claude_that_its_shell_has_stopped_is_waiting_input": _PANE,
    "test_message_is_not_typed_into_the_shell_that_an_adopted_claude_leaves": _PANE,
}
"""Files and tests that make no sense in a container, with the reason."""

_chosen: tuple[str, str] | None = None


@pytest.fixture(scope="session", autouse=INSIDE)
def claude_inside(request: pytest.FixtureRequest) -> None:
    """Let every `ClaudeInstance` run its agents in a container. Skips the tests without an engine."""
    global _chosen
    _chosen = request.getfixturevalue("engine"), request.getfixturevalue("sandbox_image")


def chosen() -> tuple[str, str] | None:
    """The engine and the image for every `ClaudeInstance`; None: its agents run on the host."""
    return _chosen


def reason_not_inside(item: pytest.Item) -> str | None:
    name = item.originalname if isinstance(item, pytest.Function) else item.name
    return NOT_INSIDE.get(name) or NOT_INSIDE.get(item.path.name)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if INSIDE:
        outside = [item for item in items if reason_not_inside(item)]
        config.hook.pytest_deselected(items=outside)
        items[:] = [item for item in items if item not in outside]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if INSIDE:
        terminalreporter.section("deselected, because claude runs in a container")
        for name, reason in NOT_INSIDE.items():
            terminalreporter.line(f"{name}: {reason}")


class Container:
    """The container of workspace `slug`. claude reaches the port of the scripted API in it, in each one made anew.

    Without root the test is skipped; in CI, it fails.
    """

    def __init__(self, engine: str, image: str, slug: str, port: int) -> None:
        if os.geteuid() != 0:
            refuse = pytest.fail if os.environ.get("CI") else pytest.skip
            refuse("a port in the network of a container needs root")
        self.engine = engine
        self.slug = slug
        self._port = port
        self.program = Path(os.path.realpath(claude_cli.binary()))
        self.config = CONFIG.format(engine=engine, image=image, program=self.program.parent)
        self._ports = ExitStack()
        self._starts = subprocess.Popen(
            [
                "docker", "-H", engine, "events", "--format", "{{.ID}}",
                "--filter", "type=container", "--filter", "event=start", "--filter", f"label=workspace={slug}",
            ],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._watch = threading.Thread(target=self._open_ports, daemon=True)
        self._watch.start()

    def _open_ports(self) -> None:
        assert self._starts.stdout is not None
        for line in self._starts.stdout:
            inspect = ["docker", "-H", self.engine, "inspect", "--format", "{{.State.Pid}}", line.strip()]
            pid = subprocess.run(inspect, capture_output=True, text=True, check=False).stdout.strip()
            # No pid, or no such process: it has ended already.
            with suppress(FileNotFoundError, ProcessLookupError):
                if pid not in ("", "0"):
                    self._ports.enter_context(forwarded(int(pid), self._port))

    def give(self, path: Path) -> None:
        """Make a file or a directory belong to the user of the container."""
        os.chown(path, OWNER, OWNER)

    def close(self) -> None:
        self._starts.terminate()
        self._watch.join()
        self._starts.wait()
        assert self._starts.stdout is not None
        self._starts.stdout.close()
        self._ports.close()


def published_pid(pid: int) -> int:
    """The pid that a process has itself, which differs in a container."""
    own = namespace_pid(pid)
    assert own is not None
    return own

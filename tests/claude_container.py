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
  mounts: ["{program}", "{shared}:rw"]
"""

NOT_INSIDE = {
    "a container has no first-start dialogs: sm answers them before the start": (
        "test_interrupt_is_refused_while_claude_shows_its_first_start_question",
        "test_spawn_error_names_the_first_start_question_and_how_to_answer_it",
        "test_spawn_is_refused_when_claude_would_ask_a_first_start_question",
        "test_agent_is_told_to_ask_the_operator_when_claude_would_ask_a_first_start_question",
        "test_spawn_on_a_terminal_asks_whether_claude_may_trust_the_directory",
        "test_untrusted_directory_can_be_trusted_by_a_key_press_or_by_sm_trust",
        "test_claude_executes_nothing_before_its_directory_is_trusted",
        "test_approval_of_a_trust_dialog_starts_the_agent",
        "test_only_the_operator_may_answer_a_first_start_dialog",
        "test_denial_of_a_trust_dialog_ends_the_agent",
        "test_trust_dialog_and_bypass_warning_are_two_requests",
        "test_restore_sends_the_prompt_of_an_agent_that_was_killed_in_a_dialog_exactly_once",
        "test_sm_trust_lets_the_agents_go_on_that_wait_in_the_directory",
        "test_sm_trust_with_bypass_lets_an_agent_go_on_that_waits_in_both_dialogs",
        "test_request_is_closed_when_a_person_answers_the_dialog",
        "test_request_is_cancelled_when_its_agent_ends",
        "test_request_can_be_approved_when_the_daemon_was_killed",
        "test_approval_fails_when_the_terminal_does_not_show_the_whole_dialog",
    ),
    "no container runs as root; test_bypassed_permissions_need_no_consent_in_a_container runs inside": (
        "test_spawn_refuses_to_bypass_permissions_as_root_outside_a_sandbox",
    ),
    "a start without a login is refused; see test_start_without_a_login_is_refused_with_both_remedies": (
        "test_spawn_reports_a_missing_login_with_and_without_a_prompt",
    ),
    "claude is part of the image; see test_missing_agent_cli_names_the_build_that_installs_it": (
        "test_spawn_error_says_how_to_install_claude_when_it_is_missing",
    ),
    "a person starts claude in a shell of the host": (
        "test_claude_in_a_users_pane_can_be_adopted_killed_and_restored",
        "test_adopted_claude_that_its_shell_has_stopped_is_waiting_input",
        "test_message_is_not_typed_into_the_shell_that_an_adopted_claude_leaves",
    ),
    "git does not run for a person where a sandboxed agent could write": (
        "test_work_of_two_agents_is_reviewed_merged_and_followed_as_a_pull_request",
    ),
    "a reader types the pages on the host, with claude on the PATH and no Docker, as the pages say": (
        "test_readme_can_be_typed_from_an_empty_home",
        "test_page_getting_started_can_be_typed",
        "test_page_claude_can_be_typed",
        "test_page_permissions_can_be_typed",
        "test_page_messages_can_be_typed",
        "test_page_teams_can_be_typed",
        "test_page_recovery_can_be_typed",
        "test_page_scripting_can_be_typed",
        "test_page_overnight_can_be_typed",
        "test_page_coordinator_can_be_typed",
        "test_page_security_can_be_typed",
        "test_page_troubleshooting_can_be_typed",
    ),
    "only programs of this host are checked": ("test_claude_of_an_agent_is_checked_in_the_background",),
    "claude in a container has one home, whose files sm makes when the first agent starts": (
        "test_settings_of_the_user_decide_the_permission_mode_of_a_type_without_one",
        "test_doctor_shows_how_long_claude_and_sm_keep_conversations",
        "test_agent_whose_hooks_and_tools_do_not_reach_sm_is_two_warnings",
    ),
}
"""Tests that make no sense in a container, by the reason."""
ALWAYS_INSIDE = "test_claude_sandbox.py"

_chosen: tuple[str, str] | None = None


@pytest.fixture(scope="session", autouse=INSIDE)
def claude_inside(request: pytest.FixtureRequest) -> None:
    """Let every `ClaudeInstance` run its agents in a container. Skips the tests without an engine."""
    global _chosen
    _chosen = request.getfixturevalue("engine"), request.getfixturevalue("sandbox_image")


def chosen() -> tuple[str, str] | None:
    """The engine and the image for every `ClaudeInstance`, or None if its agents run on the host."""
    return _chosen


def is_outside(item: pytest.Item) -> bool:
    name = item.originalname if isinstance(item, pytest.Function) else item.name
    return item.path.name == ALWAYS_INSIDE or any(name in names for names in NOT_INSIDE.values())


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that make no sense when claude runs in a container."""
    if INSIDE:
        outside = [item for item in items if is_outside(item)]
        config.hook.pytest_deselected(items=outside)
        items[:] = [item for item in items if item not in outside]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if INSIDE:
        terminalreporter.section("deselected, because claude runs in a container")
        terminalreporter.line(f"{ALWAYS_INSIDE}: it always runs inside")
        for reason, names in NOT_INSIDE.items():
            terminalreporter.line(f"{reason}: {', '.join(names)}")


class Container:
    """The containers of an instance. claude reaches the port of the scripted API in each, also in one made anew.

    `slug`: the workspace of the working directory of the instance. `shared`: a directory at the same path in all
    containers, which agents may write; None before the instance has a home.

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
        self.shared: Path | None = None
        self._image = image
        self._ports = ExitStack()
        self._starts = subprocess.Popen(
            [
                "docker", "-H", engine, "events", "--format", "{{.ID}}",
                "--filter", "type=container", "--filter", "event=start", "--filter", "label=app=sm",
            ],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._watch = threading.Thread(target=self._open_ports, daemon=True)
        self._watch.start()

    def configure(self, home: Path) -> str:
        """The configuration of the containers of an instance with this home."""
        self.shared = home / "shared"
        self.shared.mkdir()
        self.give(self.shared)
        return CONFIG.format(
            engine=self.engine, image=self._image, program=self.program.parent, shared=self.shared
        )

    def _open_ports(self) -> None:
        assert self._starts.stdout is not None
        for line in self._starts.stdout:
            form = "{{.State.Pid}}{{range .Mounts}}\n{{.Source}}{{end}}"
            inspect = ["docker", "-H", self.engine, "inspect", "--format", form, line.strip()]
            shown = subprocess.run(inspect, capture_output=True, text=True, check=False).stdout
            pid, *mounts = shown.splitlines() or [""]
            # No pid, or no such process: it has ended already.
            with suppress(FileNotFoundError, ProcessLookupError):
                if pid not in ("", "0") and str(self.shared) in mounts:
                    self._ports.enter_context(forwarded(int(pid), self._port))

    def give(self, path: Path) -> None:
        """Make a file, or a directory with everything in it, belong to the user of the container."""
        for name in (path, *path.rglob("*")):
            os.chown(name, OWNER, OWNER, follow_symlinks=False)

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

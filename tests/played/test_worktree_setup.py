"""The commands that set up a new worktree: `worktrees.setup` and `.sm/project.yaml`."""

from pathlib import Path
from typing import Any

import pytest

from tests.archived import Archived
from tests.fixtures import context_fixture
from tests.git_repositories import branches, git, make_app
from tests.sim.command import StartedCommand
from tests.sim.stage import Instance

pytestmark = pytest.mark.processes  # git

instance = context_fixture("function", Instance)
WORDS = ("--worktree", "--name", "login")
PLACE = ".sm/worktrees/login"


@pytest.fixture
def repo(instance: Instance) -> Path:
    return make_app(instance.work)


def configure(instance: Instance, settings: str) -> None:
    """Write the section `worktrees`, before the daemon starts."""
    text = instance.config.read_text()
    instance.config.write_text(f"{text}\nworktrees: {{{settings}}}\n")


def begin(instance: Instance, repo: Path) -> StartedCommand:
    """Begin to start a session with the worktree `login`."""
    instance.start_daemon()
    return instance.start_command("spawn", "Sleeper", "x", *WORDS, "--working-dir", str(repo))


def setting_up(instance: Instance) -> dict[str, Any]:
    """Wait until a set-up runs, and return its session."""

    def look() -> dict[str, Any] | None:
        (tree,) = instance.get("/v1/worktrees") or [None]
        is_running = tree is not None and tree["state"] == "setting_up"
        if not is_running or not instance.world.server.panes:
            return None
        session: dict[str, Any] = instance.session(tree["session_id"])
        return session

    return instance.until(look, "a worktree is being set up")


def programs(instance: Instance) -> list[str]:
    """The programs that run in terminals."""
    return [pane.process.argv[0] for pane in instance.world.server.panes.values() if pane.exit is None]


def test_setup_runs_in_the_new_tree_before_the_agent_and_its_output_is_kept(
    instance: Instance, repo: Path
) -> None:
    configure(instance, 'setup: ["pwd", "echo ready > made.txt"]')
    session = instance.spawn("Sleeper", "x", *WORDS, cwd=repo / "api")
    tree = repo / PLACE
    assert (tree / "made.txt").read_text() == "ready\n"
    assert (session["status"], session["working_dir"]) == ("running", f"{tree}/api")
    assert programs(instance) == ["sleep"]
    instance.sm("kill", "sleeper-login")
    instance.settle()
    outputs = Archived(instance.state / "archives" / session["session_id"]).texts("terminal")
    assert any(f"+ pwd\n{tree}\n+ echo ready" in text for text in outputs.values())


def test_failed_setup_fails_the_spawn_with_its_last_lines_and_removes_the_tree(
    instance: Instance, repo: Path
) -> None:
    configure(instance, 'setup: ["echo no network", "exit 7", "touch late.txt"]')
    refused = instance.refused("spawn", "Sleeper", "x", *WORDS, exit_code=9, cwd=repo)
    assert "the set-up of the worktree ended with exit code 7: + echo no network | no network" in refused
    assert not (repo / PLACE).exists()
    assert branches(repo) == ["main"]
    assert git(repo, "worktree", "list", "--porcelain").count("worktree ") == 1
    assert instance.get("/v1/worktrees") == []
    assert "no network" in instance.sm("output", "sleeper-login")


def test_tree_of_a_failed_setup_stays_with_files_that_git_does_not_ignore(
    instance: Instance, repo: Path
) -> None:
    configure(instance, 'setup: ["touch by-hand.txt", "false"]')
    refused = instance.refused("spawn", "Sleeper", "x", *WORDS, exit_code=9, cwd=repo)
    assert f"; kept the worktree {repo / PLACE}: it has changes that exist nowhere else: " in refused
    assert (repo / PLACE / "by-hand.txt").exists()
    instance.sm("rm", "sleeper-login", "--discard", "--yes")
    assert not (repo / PLACE).exists()
    assert branches(repo) == ["main"]


def test_setup_is_ended_when_its_time_is_over(instance: Instance, repo: Path) -> None:
    configure(instance, 'setup: ["sleep 1000"], setup_timeout_s: 15')
    begin(instance, repo)
    session = instance.ended(setting_up(instance)["session_id"])
    assert "the set-up of the worktree did not end within 15 s: + sleep 1000" in session["status_reason"]
    assert (programs(instance), (repo / PLACE).exists(), branches(repo)) == ([], False, ["main"])


def test_terminal_of_the_session_shows_the_setup_while_it_runs(instance: Instance, repo: Path) -> None:
    configure(instance, 'setup: ["echo downloading", "sleep 1000"]')
    begin(instance, repo)
    session = setting_up(instance)
    instance.until(lambda: "downloading" in instance.sm("output", "sleeper-login"), "the output is shown")
    (tree,) = instance.get("/v1/worktrees")
    assert tree["step"] == "running echo downloading && sleep 1000"
    assert instance.get(f"/v1/sessions/{session['session_id']}/attach")["argv"]


def test_kill_ends_the_setup_and_removes_the_tree(instance: Instance, repo: Path) -> None:
    configure(instance, 'setup: ["sleep 1000"]')
    spawning = begin(instance, repo)
    setting_up(instance)
    instance.sm("kill", "sleeper-login")
    instance.settle()
    assert (programs(instance), (repo / PLACE).exists(), branches(repo)) == ([], False, ["main"])
    assert instance.until(lambda: spawning.poll(), "the spawn has ended") == 9


def test_time_of_the_setup_goes_on_when_the_daemon_restarts(instance: Instance, repo: Path) -> None:
    configure(instance, 'setup: ["sleep 1000"], setup_timeout_s: 100')
    begin(instance, repo)
    session = setting_up(instance)
    for _ in range(2):
        instance.wait(40)
        instance.kill_daemon()
        instance.sm("daemon", "start")
    instance.wait(40)
    ended = instance.session(session["session_id"])
    assert (ended["status"], programs(instance)) == ("error", [])
    assert "the set-up of the worktree did not end within 100 s" in ended["status_reason"]


def test_restore_warns_of_a_tree_whose_setup_has_failed(instance: Instance, repo: Path) -> None:
    configure(instance, 'setup: ["touch by-hand.txt", "false"]')
    instance.refused("spawn", "Sleeper", "x", *WORDS, exit_code=9, cwd=repo)
    instance.sm("restore", "sleeper-login")
    told = [event["message"] for event in instance.events("--type", "warning")]
    assert any(f"the worktree {repo / PLACE} is not set up: its set-up failed" in text for text in told)


def test_commands_are_only_told_to_callers_who_may_read_the_output(instance: Instance, repo: Path) -> None:
    configure(instance, 'setup: ["TOKEN=secret1 sleep 1000"], teardown: ["echo secret2"]')
    begin(instance, repo)
    session = setting_up(instance)
    peer = instance.spawn("Sleeper", "y", "--name", "peer", cwd=repo)
    asked = ("GET", "/v1/worktrees", {"session": session["session_id"]})
    ((_, (seen,)),) = instance.request_as(peer["session_id"], asked)
    assert (seen["step"], seen["teardown"]) == ("being set up", [])
    assert "secret" not in session["status_reason"]
    ((_, (own,)),) = instance.request_as(session["session_id"], asked)
    assert (own["step"], own["teardown"]) == ("running TOKEN=secret1 sleep 1000", [])
    (tree,) = instance.get("/v1/worktrees")
    assert tree["teardown"] == ["echo secret2"]


@pytest.mark.parametrize("has_written", [False, True])
def test_ctrl_c_ends_the_setup_and_tells_of_a_tree_that_stays(
    instance: Instance, repo: Path, has_written: bool
) -> None:
    configure(
        instance, 'setup: ["touch by-hand.txt", "sleep 1000"]' if has_written else 'setup: ["sleep 1000"]'
    )
    spawning = begin(instance, repo)
    setting_up(instance)
    instance.until(lambda: (repo / PLACE / "by-hand.txt").exists() == has_written, "the set-up has begun")
    spawning.interrupt()
    _, told = spawning.communicate()
    assert spawning.wait() == 130
    assert (repo / PLACE).exists() == has_written
    stays = f"warning: the worktree {repo / PLACE} of session sleeper-login stays\n"
    kept = f"warning: kept the worktree {repo / PLACE}: it has changes that exist nowhere else: "
    assert ((stays in told), (kept in told)) == (has_written, has_written)
    assert programs(instance) == []


@pytest.mark.parametrize("is_killed", [False, True])
def test_setup_goes_on_while_no_daemon_runs_and_runs_once(
    instance: Instance, repo: Path, is_killed: bool
) -> None:
    configure(instance, 'setup: ["echo begun >> runs.txt", "sleep 30", "echo ended >> runs.txt"]')
    begin(instance, repo)
    session = setting_up(instance)
    instance.until(lambda: (repo / PLACE / "runs.txt").exists(), "the set-up has begun")
    if is_killed:
        instance.kill_daemon()
    else:
        instance.sm("daemon", "stop")
    instance.wait(60)
    instance.sm("daemon", "start")  # if the waiting command has not started it
    instance.in_status(session["session_id"], "running")
    assert (repo / PLACE / "runs.txt").read_text() == "begun\nended\n"
    assert programs(instance) == ["sleep"]


def test_restored_session_is_not_set_up_again(instance: Instance, repo: Path) -> None:
    configure(instance, 'setup: ["echo run >> runs.txt"]')
    session = instance.spawn("Sleeper", "x", *WORDS, cwd=repo)
    instance.sm("kill", "sleeper-login")
    instance.sm("restore", "sleeper-login")
    instance.in_status(session["session_id"], "running")
    assert (repo / PLACE / "runs.txt").read_text() == "run\n"


REPORTS = [
    ("/v1/sessions/me/complete", {"message": "done"}),
    ("/v1/sessions/me/checkpoints", {"message": "half of it"}),
    ("/v1/sessions/me/note", {"text": "installing"}),
    ("/v1/requests", {"question": "which one?"}),
]


@pytest.mark.parametrize(("path", "body"), REPORTS)
def test_setup_cannot_report_for_its_session(
    instance: Instance, repo: Path, path: str, body: dict[str, Any]
) -> None:
    configure(instance, 'setup: ["sleep 30"]')
    spawning = begin(instance, repo)
    session = setting_up(instance)
    request = ("POST", path, None, body)
    (refused,) = instance.request_as(session["session_id"], request)
    not_yet = "the agent of session sleeper-login has not started yet: its worktree is being set up"
    assert refused == ["illegal_state", not_yet, None]
    assert spawning.wait() == 0
    instance.in_status(session["session_id"], "running")
    (accepted,) = instance.request_as(session["session_id"], request)
    assert accepted[0] == "ok"


# The commands of a project


def project(repo: Path, text: str) -> None:
    (repo / ".sm").mkdir(exist_ok=True)
    (repo / ".sm" / "project.yaml").write_text(text)


PROJECT = 'worktrees: {setup: ["touch ran.txt"]}\n'


def test_commands_of_a_project_run_only_as_the_operator_agreed_to_them(
    instance: Instance, repo: Path
) -> None:
    project(repo, PROJECT)
    instance.sm("workspace", "create", "shop", "--working-dir", str(repo))

    def warnings_of(name: str) -> tuple[bool, str]:
        words = ("spawn", "Sleeper", "x", "--worktree", "--name", name)
        spawned = instance.run(*words, cwd=repo)
        assert spawned.returncode == 0, spawned
        return (repo / ".sm" / "worktrees" / name / "ran.txt").exists(), spawned.stderr

    ran, told = warnings_of("one")
    assert not ran
    left_out = f"the commands of {repo}/.sm/project.yaml are left out until the operator agrees to them"
    assert f"{left_out} (new): sm workspace agree shop" in told
    shown = instance.run("workspace", "agree", "shop", "worktrees", "--yes")
    assert "commands of worktrees, new, in" in shown.stderr
    assert "touch ran.txt" in shown.stderr
    assert warnings_of("two") == (True, "")
    project(repo, 'worktrees: {setup: ["touch ran.txt", "touch more.txt"]}\n')
    ran, told = warnings_of("three")
    assert not ran
    assert f"{left_out} (changed): sm workspace agree shop" in told


def test_commands_of_a_project_do_not_run_outside_of_a_workspace(instance: Instance, repo: Path) -> None:
    project(repo, PROJECT)
    spawned = instance.run("spawn", "Sleeper", "x", *WORDS, cwd=repo)
    assert spawned.returncode == 0
    assert "are left out: they are used in a workspace with this directory" in spawned.stderr
    assert not (repo / PLACE / "ran.txt").exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("worktrees: {setup: npm ci}", "1:20: worktrees.setup: "),
        ("worktrees: {set_up: []}", "1:13: worktrees.set_up: "),
        ("a: &a [1]\nb: *a", "2:4: aliases (*name) are not allowed"),
        ("x" * 20_000, "it is larger than 16 KiB"),
        ("worktrees:\n  dir: a\n", "2:3: worktrees.dir: unknown key (it belongs in config.yaml)"),
    ],
)
def test_project_file_that_cannot_be_used_is_left_out_with_the_reason(
    instance: Instance, repo: Path, text: str, why: str
) -> None:
    project(repo, text)
    instance.sm("workspace", "create", "shop", "--working-dir", str(repo))
    spawned = instance.run("spawn", "Sleeper", "x", *WORDS, cwd=repo)
    assert spawned.returncode == 0
    assert f"cannot use {repo}/.sm/project.yaml: {why}" in spawned.stderr
    assert why in instance.run("workspace", "agree", "shop", "--yes").stderr


def test_commands_that_are_too_long_to_be_shown_as_a_whole_are_left_out(
    instance: Instance, repo: Path
) -> None:
    padding = "".join(f'    - ": {"x" * 3_000}"\n' for _ in range(4))
    project(repo, f"worktrees:\n  setup:\n{padding}    - touch ../../owned.txt\n")
    instance.sm("workspace", "create", "shop", "--working-dir", str(repo))
    agreed = instance.run("workspace", "agree", "shop", "--yes")
    assert "nothing to agree to" in agreed.stdout
    spawned = instance.run("spawn", "Sleeper", "x", *WORDS, cwd=repo)
    why = "its commands have more than 10,000 characters together"
    assert f"cannot use {repo}/.sm/project.yaml: {why}" in spawned.stderr
    assert not (repo / ".sm" / "owned.txt").exists()


def test_project_file_that_is_a_link_is_left_out(instance: Instance, repo: Path) -> None:
    project(repo, "")
    (instance.work / "elsewhere.yaml").write_text(PROJECT)
    (repo / ".sm" / "project.yaml").unlink()
    (repo / ".sm" / "project.yaml").symlink_to(instance.work / "elsewhere.yaml")
    instance.sm("workspace", "create", "shop", "--working-dir", str(repo))
    spawned = instance.run("spawn", "Sleeper", "x", *WORDS, cwd=repo)
    assert f"cannot use {repo}/.sm/project.yaml: " in spawned.stderr
    assert not (repo / PLACE / "ran.txt").exists()


def test_teardown_is_that_of_the_time_when_the_tree_was_made(instance: Instance, repo: Path) -> None:
    project(repo, 'worktrees: {teardown: ["echo agreed"]}\n')
    configure(instance, 'teardown: ["echo configured"], teardown_timeout_s: 2')
    instance.sm("workspace", "create", "shop", "--working-dir", str(repo))
    instance.sm("workspace", "agree", "shop", "--yes")
    instance.spawn("Sleeper", "x", *WORDS, cwd=repo)
    project(repo, 'worktrees: {teardown: ["echo changed"]}\n')
    (tree,) = instance.get("/v1/worktrees")
    assert (tree["teardown"], tree["teardown_within_s"]) == (["echo agreed", "echo configured"], 2.0)


def test_setup_of_the_configuration_runs_before_that_of_the_project(instance: Instance, repo: Path) -> None:
    project(repo, 'worktrees: {setup: ["echo project >> order.txt"]}\n')
    configure(instance, 'setup: ["echo configured >> order.txt"]')
    instance.sm("workspace", "create", "shop", "--working-dir", str(repo))
    instance.sm("workspace", "agree", "shop", "--yes")
    instance.spawn("Sleeper", "x", *WORDS, cwd=repo)
    assert (repo / PLACE / "order.txt").read_text() == "configured\nproject\n"


def test_teardown_does_not_run_where_work_would_be_lost(instance: Instance, repo: Path) -> None:
    configure(instance, 'teardown: ["touch ../../ran.txt"]')
    instance.spawn("Sleeper", "x", *WORDS, cwd=repo)
    instance.sm("kill", "sleeper-login")
    (repo / PLACE / "new.txt").touch()
    instance.refused("rm", "sleeper-login", exit_code=4)  # a real process would fail the test


# Crashes


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "place",
    [
        "TreeSetup.run 1",
        "PlaceCommands.run 1",
        "HostSandbox.prepare 2",  # the first one is that of the spawn
        "Tmux.open 1",
        "HostSandbox.wait_started 1",
        "Tmux.exit_status 1",
        "TreeSetup.close 1",
        "PlaceCommands.close 1",
        "Tmux.close 1",
        "TreeMaker.hand_over 1",
    ],
)
def test_setup_runs_once_when_the_daemon_crashes_at_any_step(
    instance: Instance, repo: Path, place: str, when: str
) -> None:
    configure(instance, 'setup: ["echo begun >> runs.txt", "sleep 5", "echo ended >> runs.txt"]')
    step, _, number = place.partition(" ")
    daemon = instance.start_crashing_daemon(f"{step} {when} {number}")
    session = instance.spawn("Sleeper", "x", *WORDS, cwd=repo)
    daemon.wait()
    instance.in_status(session["session_id"], "running")
    assert (repo / PLACE / "runs.txt").read_text() == "begun\nended\n"
    assert programs(instance) == ["sleep"]
    (tree,) = instance.get("/v1/worktrees")
    assert tree["state"] == "made"


@pytest.mark.parametrize("place", ["TreeMaker.remove before 1", "TreeMaker.remove after 1"])
def test_failed_setup_leaves_nothing_when_the_daemon_crashes_at_any_step(
    instance: Instance, repo: Path, place: str
) -> None:
    configure(instance, 'setup: ["exit 3"]')
    daemon = instance.start_crashing_daemon(place)
    refused = instance.refused("spawn", "Sleeper", "x", *WORDS, exit_code=9, cwd=repo)
    daemon.wait()
    assert "the set-up of the worktree ended with exit code 3" in refused
    assert ((repo / PLACE).exists(), branches(repo)) == (False, ["main"])
    assert instance.get("/v1/worktrees") == []

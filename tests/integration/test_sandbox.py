"""Sandboxed sessions as a user sees them: the real command, a real daemon, containers of a real engine."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sm.linux.processes import environ_value
from sm.linux.ttys import has_unread_input, path_of_terminal
from tests.instance import Instance
from tests.waits import until

OWNER = 1234

CONFIG = """
tmux: {{socket_name: test}}
sandbox: {{engine: "{engine}", image: "{image}", network: none{more}}}
commands:
  Sh: {{command: [sh, -c]}}
  Sleeper: {{command: [sleep, "1000"], prompt: file}}
"""


def open_instance(engine: str, image: str, more: str = "") -> Instance:
    instance = Instance(config=CONFIG.format(engine=engine, image=image, more=more))
    os.chown(instance.work, OWNER, OWNER)
    instance.home.chmod(0o755)
    instance.sm("workspace", "create", "shop", "--working-dir", str(instance.work))
    return instance


@pytest.fixture(scope="module")
def instance(engine: str, sandbox_image: str) -> Iterator[Instance]:
    """One container for all tests, in whose directory each uses names of its own."""
    instance = open_instance(engine, sandbox_image)
    yield instance
    instance.end()


def processes_of(session_id: str) -> list[int]:
    """The pids of all processes that carry the mark of the session, looked for in /proc."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    return [pid for pid in pids if environ_value(pid, "SM_SESSION_ID") == session_id]


def docker(engine: str, *arguments: str) -> str:
    """The output of the command docker, which must succeed."""
    done = subprocess.run(
        ["docker", "-H", engine, *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def containers_of(engine: str, instance: Instance) -> list[str]:
    """The containers that mount the working directory of the instance."""
    return docker(engine, "ps", "-a", "-q", "--filter", f"volume={instance.work}").split()


def all_containers(engine: str, instance: Instance) -> dict[str, str]:
    """The ids of all containers of the instance by their names, as the engine lists them, running or not."""
    form = "{{.Names}} {{.ID}} {{.Mounts}}"
    listed = docker(engine, "ps", "-a", "--no-trunc", "--filter", "label=app=sm", "--format", form)
    own = [line.split() for line in listed.splitlines() if f"{instance.state}/" in line]
    return {line[0]: line[1] for line in own}


def read_later(file: Path, text: str = "") -> str:
    def look() -> str | None:
        found = file.read_text() if file.exists() else ""
        return found if found and text in found else None

    return until(look, f"{file.name} holds {text!r}")


def test_agent_runs_in_the_container_of_its_workspace_as_the_owner_of_the_directory(
    instance: Instance,
) -> None:
    script = "id -u > id.txt; pwd > pwd.txt; env > env.txt; echo words on the screen; sleep 1000"
    session = instance.spawn("Sh", script, "--workspace", "shop")
    assert (session["trust_level"], session["effective_mode"]) == ("sandboxed", "sandboxed")
    variables = read_later(instance.work / "env.txt", "SM_SESSION_ID")
    assert read_later(instance.work / "id.txt").strip() == str(OWNER)
    assert read_later(instance.work / "pwd.txt").strip() == str(instance.work)
    assert "HOME=/home/sandbox\n" in variables
    assert f"SM_SESSION_ID={session['session_id']}\n" in variables
    assert "SM_TRUST_LEVEL=sandboxed\n" in variables
    assert str(instance.state) not in variables
    until(lambda: "words on the screen" in instance.output(session["session_id"]), "the screen is shown")
    status_file = Path(f"/proc/{instance.session(session['session_id'])['pid']}/status").read_text()
    assert "CapEff:\t0000000000000000" in status_file


def test_reports_from_inside_reach_the_daemon(instance: Instance) -> None:
    script = 'sm checkpoint "half way" && sm complete "all done"; sleep 1000'
    session = instance.spawn("Sh", script, "--workspace", "shop")
    done = instance.in_status(session["session_id"], "completed")
    assert "all done" in json.dumps(done)


def test_agent_in_a_container_reads_the_files_of_its_messages_and_cannot_change_them(
    instance: Instance,
) -> None:
    shot = instance.home / "shot.png"
    shot.write_bytes(b"a picture")
    script = (
        "sm inbox --take --wait > letter.txt; path=$(sed -n 's/.*file 1: //; s/ (image.*//p' letter.txt); "
        'cat "$path" > shot.txt; { echo x > "$path"; } 2> refused.txt; stat -c "%a %u" "$path" > mode.txt; sleep 1000'
    )
    session = instance.spawn("Sh", script, "--workspace", "shop")["session_id"]
    instance.sm("send", session, "look", "--file", str(shot))
    assert read_later(instance.work / "mode.txt") == f"600 {OWNER}\n"
    letter = (instance.work / "letter.txt").read_text()
    assert f"[sm] file 1: /run/sm/launch/{session}.files/f-" in letter
    assert (instance.work / "shot.txt").read_text() == "a picture"
    assert "Read-only file system" in (instance.work / "refused.txt").read_text()


def test_keys_that_an_agent_has_not_read_are_seen_in_its_own_terminal(instance: Instance) -> None:
    script = (
        "stty raw -echo; touch ready; until [ -e go ]; do sleep 0.1; done; head -c 4 > read.txt; sleep 1000"
    )
    session = instance.spawn("Sh", script, "--workspace", "shop")
    until((instance.work / "ready").exists, "the agent has prepared its terminal")
    terminal = path_of_terminal(instance.session(session["session_id"])["pid"])
    assert terminal is not None
    assert not has_unread_input(terminal)
    instance.tmux("send-keys", "-t", f"={session['tmux_session']}:", "-l", "keys")
    until(lambda: has_unread_input(terminal), "the keys are in the agent's terminal")
    pane = instance.tmux("display-message", "-p", "-t", f"={session['tmux_session']}:", "#{pane_tty}")
    until(lambda: not has_unread_input(pane.strip()), "docker has passed on all keys of the pane")
    (instance.work / "go").touch()
    assert read_later(instance.work / "read.txt") == "keys"
    until(lambda: not has_unread_input(terminal), "the agent has read the keys")


def test_kill_leaves_nothing_of_the_session_in_the_container(instance: Instance) -> None:
    script = (
        "trap '' TERM HUP; setsid sh -c 'trap \"\" TERM; sleep 1001' & (sh -c 'sleep 1002 &'); echo > up; "
        "while :; do sleep 1003; done"
    )
    session = instance.spawn("Sh", script, "--workspace", "shop")
    other = instance.spawn("Sleeper", "x", "--workspace", "shop")
    until(lambda: (instance.work / "up").exists(), "the agent runs")
    until(lambda: len(processes_of(session["session_id"])) >= 5, "the descendants run")
    instance.sm("kill", session["session_id"])
    assert instance.ended(session["session_id"])["status"] == "killed"
    assert processes_of(session["session_id"]) == []
    assert instance.session(other["session_id"])["status"] == "running"


def test_sandboxed_agent_cannot_reach_the_host(instance: Instance) -> None:
    secret = instance.home / "secret"
    secret.write_text("of the host")
    script = f"cat {secret}; ls {instance.state}; touch /usr/x; touch {instance.home}/x; echo done > done; sleep 1000"
    session = instance.spawn("Sh", script, "--workspace", "shop")
    read_later(instance.work / "done")

    def shown() -> str | None:
        """The output, once its last line has come through the engine to the terminal."""
        output = instance.output(session["session_id"])
        return output if f"{instance.home}/x" in output else None

    output = until(shown, "the output of the agent")
    assert "of the host" not in output
    assert not (instance.home / "x").exists()
    assert "Read-only file system" in output


def test_restored_session_has_a_new_token_and_the_old_one_is_worthless(instance: Instance) -> None:
    script = (
        "cp $SM_TOKEN_FILE token.txt; echo $SM_SOCKET > socket.txt; "
        "SM_TOKEN_FILE=$PWD/old.txt sm me > old.out 2>&1; sm me --json > me.json; sleep 1000"
    )
    session = instance.spawn("Sh", script, "--workspace", "shop")["session_id"]
    assert json.loads(read_later(instance.work / "me.json", "}"))["session_id"] == session
    assert read_later(instance.work / "socket.txt") == "/run/sm/socket/s\n"
    (instance.work / "token.txt").rename(instance.work / "old.txt")
    (instance.work / "me.json").unlink()
    instance.sm("kill", session, "--force")
    instance.sm("restore", session)
    assert json.loads(read_later(instance.work / "me.json", "}"))["session_id"] == session
    assert (instance.work / "token.txt").read_text() != (instance.work / "old.txt").read_text()
    assert "invalid session token" in (instance.work / "old.out").read_text()


def test_protected_files_that_an_agent_made_are_named_after_its_end(instance: Instance) -> None:
    session = instance.spawn(
        "Sh", "mkdir .vscode; echo > .vscode/tasks.json; echo > .envrc", "--workspace", "shop"
    )
    instance.ended(session["session_id"])

    def warned() -> str | None:
        messages = [e["message"] for e in instance.events() if e["type"] == "warning"]
        return next((message for message in messages if ".envrc" in message), None)

    message = until(warned, "a warning names the files")
    assert ".vscode" in message


def test_mcp_server_without_its_program_in_the_image_is_left_out_with_a_warning(
    engine: str, sandbox_image: str
) -> None:
    instance = open_instance(engine, sandbox_image, "}\nclaude: {default_command: [sh, fake]")
    try:
        fake = 'while [ "$1" != --mcp-config ]; do shift; done; cat "$2" > servers.json; exec sleep 1000'
        (instance.work / "fake").write_text(fake)
        servers = {"kept": {"command": "python3"}, "lost": {"command": "no-such-program"}}
        (instance.home / ".claude.json").write_text(json.dumps({"mcpServers": servers}))
        # The first session makes the container, so the programs are known before an agent runs.
        spawned = instance.run("spawn", "general-purpose", "x", "--workspace", "shop")
        assert spawned.returncode == 0, spawned.stderr
        told = "MCP server lost is left out: the image of the sandbox has no program no-such-program"
        assert spawned.stderr.count(told) == 1
        given = json.loads(read_later(instance.work / "servers.json", "}"))["mcpServers"]
        assert "kept" in given and "lost" not in given
    finally:
        instance.end()


@pytest.mark.parametrize("login", ["", "}\nclaude: {env: {ANTHROPIC_AUTH_TOKEN: none}"], ids=["none", "key"])
def test_missing_agent_cli_names_the_build_that_installs_it(
    login: str, engine: str, sandbox_image: str
) -> None:
    instance = open_instance(engine, sandbox_image, login)
    try:
        error = instance.refused("spawn", "general-purpose", "x", "--workspace", "shop", exit_code=9)
        assert "claude" in error.splitlines()[0]
        assert error.splitlines()[1].startswith("hint: sm sandbox build --with claude")
    finally:
        instance.end()

"""Daemons of several users, with containers of a real engine: the agents' user, their files, and a user without Docker.

The base of the test image has no user with these numbers, so no user in a container has an entry in /etc/passwd.
"""

import atexit
import grp
import json
import os
import pty
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sm.linux.processes import identify
from tests.claude_cli import answer_first_questions
from tests.engine import group_of_engine, unavailable
from tests.instance import SM, Instance
from tests.integration.test_sandbox import CONFIG, OWNER, containers_of, read_later
from tests.waits import until

CLAUDE = "}}\nclaude: {{default_command: [python3, {fake}], env: {{ANTHROPIC_AUTH_TOKEN: none}}"
FAKE = """
import json, subprocess, sys, time
settings = json.loads(sys.argv[sys.argv.index("--settings") + 1])
def hook(event, **more):
    command = settings["hooks"][event][0]["hooks"][0]["command"].replace("2>/dev/null", "2>>hook.err")
    conversation = sys.argv[sys.argv.index("--session-id") + 1]
    body = {"hook_event_name": event, "session_id": conversation, "cwd": ".", **more}
    subprocess.run(["sh", "-c", command], input=json.dumps(body), text=True, check=True)
hook("SessionStart", source="startup")
hook("UserPromptSubmit", prompt="Look.")
open("hooked", "w").write("done")
time.sleep(1000)
"""
AS_ANY_USER = """
import os, pathlib, tempfile
assert str(pathlib.Path.home()) == os.path.expanduser("~") == "/home/sandbox"
pathlib.Path.home().joinpath("kept.txt").write_text("kept")
tempfile.TemporaryFile().close()
"""
"""A Python program that needs no entry in /etc/passwd."""


def run_as(uid: int, group: int | None) -> list[str]:
    """The command that starts another one as a user without further groups, or with one `group`."""
    groups = "--clear-groups" if group is None else f"--groups={group}"
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", groups]


@cache
def command_of_others() -> Sequence[str]:
    """An `sm` that every user can run. Root's Python may lie in a directory that only root may enter."""
    nobody = run_as(65534, None)
    # The shell is needed: setpriv itself keeps the right to enter it.
    script = ["sh", "-c", '"$0" -c "import sm, sys; print(sys.prefix)"', sys.executable]
    if subprocess.run([*nobody, *script], capture_output=True, check=False).returncode == 0:
        return (SM,)
    python = shutil.which(f"python3.{sys.version_info.minor}", path="/usr/bin:/usr/local/bin")
    if python is None:
        unavailable(f"other users cannot run {sys.executable}")
    folder = Path(tempfile.mkdtemp(prefix="sm-python-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    subprocess.run([str(python), "-m", "venv", "--without-pip", str(folder)], check=True)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "sm.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return (f"{folder}/bin/python", "-m", "sm.cli")


def open_as(uid: int, owner: int, engine: str, image: str, group: int | None) -> Instance:
    """An instance of user `uid` with a workspace `shop` of user `owner`."""
    config = CONFIG.format(engine=engine, image=image, more=CLAUDE.format(fake="fake"))
    instance = Instance(
        config=config,
        run_as=run_as(uid, group) if uid else (),
        command=command_of_others() if uid else (SM,),
    )
    (instance.work / "fake").write_text(FAKE)
    answer_first_questions(instance.home)
    for folder, _, files in os.walk(instance.home):
        for path in (folder, *(f"{folder}/{name}" for name in files)):
            os.chown(path, uid, uid)
    os.chown(instance.work, owner, owner)
    instance.home.chmod(0o755)
    instance.sm("workspace", "create", "shop", "--working-dir", str(instance.work), "--trust", "sandboxed")
    return instance


def require_root() -> None:
    if os.geteuid() != 0:
        unavailable("a daemon of another user needs root")


@pytest.fixture(scope="module", params=[0, 1000, 1234])
def opened(request: pytest.FixtureRequest, engine: str, sandbox_image: str) -> Iterator[tuple[Instance, int]]:
    """An instance whose daemon runs as a user, and the user of its agents."""
    uid = request.param
    require_root()
    instance = open_as(uid, uid or OWNER, engine, sandbox_image, group_of_engine(engine))
    yield instance, uid or OWNER
    instance.end()


@pytest.fixture
def users(opened: tuple[Instance, int]) -> Iterator[tuple[Instance, int]]:
    """`opened` without sessions that run."""
    yield opened
    instance, _ = opened
    instance.sm("kill", *(session["session_id"] for session in instance.json("ls")), "--force")


def shell_in(instance: Instance, slug: str, text: str) -> str:
    """The output of `sm sandbox shell`, in which somebody types `text`."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(instance.work)
        argv = [*instance.command, "sandbox", "shell", slug]
        os.execvpe(argv[0], argv, instance.env)
    shown = b""
    os.write(terminal, text.encode())
    with suppress(OSError):  # EIO: the shell has ended
        while data := os.read(terminal, 65536):
            shown += data
    os.close(terminal)
    os.waitpid(pid, 0)
    return shown.decode()


def container_of_shop(instance: Instance) -> dict[str, Any]:
    containers = instance.json("sandbox", "status")["containers"]
    [found] = [container for container in containers if container["workspace"] == "shop"]
    return dict(found)


def test_agents_of_every_user_work_in_their_container(users: tuple[Instance, int], engine: str) -> None:
    instance, uid = users
    script = f"""
        (id -u; id -g; echo $HOME; pwd) > who.txt
        git init -q /scratch/repository && cd /scratch/repository && echo > file && git add file
        git -c user.name=A -c user.email=a@example.org commit -q -m first && git log --format=%s > $OLDPWD/git.txt
        cd "$OLDPWD"
        python3 -c '{AS_ANY_USER}' && sm checkpoint half > said.txt && sm me --json > me.json; sleep 1000
    """
    session_id = instance.spawn("Sh", script, "--workspace", "shop")["session_id"]
    me = json.loads(read_later(instance.work / "me.json", "}"))
    assert me["session_id"] == session_id
    assert (instance.work / "who.txt").read_text().split() == [
        *(str(uid), str(uid), "/home/sandbox", str(instance.work))
    ]
    assert (instance.work / "git.txt").read_text() == "first\n"
    [checkpoint] = instance.json("checkpoints", session_id)
    assert "half" in json.dumps(checkpoint)
    home = instance.state / "ws" / "shop" / "home"
    for path in (instance.work / "who.txt", home, home / "kept.txt"):
        assert path.stat().st_uid == uid
    process = identify(instance.session(session_id)["pid"])
    assert process is not None
    assert Path(f"/proc/{process.pid}").stat().st_uid == uid

    container = container_of_shop(instance)
    assert (container["workspace"], container["state"], container["user"]) == (
        *("shop", "running", f"{uid}:{uid}"),
    )
    assert container["sessions"] == [session_id]
    shown = shell_in(instance, "shop", "echo user-$(id -u)-$HOME; exit\n")
    assert f"user-{uid}-/home/sandbox" in shown
    assert session_id in instance.refused("sandbox", "stop", "shop", exit_code=4)
    instance.sm("kill", session_id)
    assert instance.ended(session_id)["status"] == "killed"
    instance.sm("sandbox", "stop", "shop")
    assert container_of_shop(instance)["state"] == "exited"

    again = instance.spawn("Sh", "cat ~/kept.txt > again.txt; sleep 1000", "--workspace", "shop")
    assert read_later(instance.work / "again.txt") == "kept"
    assert again["effective_mode"] == "sandboxed"
    assert len(containers_of(engine, instance)) == 1


def test_hooks_of_every_user_reach_the_daemon(users: tuple[Instance, int]) -> None:
    instance, _ = users
    session_id = instance.spawn("general-purpose", "Look.", "--workspace", "shop")["session_id"]
    read_later(instance.work / "hooked", "done")
    assert (instance.work / "hook.err").read_text() == ""
    until(
        lambda: "(UserPromptSubmit)" in str(instance.get(f"/v1/sessions/{session_id}/why")),
        "the hook's event is known",
    )


def test_session_without_a_workspace_works_for_every_user(users: tuple[Instance, int]) -> None:
    instance, _ = users
    script = "touch here && touch ~/there && id -u && sm note found; sleep 1000"
    session_id = instance.spawn("Sh", script, cwd=instance.home)["session_id"]
    until(lambda: instance.session(session_id)["note"] == "found", "the note is known")
    expected = os.stat(instance.state).st_uid or 60999
    # The output comes through the engine, the note does not.
    until(lambda: str(expected) in instance.output(session_id).split(), "the user of the agent")


@pytest.mark.parametrize("uid", [1000, 1234])
def test_user_who_may_not_use_the_engine_is_told_why(uid: int, engine: str, sandbox_image: str) -> None:
    require_root()
    instance = open_as(uid, uid, engine, sandbox_image, group=None)
    try:
        path = engine.removeprefix("unix://")
        try:
            name = pwd.getpwuid(uid).pw_name
            hint = f"sudo usermod -aG {group_name(path)} {name}, log in again, and type sm daemon restart"
        except KeyError:
            name = str(uid)
            hint = f"start the daemon with group {group_name(path)}, which owns the socket: sm daemon restart"
        reason = f"user {name} may not use the Docker engine: permission denied on {path}"
        refused = instance.refused("spawn", "Sleeper", "x", "--workspace", "shop", exit_code=9)
        assert refused == f"sm: {reason}\nhint: {hint}\n"
        # The engine runs, so no session falls back to the host.
        default = instance.refused("spawn", "Sleeper", "x", exit_code=9, cwd=instance.home)
        assert reason in default
        assert "add --trust direct" in default
        assert f"Engine:    not available: {reason}" in instance.sm("sandbox", "status")
        assert f"sandboxes: {reason}" in instance.run("doctor").stdout
        assert reason in instance.refused("sandbox", "shell", "shop", exit_code=9)
    finally:
        instance.end()


def group_name(path: str) -> str:
    """The group of the engine's socket, as the message names it."""
    with suppress(KeyError):
        if gid := os.stat(path).st_gid:
            return grp.getgrgid(gid).gr_name
    return "docker"

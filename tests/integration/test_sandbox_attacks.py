"""A hostile agent in a container: it forges files and reports, and tries to leave its container."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sm.client.http import Client
from sm.paths import INSIDE_HOME, InstancePaths
from tests.instance import Instance
from tests.integration.test_sandbox import OWNER, open_instance, read_later
from tests.waits import until

CLAUDE = "}\nclaude: {default_command: [python3, fake]"

# It reports each path as its transcript, and then a regular file. `ask` is what claude does at a hook.
FAKE = """
import json, os, subprocess, sys, time
home, conversation = os.environ["HOME"], sys.argv[sys.argv.index("--session-id") + 1]
AT = time.strftime("%Y-%m-%dT%H:%M:%S.999Z", time.gmtime())
def tell(name, path, **more):
    event = {"hook_event_name": name, "session_id": conversation, "transcript_path": path, "cwd": os.getcwd(), **more}
    done = subprocess.run(["sm", "hook", "claude"], input=json.dumps(event), text=True, timeout=60)
def transcript(path, tokens, words):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        for type, more in (("user", {"content": "Look."}), ("assistant", {
            "id": words, "model": "claude-opus-4-1", "content": [{"type": "text", "text": words}],
            "usage": {"input_tokens": tokens, "output_tokens": 0},
        })):
            message = {"role": type, **more}
            line = {"type": type, "uuid": f"{words}-{type}", "timestamp": AT, "message": message}
            file.write(json.dumps({**line, "sessionId": conversation, "cwd": os.getcwd()}) + "\\n")
exec(open("attack").read())
subprocess.run(["sleep", "100000"])
"""

TRANSCRIPT_ATTACKS = {
    "link": "os.symlink(SECRET, folder + '/bad.jsonl'); bad = folder + '/bad.jsonl'",
    "linked directory": "os.symlink(os.path.dirname(SECRET), folder + '/d'); bad = folder + '/d/secret.jsonl'",
    "path outside": "bad = SECRET",
    "path with dots": "bad = home + '/../../..' + SECRET",
    "shadow": "os.symlink('/etc/shadow', folder + '/bad.jsonl'); bad = folder + '/bad.jsonl'",
    "pipe": "os.mkfifo(folder + '/bad.jsonl'); bad = folder + '/bad.jsonl'",
    "directory": "os.mkdir(folder + '/bad.jsonl'); bad = folder + '/bad.jsonl'",
    "device": "bad = '/dev/zero'",
    "2 GB without a line": "bad = folder + '/bad.jsonl'; os.truncate(os.open(bad, os.O_CREAT | os.O_RDWR), 2 << 30)",
    "process": "bad = '/proc/self/environ'",
}
ATTACK = """
folder = home + "/.claude/projects/x"
os.makedirs(folder, exist_ok=True)
SECRET = {secret!r}
{attack}
tell("SessionStart", bad, source="startup")
tell("UserPromptSubmit", bad, prompt="Look.")
tell("Stop", bad, last_assistant_message="first")
transcript(folder + "/good.jsonl", 777, "good")
tell("UserPromptSubmit", folder + "/good.jsonl", prompt="Look again.")
tell("Stop", folder + "/good.jsonl", last_assistant_message="second")
"""
MEMORY_MAX_KIB = 200_000


@pytest.fixture(scope="module")
def instance(engine: str, sandbox_image: str) -> Iterator[Instance]:
    instance = open_instance(engine, sandbox_image, CLAUDE)
    (instance.work / "fake").write_text(FAKE)
    secrets = instance.home / "secrets"
    secrets.mkdir()
    secret = {
        "role": "assistant",
        "id": "secret",
        "model": "m",
        "content": [],
        "usage": {"input_tokens": 1_000_000, "output_tokens": 0},
    }
    line = {"type": "assistant", "uuid": "s", "timestamp": "2099-01-27T15:10:00.000Z", "message": secret}
    (secrets / "secret.jsonl").write_text(json.dumps(line) + "\n")
    yield instance
    instance.end()


def peak_memory_kib(instance: Instance) -> int:
    text = Path(f"/proc/{instance.daemon_pid}/status").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmHWM:")))


LARGE = {"2 GB without a line"}
"""Takes so long that only `./check --full` plays it."""


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(attack, id=name, marks=pytest.mark.full if name in LARGE else [])
        for name, attack in TRANSCRIPT_ATTACKS.items()
    ],
)
def test_only_regular_files_of_the_home_are_read_as_transcripts(instance: Instance, attack: str) -> None:
    secret = str(instance.home / "secrets" / "secret.jsonl")
    (instance.work / "attack").write_text(ATTACK.format(secret=secret, attack=attack))
    home = Path(InstancePaths(str(instance.config), str(instance.state)).sandbox("shop").home)
    session_id = instance.spawn("general-purpose", "Look.", "--workspace", "shop")["session_id"]

    def tokens() -> int:
        progress = Client(str(instance.socket)).get(f"/v1/sessions/{session_id}/progress")
        return int((progress["tokens"] or {}).get("input", 0))

    until(tokens, "the good transcript is read")
    assert tokens() == 777
    for command in ("log", "output", "why", "progress"):
        assert "root:" not in instance.run(command, session_id).stdout
    assert peak_memory_kib(instance) < MEMORY_MAX_KIB
    instance.sm("kill", session_id, "--force")
    for path in (home / ".claude/projects/x").iterdir():
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


# Each line of the output is a name and the exit code of an attempt.
ESCAPE = """
try() {{ name=$1; shift; timeout 120 "$@" >/dev/null 2>&1 </dev/null; echo "$name $?"; }}
try operator-socket curl -sS --unix-socket {operator} http://sm/v1/health
try state ls {state}
try engine-socket curl -sS --unix-socket {engine} http://docker/_ping
try default-engine-socket curl -sS --unix-socket /var/run/docker.sock http://docker/_ping
try tmux-socket ls {tmux}
try host-process kill -0 {daemon}
try all-processes ls /proc/{daemon}
try mount mount -t tmpfs none /mnt
try bind-mount mount --bind / /mnt
try unshare unshare -U true
try chroot chroot / true
try mknod mknod /tmp/sda b 8 0
try kernel-setting sh -c 'echo x > /proc/sys/kernel/core_pattern'
try cgroup sh -c 'mkdir /sys/fs/cgroup/x /sys/fs/cgroup/*/x'
try stop-daemon sm daemon stop
try sandboxes sm sandbox status
try shell sm sandbox shell bank
try direct-child sm spawn Sleeper x --trust direct
try child-outside sm spawn Sleeper x --working-dir /etc
try child-elsewhere sm spawn Sleeper x --workspace bank
try kill-other sm kill {other}
try read-other sm output {other}
try status-other sm status {other}
try write-other sm send {other} hello
try adopt sm adopt %0
try big-body sh -c 'curl -fsS --unix-socket $SM_SOCKET -H "Authorization: Bearer $(cat $SM_TOKEN_FILE)" \
  -H "Content-Type: application/json" --data-binary @big http://sm/v1/sessions/me/note'
try no-token sh -c 'curl -fsS --unix-socket $SM_SOCKET http://sm/v1/sessions'
sm me >/dev/null; echo "alive $?"
echo done
"""


def test_agent_reaches_nothing_outside_of_its_container(instance: Instance, engine: str) -> None:
    bank = instance.home / "bank"
    bank.mkdir()
    os.chown(bank, OWNER, OWNER)
    instance.sm("workspace", "create", "bank", "--working-dir", str(bank))
    other = instance.spawn("Sleeper", "x", "--workspace", "bank")["session_id"]
    text = ESCAPE.format(
        operator=instance.socket,
        state=instance.state,
        engine=engine.removeprefix("unix://"),
        tmux=instance.tmux_dir,
        daemon=instance.daemon_pid,
        other=other,
    )
    (instance.work / "escape").write_text(text)
    big = instance.work / "big"
    big.touch()
    os.truncate(big, 64 << 20)  # curl reads all of it before it sends the first byte
    instance.spawn("Sh", "sh escape > out.txt; sleep 1000", "--workspace", "shop")
    told = dict(line.split() for line in read_later(instance.work / "out.txt", "done").splitlines()[:-1])
    assert told.pop("alive") == "0"
    assert {name for name, code in told.items() if code == "0"} == set()
    assert not {"124", "126", "127"} & set(told.values()), (
        told
    )  # every attempt was made, and answered in time
    assert instance.session(other)["status"] == "running"
    assert peak_memory_kib(instance) < MEMORY_MAX_KIB


FORGE = """
import json, os, subprocess, time
own, token = os.environ["SM_SESSION_ID"], open(os.environ["SM_TOKEN_FILE"]).read().strip()
victims = open("victims").read().split()
def spool(session, token, action, body, name):
    place = SPOOL + "/" + session
    os.makedirs(place, exist_ok=True)
    report = {"key": os.urandom(16).hex(), "token": token, "emitted_at": "2026-11-01T00:00:00Z"}
    with open(place + "/" + name, "w") as file:
        json.dump({**report, "action": action, "body": body}, file)
    return place
for victim in victims:
    as_victim = {**os.environ, "SM_SESSION_ID": victim}
    subprocess.run(["sm", "note", "forged"], env=as_victim)
    event = {"hook_event_name": "SessionEnd", "session_id": "x", "reason": "other"}
    subprocess.run(["sm", "hook", "claude"], env=as_victim, input=json.dumps(event), text=True)
open("asked", "w").close()
while not os.path.exists("go"):
    time.sleep(0.1)
for victim in victims:
    for forged in (token, "0" * 64, ""):
        for number, action in enumerate(("complete", "note", "checkpoint")):
            body = {"message": "forged", "text": "forged"}
            spool(victim, forged, action, body, f"{number}-{os.urandom(8).hex()}.json")
place = spool(own, token, "checkpoint", {"message": "true words"}, "1-aa.json")
os.truncate(os.open(place + "/2-bb.json", os.O_CREAT | os.O_RDWR), 1 << 30)
os.mkfifo(place + "/3-cc.json")
os.symlink("/etc/shadow", place + "/4-dd.json")
os.mkdir(place + "/5-ee.json")
for number in range(2000):
    open(f"{place}/{number}-ff.json", "w").close()
os.symlink("/etc", SPOOL + "/ffffffff")
open("forged", "w").close()
time.sleep(100000)
"""


def test_reports_of_other_sessions_cannot_be_forged(instance: Instance) -> None:
    vault = instance.home / "vault"
    vault.mkdir()
    os.chown(vault, OWNER, OWNER)
    instance.sm("workspace", "create", "vault", "--working-dir", str(vault))
    victims = [
        instance.spawn("Sleeper", "x", "--workspace", workspace)["session_id"]
        for workspace in ("shop", "vault")
    ]
    (instance.work / "victims").write_text(" ".join(victims))
    place = InstancePaths(str(instance.config), str(instance.state)).sandbox("shop")
    spool = place.spool.replace(place.home, INSIDE_HOME)
    (instance.work / "forge").write_text(f"SPOOL = {spool!r}\n{FORGE}")
    forger = instance.spawn("Sh", "exec python3 forge", "--workspace", "shop")["session_id"]
    until((instance.work / "asked").exists, "the forger has asked")
    assert instance.session(forger)["note"] == "forged"  # the token counts, whatever the variable says
    instance.sm("daemon", "stop")
    (instance.work / "go").touch()
    until((instance.work / "forged").exists, "the reports are forged")
    instance.sm("daemon", "start")
    until(
        lambda: "true words" in str(instance.get(f"/v1/sessions/{forger}/checkpoints")),
        "the true report arrives",
    )
    for victim in victims:
        session = instance.session(victim)
        assert (session["status"], session["note"]) == ("running", None)
        assert instance.json("checkpoints", victim) == []
    assert peak_memory_kib(instance) < MEMORY_MAX_KIB
    instance.sm("kill", forger, "--force")

"""Limits on children, generations, processes and messages, with real commands, daemon and agents."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.api_client import ApiClient
from tests.fixtures import context_fixture
from tests.instance import Instance, until
from tests.integration.ended_agents import gone
from tests.integration.test_restore import CONVERSATION, User, column
from tests.load import scaled
from tests.session_client import request_as

FAST = "limits: {spawn_interval_s: 0}"
CHATTY = "limits: {reports_per_minute: 100000}"
ROOM = "limits: {max_per_workspace: 3}"
SLOW = "limits: {spawn_interval_s: 600, messages_per_minute: 3, reports_per_minute: 3}"
SOURCES = str(Path(__file__).parents[2] / "src")
BURST = """
import os, sys
sys.path.insert(0, sys.argv[1])
from sm.client.http import Client
from sm.errors import SmError
client = Client(os.environ["SM_SOCKET"])
with open("codes", "w", buffering=1) as codes:
    for number in range(1, 131):
        try:
            client.post("/v1/messages", {"to": sys.argv[2], "text": str(number)})
            print(0, file=codes)
        except SmError as error:
            print(error.exit_code, file=codes)
"""
# Posts 140 checkpoints with the metadata of argv[2]: as many entries, of so many characters each.
CHECKPOINTS = """
import os, sys
sys.path.insert(0, sys.argv[1])
from sm.client.http import Client
from sm.errors import SmError
client = Client(os.environ["SM_SOCKET"])
entries, characters = map(int, sys.argv[2].split(","))
metadata = {str(n): "\\u00e4" * characters for n in range(entries)}
codes = []
for number in range(140):
    try:
        client.post("/v1/sessions/me/checkpoints", {"message": f"step {number}", "metadata": metadata})
        codes.append(0)
    except SmError as error:
        codes.append(error.code)
with open(sys.argv[3], "w") as file:
    print(*codes, file=file)
os.rename(sys.argv[3], sys.argv[3] + ".done")
"""
ASK = """
import http.client, json, os, socket, sys
path, body, key = json.loads(sys.argv[1])
connection = http.client.HTTPConnection("sm")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(os.environ["SOCKET"])
headers = {"SM-Protocol": "1"} | ({} if key is None else {"Idempotency-Key": key})
if "SM_TOKEN_FILE" in os.environ:
    headers["Authorization"] = "Bearer " + open(os.environ["SM_TOKEN_FILE"]).read().strip()
connection.request("POST", path, json.dumps(body), headers)
answer = connection.getresponse()
print(json.dumps([answer.status, dict(answer.getheaders()), json.loads(answer.read())]))
"""


fast = context_fixture("function", Instance, FAST)
chatty = context_fixture("function", Instance, CHATTY)
room = context_fixture("function", Instance, ROOM)
slow = context_fixture("function", Instance, SLOW)


def as_session(session_id: str) -> dict[str, str]:
    """The variable that makes a command act as the session. It can only lower authority."""
    return {"SM_SESSION_ID": session_id}


def post(
    instance: Instance, caller: str | None, path: str, body: dict[str, object], key: str | None = None
) -> tuple[int, dict[str, str], Any]:
    """POST as a session, or as the operator (None); return status, headers and body."""
    environment = {"SOCKET": str(instance.socket)} | dict(instance.as_session(caller) if caller else {})
    process = subprocess.run(
        [sys.executable, "-c", ASK, json.dumps([path, body, key])],
        env=environment,
        capture_output=True,
        check=True,
        text=True,
    )
    status, headers, value = json.loads(process.stdout)
    return status, headers, value


def spawn_body(instance: Instance, **more: object) -> dict[str, object]:
    """The body of a spawn request."""
    environment = {"PATH": os.environ["PATH"]}
    return {"agent_type": "Sleeper", "cwd": str(instance.work), "environment": environment, **more}


def live_children(instance: Instance, parent: str) -> list[dict[str, Any]]:
    found = instance.json("children", parent)
    return [s for s in found if s["status"] not in ("completed", "error", "abandoned", "killed")]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


# Children


def test_one_of_eleven_simultaneous_spawns_is_refused_when_ten_children_are_allowed(fast: Instance) -> None:
    spawn = "sm spawn Sleeper > out-$n 2> err-$n; echo $? >> codes"
    parent = fast.spawn("Sh", f"for n in 1 2 3 4 5 6 7 8 9 10 11; do ({spawn}) & done; wait; exec sleep 1000")
    parent_id = parent["session_id"]
    until(lambda: len(lines(fast.work / "codes")) == 11, "all eleven exit codes", 60)
    assert Counter(lines(fast.work / "codes")) == {"0": 10, "6": 1}
    assert len(fast.json("children", parent_id)) == len(live_children(fast, parent_id)) == 10
    errors = [text for n in range(1, 12) if (text := (fast.work / f"err-{n}").read_text())]
    assert errors == [
        f"sm: session {parent_id} already has 10 live children, at most 10 are allowed\n"
        "hint: wait for a child to end: sm wait SESSION... --any --until ended; "
        "or raise limits.max_children in config.yaml\n"
    ]
    fast.spawn("Sleeper", "--parent", parent_id)  # the limit does not apply to the operator
    for child in live_children(fast, parent_id)[:2]:
        fast.sm("kill", child["session_id"], "--force")
    fast.sm("spawn", "Sleeper", env=as_session(parent_id))  # an ended child does not count
    fast.refused("spawn", "Sleeper", exit_code=6, env=as_session(parent_id))


def test_retry_at_the_limit_returns_the_first_child(fast: Instance) -> None:
    parent = fast.spawn("Sleeper")["session_id"]
    first = post(fast, parent, "/v1/sessions", spawn_body(fast), "k1")
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: fast.sm("spawn", "Sleeper", env=as_session(parent)), range(9)))
    status, headers, refusal = post(fast, parent, "/v1/sessions", spawn_body(fast), "k2")
    assert (status, refusal["error"]["code"]) == (429, "limit_reached")
    assert "Retry-After" not in headers
    assert "retry_after_s" not in refusal["error"]
    again = post(fast, parent, "/v1/sessions", spawn_body(fast), "k1")
    assert (first[0], again[0]) == (200, 200)
    assert again[2]["session_id"] == first[2]["session_id"]
    assert len(live_children(fast, parent)) == 10


def test_restored_and_moved_children_count_against_the_limit(fast: Instance) -> None:
    parent = fast.spawn("Sleeper")["session_id"]
    env = as_session(parent)
    with ThreadPoolExecutor(3) as pool:
        children = list(pool.map(lambda _: fast.json("spawn", "Sleeper", env=env)["session_id"], range(10)))
    fast.sm("kill", children[0], "--force")
    fast.sm("spawn", "Sleeper", env=env)
    assert "has 10 live children" in fast.refused("restore", children[0], exit_code=6, env=env)
    assert fast.session(children[0])["status"] == "killed"
    with ThreadPoolExecutor(3) as pool:
        grandchildren = list(
            pool.map(lambda _: fast.spawn("Sleeper", "--parent", children[1])["session_id"], range(10))
        )
    moving = "reparent", children[2], children[1]
    assert f"session {children[1]} already has 10 live children" in fast.refused(
        *moving, exit_code=6, env=env
    )
    fast.sm("kill", grandchildren[0], "--force")
    fast.sm(*moving, env=env)
    fast.sm("restore", children[0], env=env)
    assert len(live_children(fast, parent)) == len(live_children(fast, children[1])) == 10


@pytest.fixture
def paced() -> Iterator[tuple[Instance, int]]:
    """An instance, and its limit in seconds: the default, or on a busy machine longer than commands are apart."""
    interval_s = round(scaled(1))
    with Instance(f"limits: {{spawn_interval_s: {interval_s}}}") as instance:
        yield instance, interval_s


def test_five_simultaneous_spawns_are_delayed_to_one_per_second(paced: tuple[Instance, int]) -> None:
    instance, interval_s = paced
    spawn = "sm spawn Sleeper --name n$n --rate-wait 1000 > out-$n 2> err-$n; echo $? >> codes"
    parent = instance.spawn("Sh", f"for n in 1 2 3 4 5; do ({spawn}) & done; wait; exec sleep 1000")
    until(lambda: len(lines(instance.work / "codes")) == 5, "all five exit codes", 30 + 4 * interval_s)
    assert lines(instance.work / "codes") == ["0"] * 5
    times = sorted(
        datetime.fromisoformat(s["created_at"]) for s in instance.json("children", parent["session_id"])
    )
    assert len(times) == 5
    assert all((later - before).total_seconds() >= interval_s for before, later in pairwise(times))
    errors = Counter((instance.work / f"err-{n}").read_text() for n in range(1, 6))
    rate = "per second" if interval_s == 1 else f"every {interval_s} seconds"
    assert errors == {
        f"waiting: session {parent['session_id']} may start one child {rate} (limits.spawn_interval_s)\n": 4,
        "": 1,
    }


def test_limit_errors_name_the_friendly_name_of_the_session(slow: Instance, fast: Instance) -> None:
    slow_env = as_session(slow.spawn("Sleeper", "--name", "lead")["session_id"])
    slow.sm("spawn", "Sleeper", env=slow_env)
    refusal = slow.refused("spawn", "Sleeper", "--rate-wait", "0", exit_code=6, env=slow_env)
    assert refusal.startswith("sm: session sleeper-lead may start one child every ")
    fast_env = as_session(fast.spawn("Sleeper", "--name", "lead")["session_id"])
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: fast.sm("spawn", "Sleeper", env=fast_env), range(10)))
    refusal = fast.refused("spawn", "Sleeper", exit_code=6, env=fast_env)
    assert refusal.startswith("sm: session sleeper-lead already has 10 live children")


def test_rate_limit_is_429_with_a_retry_time_and_does_not_bind_the_operator(slow: Instance) -> None:
    parent = slow.spawn("Sleeper")["session_id"]
    assert post(slow, parent, "/v1/sessions", spawn_body(slow))[0] == 200
    status, headers, refusal = post(slow, parent, "/v1/sessions", spawn_body(slow))
    error = refusal["error"]
    assert (status, error["code"]) == (429, "rate_limited")
    assert (
        error["message"]
        == f"session {parent} may start one child every 600 seconds (limits.spawn_interval_s)"
    )
    assert 500 < error["retry_after_s"] < 600
    assert error["retry_after_s"] <= int(headers["Retry-After"]) < error["retry_after_s"] + 1
    # The delay is longer than the command waits by default, so it fails without waiting.
    error_text = slow.refused("spawn", "Sleeper", exit_code=6, env=as_session(parent))
    assert error_text.startswith(
        f"sm: session {parent} may start one child every 600 seconds (limits.spawn_interval_s)\nhint: try again in"
    )
    error_json = slow.refused("spawn", "Sleeper", "--json", exit_code=6, env=as_session(parent))
    assert json.loads(error_json)["error"]["retry_after_s"] > 500
    slow.spawn("Sleeper", "--parent", parent)  # the limit does not apply to the operator
    other = slow.spawn("Sleeper")["session_id"]
    slow.sm("spawn", "Sleeper", env=as_session(other))  # nor to another parent
    assert len(slow.json("children", parent)) == 2


def test_rate_limit_persists_when_the_child_is_removed_or_the_daemon_restarts(slow: Instance) -> None:
    parent = slow.spawn("Sleeper")["session_id"]
    env = as_session(parent)
    child = slow.json("spawn", "Sleeper", env=env)["session_id"]
    again = "spawn", "Sleeper", "--rate-wait", "0"
    for change in (["kill", child, "--force"], ["archive", child], ["rm", child]):
        slow.sm(*change, env=env)
        assert "one child every 600 seconds" in slow.refused(*again, exit_code=6, env=env)
    for n in range(3):
        slow.sm("send", parent, f"{n}", "--no-wait")  # messages of the operator do not count
    body: dict[str, object] = {"to": slow.spawn("Sleeper")["session_id"], "text": "x"}
    # Without commands, and before the other check: on a busy machine, the minute might pass.
    sent = request_as(slow, parent, *[("POST", "/v1/messages", None, body)] * 3)
    assert [code for code, *_ in sent] == ["ok"] * 3
    slow.kill_daemon()
    slow.start_daemon()
    status, _, refusal = post(slow, parent, "/v1/messages", body)
    assert (status, "3 messages per minute" in refusal["error"]["message"]) == (429, True)
    assert "one child every 600 seconds" in slow.refused(*again, exit_code=6, env=env)


def test_child_limit_persists_when_the_daemon_is_killed(fast: Instance) -> None:
    parent = fast.spawn("Sleeper")["session_id"]
    env = as_session(parent)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: fast.sm("spawn", "Sleeper", env=env), range(10)))
    fast.kill_daemon()
    fast.sm("status")
    assert "has 10 live children" in fast.refused("spawn", "Sleeper", exit_code=6, env=env)


# Generations


def test_fourth_generation_can_get_children_only_from_the_operator(fast: Instance) -> None:
    ancestors = [fast.spawn("Sleeper")["session_id"]]
    for _ in range(4):
        ancestors.append(fast.json("spawn", "Sleeper", env=as_session(ancestors[-1]))["session_id"])
    last = ancestors[-1]
    error = fast.refused("spawn", "Sleeper", exit_code=6, env=as_session(last))
    assert error.startswith(f"sm: a child of session {last} would be at depth 5, at most 4 is allowed\n")
    # An ancestor cannot spawn a child there either, or move a session with children there.
    root_env = as_session(ancestors[0])
    assert "at depth 5" in fast.refused("spawn", "Sleeper", "--parent", last, exit_code=6, env=root_env)
    uncle = fast.json("spawn", "Sleeper", env=root_env)["session_id"]
    fast.sm("spawn", "Sleeper", env=as_session(uncle))
    assert "at depth 5" in fast.refused("reparent", uncle, ancestors[3], exit_code=6, env=root_env)
    fast.sm("reparent", uncle, ancestors[2], env=root_env)
    fast.spawn("Sleeper", "--parent", last)


def test_agents_can_delegate_down_to_the_fourth_generation() -> None:
    # Each agent spawns the next one with the same script.
    script = 'sm spawn Deep "x" > /dev/null 2> said-$SM_SESSION_ID; echo $? >> said-$SM_SESSION_ID; exec sleep 1000'
    with Instance(
        f"  Deep: {{command: {json.dumps(['sh', '-c', script])}, prompt: file}}\n{FAST}"
    ) as instance:
        instance.spawn("Deep")
        until(lambda: len(list(instance.work.glob("said-*"))) == 5, "five generations have tried")
        refused = until(
            lambda: next((p for p in instance.work.glob("said-*") if p.read_text().endswith("6\n")), None),
            "the last spawn is refused",
        )
        assert "would be at depth 5, at most 4 is allowed" in refused.read_text()
        assert len(instance.json("all")) == 5


# Processes


def test_full_workspace_refuses_spawns_even_of_the_operator(room: Instance) -> None:
    parent, done, killed = (room.spawn("Sleeper")["session_id"] for _ in range(3))
    room.sm("complete", "done", env=as_session(done))
    assert room.session(done)["status"] == "completed"  # while its process runs
    full = "3 agent processes already run outside of workspaces, at most 3 are allowed"
    assert full in room.refused("spawn", "Sleeper", exit_code=6)
    assert full in room.refused("spawn", "Sleeper", "--parent", parent, exit_code=6)
    assert full in room.refused("spawn", "Sleeper", exit_code=6, env=as_session(parent))
    assert len(room.json("all")) == 3
    room.sm("kill", killed, "--force")
    room.spawn("Sh", "exit 0")
    until(
        lambda: len([s for s in room.json("all") if s["status"] == "completed"]) == 2,
        "the command has exited",
    )
    third = room.spawn("Sleeper")["session_id"]
    assert full in room.refused("restore", killed, exit_code=6)
    assert room.session(killed)["status"] == "killed"
    room.kill_daemon()
    room.sm("status")
    assert full in room.refused("spawn", "Sleeper", exit_code=6)
    room.sm("kill", done, "--force")  # completed, but its process still runs
    room.sm("restore", killed)
    room.sm("kill", third, "--force")
    room.spawn("Sleeper")


def test_processes_are_counted_per_workspace(room: Instance) -> None:
    for slug in ("web", "api"):
        (room.home / slug).mkdir()
        room.sm("workspace", "create", slug, "--working-dir", str(room.home / slug))
    for where in (["--workspace", "web"], ["--workspace", "api"], []):
        for _ in range(3):
            room.spawn("Sleeper", *where)
    error = room.refused("spawn", "Sleeper", "--workspace", "web", exit_code=6)
    assert "3 agent processes already run in workspace web, at most 3 are allowed" in error
    assert len(room.json("all")) == 9


def test_one_of_four_simultaneous_spawns_is_refused_when_three_processes_are_allowed(room: Instance) -> None:
    room.sm("status")
    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(lambda _: room.run("spawn", "Sleeper").returncode, range(4)))
    assert Counter(codes) == {0: 3, 6: 1}
    assert len(room.json("all")) == 3


def test_full_workspace_refuses_adopt_and_fork(room: Instance) -> None:
    user = User(room)
    pane = user.open_pane("mine")
    pid = user.start_claude(pane)
    talking = room.spawn("general-purpose", "do it")["session_id"]
    until(lambda: column(room, "conversation", talking) == CONVERSATION, "its conversation is known")
    last = room.spawn("Sleeper")["session_id"]
    full = "3 agent processes already run outside of workspaces, at most 3 are allowed"
    for command in (["adopt", pane], ["fork", talking]):
        assert full in room.refused(*command, exit_code=6)
    assert len(room.json("all")) == 3
    assert not gone(pid)
    room.sm("kill", last, "--force")
    assert room.json("adopt", pane)["pid"] == pid
    assert full in room.refused("fork", talking, exit_code=6)


def test_fork_of_a_child_counts_as_a_child(slow: Instance) -> None:
    user = User(slow)
    parent = slow.spawn("Sleeper")["session_id"]
    child = slow.spawn("general-purpose", "do it", "--parent", parent)["session_id"]
    until(lambda: column(slow, "conversation", child) == CONVERSATION, "its conversation is known")
    error = slow.refused("fork", child, exit_code=6, env=as_session(parent))
    assert "one child every 600 seconds" in error
    assert slow.json("fork", child)["parent_session_id"] == parent
    until(lambda: len(user.claude_pids()) == 2, "both agents run")


# Messages


def test_session_can_send_120_messages_a_minute_and_no_more(instance: Instance) -> None:
    deaf = instance.spawn("Sleeper")["session_id"]
    (instance.work / "burst.py").write_text(BURST)
    last = f"sm send {deaf} last --no-wait --rate-wait 0 > /dev/null 2> said; echo $? >> codes"
    script = f"{sys.executable} burst.py {SOURCES} {deaf}; {last}; exec sleep 1000"
    sender = instance.spawn("Sh", script)
    until(lambda: len(lines(instance.work / "codes")) == 131, "all exit codes", 40)
    assert lines(instance.work / "codes") == ["0"] * 120 + ["6"] * 11
    error = (instance.work / "said").read_text()
    assert "may send 120 messages per minute (limits.messages_per_minute)\nhint: try again in" in error
    stored = [m for m in instance.json("log", deaf, "--limit", "1000") if m["from"] == sender["session_id"]]
    assert [m["text"] for m in stored] == [str(n) for n in range(1, 121)]
    instance.sm("send", deaf, "the operator's", "--no-wait")
    other = instance.spawn("Sleeper")["session_id"]
    instance.sm("send", deaf, "another's", "--no-wait", "--rate-wait", "0", env=as_session(other))


def test_retried_message_counts_once_and_is_never_refused(slow: Instance) -> None:
    deaf, sender = (slow.spawn("Sleeper")["session_id"] for _ in range(2))
    body: dict[str, object] = {"to": deaf, "text": "again"}
    first = post(slow, sender, "/v1/messages", body, "k")
    for _ in range(3):
        assert post(slow, sender, "/v1/messages", body, "k")[2]["message_id"] == first[2]["message_id"]
    assert post(slow, sender, "/v1/messages", body)[0] == post(slow, sender, "/v1/messages", body)[0] == 200
    status, headers, refusal = post(slow, sender, "/v1/messages", body)
    assert (status, refusal["error"]["code"]) == (429, "rate_limited")
    assert 0 < refusal["error"]["retry_after_s"] <= int(headers["Retry-After"]) <= 60
    assert post(slow, sender, "/v1/messages", body, "k")[2]["message_id"] == first[2]["message_id"]
    # A message that cannot arrive is refused with its reason, not with the rate limit.
    slow.sm("kill", deaf, "--force")
    assert post(slow, sender, "/v1/messages", body)[2]["error"]["code"] == "illegal_state"


def test_text_length_limits_apply_to_sessions_too(instance: Instance) -> None:
    deaf, sender = (instance.spawn("Sleeper")["session_id"] for _ in range(2))
    env = as_session(sender)
    for text, code in (("x" * 50_000, 0), ("x" * 50_001, 2)):
        assert instance.run("send", deaf, "-", "--no-wait", stdin=text, env=env).returncode == code
    too_long: dict[str, object] = {"to": deaf, "text": "x" * 50_001}
    status, _, refusal = post(instance, sender, "/v1/messages", too_long)
    assert (status, refusal["error"]["code"]) == (400, "text_refused")
    status, _, refusal = post(instance, sender, "/v1/sessions", spawn_body(instance, prompt="x" * 10_001))
    assert (status, refusal["error"]["code"]) == (400, "text_refused")
    assert len(instance.json("log", deaf)) == 1
    assert instance.json("children", sender) == []


# Idempotency keys


def test_idempotency_key_of_a_spawn_is_separate_for_each_caller(fast: Instance) -> None:
    first, other = (fast.spawn("Sleeper")["session_id"] for _ in range(2))
    callers = None, first, other
    body = spawn_body(fast)
    answers = [post(fast, caller, "/v1/sessions", body, "k") for caller in callers]
    assert [status for status, _, _ in answers] == [200] * 3
    assert len({session["session_id"] for _, _, session in answers}) == 3
    assert [session["parent_session_id"] for _, _, session in answers] == [None, first, other]
    again = [post(fast, caller, "/v1/sessions", body, "k")[2]["session_id"] for caller in callers]
    assert again == [session["session_id"] for _, _, session in answers]
    for caller in callers:
        status, _, refusal = post(fast, caller, "/v1/sessions", spawn_body(fast, prompt="another"), "k")
        assert (status, refusal["error"]["code"]) == (400, "usage")
    assert len(fast.json("all")) == 5


def test_idempotency_key_of_a_message_is_separate_for_each_caller(fast: Instance) -> None:
    target, first, other = (fast.spawn("Sleeper")["session_id"] for _ in range(3))
    body: dict[str, object] = {"to": target, "text": "hello"}
    sent = [post(fast, caller, "/v1/messages", body, "k")[2] for caller in (None, first, other)]
    assert len({m["message_id"] for m in sent}) == 3
    assert [m["from"] for m in sent] == ["operator", first, other]
    # The same key on another route is refused too.
    status, _, refusal = post(fast, first, "/v1/sessions", spawn_body(fast), "k")
    assert (status, refusal["error"]["code"]) == (400, "usage")
    assert fast.json("children", first) == []


# Reports


def post_checkpoints(instance: Instance, entries: int, characters: int) -> tuple[str, list[str]]:
    """Let a session post 140 checkpoints. Return its id and the result of each checkpoint."""
    (instance.work / "points.py").write_text(CHECKPOINTS)
    script = f"{sys.executable} points.py {SOURCES} {entries},{characters} codes; exec sleep 1000"
    session_id: str = instance.spawn("Sh", script)["session_id"]
    done = instance.work / "codes.done"
    until(done.exists, "140 answers", 60)
    return session_id, done.read_text().split()


def test_checkpoint_is_refused_when_its_metadata_is_too_large(chatty: Instance) -> None:
    session_id, codes = post_checkpoints(chatty, 50, 10_000)
    assert Counter(codes) == {"text_refused": 140}
    assert chatty.json("progress", session_id)["checkpoints"] == []


def test_progress_shows_the_newest_checkpoints_when_a_session_posts_many_large_ones(
    chatty: Instance,
) -> None:
    session_id, codes = post_checkpoints(chatty, 4, 8_000)
    assert Counter(codes) == {"0": 140}
    newest = [f"step {n}" for n in range(90, 140)]
    assert [c["message"] for c in chatty.json("progress", session_id)["checkpoints"]] == newest
    assert [c["message"] for c in chatty.json("checkpoints", session_id)] == newest
    two = chatty.json("checkpoints", session_id, "--limit", "2")
    assert [(c["message"], len(c["metadata"]["3"])) for c in two] == [
        ("step 138", 8_000),
        ("step 139", 8_000),
    ]
    (last,) = ApiClient(chatty.socket).get("/v1/sessions/{ref}/progress", session_id, checkpoints=1)[
        "checkpoints"
    ]
    assert last["message"] == "step 139"


def test_session_reports_only_as_often_as_the_limit_allows(slow: Instance) -> None:
    session_id = slow.spawn("Sleeper")["session_id"]
    path = "/v1/sessions/me/checkpoints"
    checkpoint: dict[str, object] = {"message": "half"}
    assert post(slow, session_id, path, checkpoint, "k1")[0] == 200
    for text in ("one", "two"):
        assert post(slow, session_id, "/v1/sessions/me/note", {"text": text})[0] == 200
    status, headers, refusal = post(slow, session_id, "/v1/sessions/me/note", {"text": "three"})
    assert (status, refusal["error"]["code"]) == (429, "rate_limited")
    assert 1 <= int(headers["Retry-After"]) <= 60
    assert post(slow, session_id, path, checkpoint, "k1")[0] == 200  # a repetition does not count
    assert slow.session(session_id)["note"] == "two"

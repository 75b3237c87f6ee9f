"""Limits as sessions and the operator meet them: real commands, a real daemon, real agents."""

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

from tests.instance import Instance, until
from tests.integration.test_endings import gone
from tests.integration.test_revival import TALK, Person, column

FAST = "limits: {spawn_interval_s: 0}"
ROOM = "limits: {max_per_workspace: 3}"
SLOW = "limits: {spawn_interval_s: 600, messages_per_minute: 3}"
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
ASK = """
import http.client, json, os, socket, sys
path, body, key = json.loads(sys.argv[1])
connection = http.client.HTTPConnection("sm")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(os.environ["SOCKET"])
headers = {"SM-Protocol": "1"} | ({} if key is None else {"Idempotency-Key": key})
connection.request("POST", path, json.dumps(body), headers)
answer = connection.getresponse()
print(json.dumps([answer.status, dict(answer.getheaders()), json.loads(answer.read())]))
"""


@pytest.fixture
def fast() -> Iterator[Instance]:
    with Instance(FAST) as made:
        yield made


@pytest.fixture
def room() -> Iterator[Instance]:
    with Instance(ROOM) as made:
        yield made


@pytest.fixture
def slow() -> Iterator[Instance]:
    with Instance(SLOW) as made:
        yield made


def as_session(session_id: str) -> dict[str, str]:
    """The mark that makes a command one of the session: marks only ever lower authority."""
    return {"SM_SESSION_ID": session_id}


def post(
    instance: Instance, caller: str | None, path: str, body: dict[str, object], key: str | None = None
) -> tuple[int, dict[str, str], Any]:
    """(status, headers, body) of what the daemon answers the operator, or a session."""
    environment = {"SOCKET": str(instance.socket)} | (as_session(caller) if caller else {})
    said = subprocess.run(
        [sys.executable, "-c", ASK, json.dumps([path, body, key])],
        env=environment,
        capture_output=True,
        check=True,
        text=True,
    )
    status, headers, value = json.loads(said.stdout)
    return status, headers, value


def sleeper(instance: Instance, **more: object) -> dict[str, object]:
    """The body of a spawn."""
    environment = {"PATH": os.environ["PATH"]}
    return {"agent_type": "Sleeper", "cwd": str(instance.work), "environment": environment, **more}


def live_children(instance: Instance, parent: str) -> list[dict[str, Any]]:
    found = instance.json("children", parent)
    return [s for s in found if s["status"] not in ("completed", "error", "abandoned", "killed")]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


# Children


def test_eleven_that_come_at_once_for_ten_places_are_ten_children_and_one_refusal(fast: Instance) -> None:
    one = "sm spawn Sleeper > out-$n 2> err-$n; echo $? >> codes"
    parent = fast.spawn("Sh", f"for n in 1 2 3 4 5 6 7 8 9 10 11; do ({one}) & done; wait; exec sleep 1000")
    parent_id = parent["session_id"]
    until(lambda: len(lines(fast.work / "codes")) == 11, "all eleven were answered", 60)
    assert Counter(lines(fast.work / "codes")) == {"0": 10, "6": 1}
    assert len(fast.json("children", parent_id)) == len(live_children(fast, parent_id)) == 10
    said = [text for n in range(1, 12) if (text := (fast.work / f"err-{n}").read_text())]
    assert said == [
        f"sm: session {parent_id} has 10 live children, at most 10 are allowed\n"
        "hint: sm wait for one of them, or sm kill it; limits.max_children sets how many\n"
    ]
    fast.spawn("Sleeper", "--parent", parent_id)  # it does not bind the operator
    for child in live_children(fast, parent_id)[:2]:
        fast.sm("kill", child["session_id"], "--force")
    fast.sm("spawn", "Sleeper", env=as_session(parent_id))  # an ended child is none
    fast.refused("spawn", "Sleeper", exit_code=6, env=as_session(parent_id))


def test_a_retry_at_the_limit_is_the_first_child(fast: Instance) -> None:
    parent = fast.spawn("Sleeper")["session_id"]
    first = post(fast, parent, "/v1/sessions", sleeper(fast), "k1")
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: fast.sm("spawn", "Sleeper", env=as_session(parent)), range(9)))
    status, headers, refusal = post(fast, parent, "/v1/sessions", sleeper(fast), "k2")
    assert (status, refusal["error"]["code"]) == (429, "limit_reached")
    assert "Retry-After" not in headers
    assert "retry_after_s" not in refusal["error"]
    again = post(fast, parent, "/v1/sessions", sleeper(fast), "k1")
    assert (first[0], again[0]) == (200, 200)
    assert again[2]["session_id"] == first[2]["session_id"]
    assert len(live_children(fast, parent)) == 10


def test_a_restored_and_a_moved_child_need_a_place_too(fast: Instance) -> None:
    parent = fast.spawn("Sleeper")["session_id"]
    env = as_session(parent)
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda _: fast.json("spawn", "Sleeper", env=env)["session_id"], range(10)))
    fast.sm("kill", made[0], "--force")
    fast.sm("spawn", "Sleeper", env=env)
    assert "has 10 live children" in fast.refused("restore", made[0], exit_code=6, env=env)
    assert fast.session(made[0])["status"] == "killed"
    with ThreadPoolExecutor(3) as pool:
        below = list(pool.map(lambda _: fast.spawn("Sleeper", "--parent", made[1])["session_id"], range(10)))
    moving = "reparent", made[2], made[1]
    assert f"session {made[1]} has 10 live children" in fast.refused(*moving, exit_code=6, env=env)
    fast.sm("kill", below[0], "--force")
    fast.sm(*moving, env=env)
    fast.sm("restore", made[0], env=env)
    assert len(live_children(fast, parent)) == len(live_children(fast, made[1])) == 10


def test_five_that_come_at_once_get_their_turn_a_second_apart(instance: Instance) -> None:
    one = "sm spawn Sleeper --name n$n > out-$n 2> err-$n; echo $? >> codes"
    parent = instance.spawn("Sh", f"for n in 1 2 3 4 5; do ({one}) & done; wait; exec sleep 1000")
    until(lambda: len(lines(instance.work / "codes")) == 5, "all five were answered", 30)
    assert lines(instance.work / "codes") == ["0"] * 5
    born = sorted(
        datetime.fromisoformat(s["created_at"]) for s in instance.json("children", parent["session_id"])
    )
    assert len(born) == 5
    assert all((later - before).total_seconds() >= 1 for before, later in pairwise(born))
    said = Counter((instance.work / f"err-{n}").read_text() for n in range(1, 6))
    assert said == {"waiting: one child per second (limits.spawn_interval_s)\n": 4, "": 1}


def test_a_rate_is_429_and_says_when_to_come_again(slow: Instance) -> None:
    parent = slow.spawn("Sleeper")["session_id"]
    assert post(slow, parent, "/v1/sessions", sleeper(slow))[0] == 200
    status, headers, refusal = post(slow, parent, "/v1/sessions", sleeper(slow))
    error = refusal["error"]
    assert (status, error["code"]) == (429, "rate_limited")
    assert error["message"] == "one child every 600 seconds (limits.spawn_interval_s)"
    assert 500 < error["retry_after_s"] < 600
    assert error["retry_after_s"] <= int(headers["Retry-After"]) < error["retry_after_s"] + 1
    # Longer than the command waits by itself: it does not even begin to.
    said = slow.refused("spawn", "Sleeper", exit_code=6, env=as_session(parent))
    assert said.startswith("sm: one child every 600 seconds (limits.spawn_interval_s)\nhint: session")
    told = slow.refused("spawn", "Sleeper", "--json", exit_code=6, env=as_session(parent))
    assert json.loads(told)["error"]["retry_after_s"] > 500
    slow.spawn("Sleeper", "--parent", parent)  # it does not bind the operator
    other = slow.spawn("Sleeper")["session_id"]
    slow.sm("spawn", "Sleeper", env=as_session(other))  # nor another parent
    assert len(slow.json("children", parent)) == 2


def test_what_became_of_the_newest_child_changes_no_rate_and_neither_does_a_new_daemon(
    slow: Instance,
) -> None:
    parent = slow.spawn("Sleeper")["session_id"]
    env = as_session(parent)
    child = slow.json("spawn", "Sleeper", env=env)["session_id"]
    again = "spawn", "Sleeper", "--rate-wait", "0"
    for change in (["kill", child, "--force"], ["archive", child], ["rm", child]):
        slow.sm(*change, env=env)
        assert "one child every 600 seconds" in slow.refused(*again, exit_code=6, env=env)
    for n in range(3):
        slow.sm("send", parent, f"{n}", "--no-wait")  # the operator's do not count
    sibling = slow.spawn("Sleeper")["session_id"]
    for n in range(3):
        slow.sm("send", sibling, f"{n}", "--no-wait", env=env)
    slow.kill_daemon()
    slow.sm("status")
    assert "one child every 600 seconds" in slow.refused(*again, exit_code=6, env=env)
    send = "send", sibling, "one more", "--no-wait", "--rate-wait", "0"
    assert "3 messages per minute" in slow.refused(*send, exit_code=6, env=env)


def test_a_count_holds_over_the_death_of_the_daemon(fast: Instance) -> None:
    parent = fast.spawn("Sleeper")["session_id"]
    env = as_session(parent)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: fast.sm("spawn", "Sleeper", env=env), range(10)))
    fast.kill_daemon()
    fast.sm("status")
    assert "has 10 live children" in fast.refused("spawn", "Sleeper", exit_code=6, env=env)


# Generations


def test_the_fourth_generation_has_no_children_but_the_operators(fast: Instance) -> None:
    line = [fast.spawn("Sleeper")["session_id"]]
    for _ in range(4):
        line.append(fast.json("spawn", "Sleeper", env=as_session(line[-1]))["session_id"])
    last = line[-1]
    said = fast.refused("spawn", "Sleeper", exit_code=6, env=as_session(last))
    assert said.startswith(f"sm: a child of session {last} is generation 5, at most 4 are allowed\n")
    # Nor may one above start it there, or move it there with what it has below.
    above = as_session(line[0])
    assert "generation 5" in fast.refused("spawn", "Sleeper", "--parent", last, exit_code=6, env=above)
    uncle = fast.json("spawn", "Sleeper", env=above)["session_id"]
    fast.sm("spawn", "Sleeper", env=as_session(uncle))
    assert "generation 5" in fast.refused("reparent", uncle, line[3], exit_code=6, env=above)
    fast.sm("reparent", uncle, line[2], env=above)
    fast.spawn("Sleeper", "--parent", last)


def test_an_agent_delegates_down_to_the_fourth_generation_and_is_told_there() -> None:
    # Each starts the next with its own words: $0 is the script.
    script = 'sm spawn Deep "x" > /dev/null 2> said-$SM_SESSION_ID; echo $? >> said-$SM_SESSION_ID; exec sleep 1000'
    with Instance(
        f"  Deep: {{command: {json.dumps(['sh', '-c', script])}, prompt: file}}\n{FAST}"
    ) as instance:
        instance.spawn("Deep")
        until(lambda: len(list(instance.work.glob("said-*"))) == 5, "five generations were tried")
        last = until(
            lambda: next((p for p in instance.work.glob("said-*") if p.read_text().endswith("6\n")), None),
            "the last was refused",
        )
        assert "is generation 5, at most 4 are allowed" in last.read_text()
        assert len(instance.json("all")) == 5


# Processes


def test_a_full_workspace_takes_no_more_also_of_the_operator(room: Instance) -> None:
    parent, done, gone = (room.spawn("Sleeper")["session_id"] for _ in range(3))
    room.sm("complete", "done", env=as_session(done))
    assert room.session(done)["status"] == "completed"  # and its process lives
    full = "3 agent processes run outside of workspaces, at most 3 are allowed"
    assert full in room.refused("spawn", "Sleeper", exit_code=6)
    assert full in room.refused("spawn", "Sleeper", "--parent", parent, exit_code=6)
    assert full in room.refused("spawn", "Sleeper", exit_code=6, env=as_session(parent))
    assert full in room.refused("spawn", "Sleeper", "--trust", "sandboxed", exit_code=6)
    assert len(room.json("all")) == 3
    room.sm("kill", gone, "--force")
    room.spawn("Sh", "exit 0")
    until(lambda: len([s for s in room.json("all") if s["status"] == "completed"]) == 2, "it has exited")
    third = room.spawn("Sleeper")["session_id"]
    assert full in room.refused("restore", gone, exit_code=6)
    assert room.session(gone)["status"] == "killed"
    room.kill_daemon()
    room.sm("status")
    assert full in room.refused("spawn", "Sleeper", exit_code=6)
    room.sm("kill", done, "--force")  # an ended one, whose process runs
    room.sm("restore", gone)
    room.sm("kill", third, "--force")
    room.spawn("Sleeper")


def test_workspaces_are_counted_apart(room: Instance) -> None:
    for slug in ("web", "api"):
        (room.home / slug).mkdir()
        room.sm("workspace", "create", slug, "--working-dir", str(room.home / slug))
    for where in (["--workspace", "web"], ["--workspace", "api"], []):
        for _ in range(3):
            room.spawn("Sleeper", *where)
    said = room.refused("spawn", "Sleeper", "--workspace", "web", exit_code=6)
    assert "3 agent processes run in workspace web, at most 3 are allowed" in said
    assert len(room.json("all")) == 9


def test_of_four_that_come_at_once_for_three_places_one_is_refused(room: Instance) -> None:
    room.sm("status")
    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(lambda _: room.run("spawn", "Sleeper").returncode, range(4)))
    assert Counter(codes) == {0: 3, 6: 1}
    assert len(room.json("all")) == 3


def test_a_full_workspace_adopts_and_forks_nothing(room: Instance) -> None:
    person = Person(room)
    pane = person.opens("mine")
    pid = person.runs(pane)
    talking = room.spawn("general-purpose", "do it")["session_id"]
    until(lambda: column(room, "conversation", talking) == TALK, "it has said what it is in")
    last = room.spawn("Sleeper")["session_id"]
    full = "3 agent processes run outside of workspaces, at most 3 are allowed"
    for asked in (["adopt", pane], ["fork", talking]):
        assert full in room.refused(*asked, exit_code=6)
    assert len(room.json("all")) == 3
    assert not gone(pid)
    room.sm("kill", last, "--force")
    assert room.json("adopt", pane)["pid"] == pid
    assert full in room.refused("fork", talking, exit_code=6)


def test_a_fork_of_a_sessions_child_is_a_child_like_any_other(slow: Instance) -> None:
    person = Person(slow)
    parent = slow.spawn("Sleeper")["session_id"]
    child = slow.spawn("general-purpose", "do it", "--parent", parent)["session_id"]
    until(lambda: column(slow, "conversation", child) == TALK, "it has said what it is in")
    said = slow.refused("fork", child, exit_code=6, env=as_session(parent))
    assert "one child every 600 seconds" in said
    assert slow.json("fork", child)["parent_session_id"] == parent
    until(lambda: len(person.claudes()) == 2, "both run")


# Messages


def test_a_burst_of_a_session_stops_at_a_hundred_and_twenty(instance: Instance) -> None:
    deaf = instance.spawn("Sleeper")["session_id"]
    (instance.work / "burst.py").write_text(BURST)
    last = f"sm send {deaf} last --no-wait --rate-wait 0 > /dev/null 2> said; echo $? >> codes"
    script = f"{sys.executable} burst.py {SOURCES} {deaf}; {last}; exec sleep 1000"
    sender = instance.spawn("Sh", script)
    until(lambda: len(lines(instance.work / "codes")) == 131, "all of them were tried", 40)
    assert lines(instance.work / "codes") == ["0"] * 120 + ["6"] * 11
    said = (instance.work / "said").read_text()
    assert said.startswith("sm: 120 messages per minute (limits.messages_per_minute)\nhint: session")
    stored = [m for m in instance.json("log", deaf, "--limit", "1000") if m["from"] == sender["session_id"]]
    assert [m["text"] for m in stored] == [str(n) for n in range(1, 121)]
    instance.sm("send", deaf, "the operator's", "--no-wait")
    other = instance.spawn("Sleeper")["session_id"]
    instance.sm("send", deaf, "another's", "--no-wait", "--rate-wait", "0", env=as_session(other))


def test_a_repeated_message_counts_once_and_is_none_too_many(slow: Instance) -> None:
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
    # What cannot arrive is said at once: no waiting helps.
    slow.sm("kill", deaf, "--force")
    assert post(slow, sender, "/v1/messages", body)[2]["error"]["code"] == "illegal_state"


def test_a_sessions_words_are_not_longer_than_the_operators(instance: Instance) -> None:
    deaf, sender = (instance.spawn("Sleeper")["session_id"] for _ in range(2))
    env = as_session(sender)
    for text, code in (("x" * 50_000, 0), ("x" * 50_001, 2)):
        assert instance.run("send", deaf, "-", "--no-wait", stdin=text, env=env).returncode == code
    too_long: dict[str, object] = {"to": deaf, "text": "x" * 50_001}
    status, _, refusal = post(instance, sender, "/v1/messages", too_long)
    assert (status, refusal["error"]["code"]) == (400, "text_refused")
    status, _, refusal = post(instance, sender, "/v1/sessions", sleeper(instance, prompt="x" * 10_001))
    assert (status, refusal["error"]["code"]) == (400, "text_refused")
    assert len(instance.json("log", deaf)) == 1
    assert instance.json("children", sender) == []


# Idempotency-Keys of others


def test_a_key_of_one_caller_is_nothing_to_another(fast: Instance) -> None:
    one, other = (fast.spawn("Sleeper")["session_id"] for _ in range(2))
    callers = None, one, other
    body = sleeper(fast)
    made = [post(fast, caller, "/v1/sessions", body, "k") for caller in callers]
    assert [status for status, _, _ in made] == [200] * 3
    assert len({session["session_id"] for _, _, session in made}) == 3
    assert [session["parent_session_id"] for _, _, session in made] == [None, one, other]
    again = [post(fast, caller, "/v1/sessions", body, "k")[2]["session_id"] for caller in callers]
    assert again == [session["session_id"] for _, _, session in made]
    for caller in callers:
        status, _, refusal = post(fast, caller, "/v1/sessions", sleeper(fast, prompt="another"), "k")
        assert (status, refusal["error"]["code"]) == (400, "usage")
    assert len(fast.json("all")) == 5


def test_a_message_of_one_caller_is_not_what_another_gets_for_its_key(fast: Instance) -> None:
    target, one, other = (fast.spawn("Sleeper")["session_id"] for _ in range(3))
    body: dict[str, object] = {"to": target, "text": "hello"}
    sent = [post(fast, caller, "/v1/messages", body, "k")[2] for caller in (None, one, other)]
    assert len({m["message_id"] for m in sent}) == 3
    assert [m["from"] for m in sent] == ["operator", one, other]
    # Also where the same key was one for something else.
    status, _, refusal = post(fast, one, "/v1/sessions", sleeper(fast), "k")
    assert (status, refusal["error"]["code"]) == (400, "usage")
    assert fast.json("children", one) == []

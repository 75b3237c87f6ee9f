"""Limits on children, generations, processes and messages."""

import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any

from tests.fixtures import context_fixture
from tests.sim.stage import Instance, until

FAST = "limits: {spawn_interval_s: 0}"
CHATTY = "limits: {reports_per_minute: 100000}"
ROOM = "limits: {max_per_workspace: 3}"
SLOW = "limits: {spawn_interval_s: 600, messages_per_minute: 3, reports_per_minute: 3}"


fast = context_fixture("function", Instance, FAST)
chatty = context_fixture("function", Instance, CHATTY)
room = context_fixture("function", Instance, ROOM)
slow = context_fixture("function", Instance, SLOW)
instance = context_fixture("function", Instance)


def as_session(session_id: str) -> dict[str, str]:
    """The variable that makes a command act as the session. It can only lower authority."""
    return {"SM_SESSION_ID": session_id}


def post(
    instance: Instance, caller: str | None, path: str, body: dict[str, object], key: str | None = None
) -> tuple[int, dict[str, str], Any]:
    """POST as a session, or as the operator (None); return status, headers and body."""
    answer = instance.post_as(caller, path, body, key)
    return answer.status, dict(answer.headers), json.loads(answer.body)


def spawn_together(
    instance: Instance, count: int, env: Mapping[str, str] | None = None, *more: str
) -> list[tuple[int, str]]:
    """Run so many `sm spawn` at the same time. Return the exit code and the errors of each."""
    started = [instance.start_command("spawn", "Sleeper", *more, env=env) for _ in range(count)]
    errors = [command.communicate()[1] for command in started]
    return [(command.wait(), text) for command, text in zip(started, errors, strict=True)]


def spawn_body(instance: Instance, **more: object) -> dict[str, object]:
    """The body of a spawn request."""
    environment = {"PATH": instance.env["PATH"]}
    return {"agent_type": "Sleeper", "cwd": str(instance.work), "environment": environment, **more}


def live_children(instance: Instance, parent: str) -> list[dict[str, Any]]:
    found = instance.json("children", parent)
    return [s for s in found if s["status"] not in ("completed", "error", "abandoned", "killed")]


# Children


def test_one_of_eleven_simultaneous_spawns_is_refused_when_ten_children_are_allowed(fast: Instance) -> None:
    parent_id = fast.spawn("Sleeper")["session_id"]
    ended = spawn_together(fast, 11, fast.as_session(parent_id))
    assert Counter(code for code, _ in ended) == {0: 10, 6: 1}
    assert len(fast.json("children", parent_id)) == len(live_children(fast, parent_id)) == 10
    assert [text for _, text in ended if text] == [
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
    for _ in range(9):
        fast.sm("spawn", "Sleeper", env=as_session(parent))
    status, headers, refusal = post(fast, parent, "/v1/sessions", spawn_body(fast), "k2")
    assert (status, refusal["error"]["code"]) == (429, "limit_reached")
    assert "retry-after" not in headers
    assert "retry_after_s" not in refusal["error"]
    again = post(fast, parent, "/v1/sessions", spawn_body(fast), "k1")
    assert (first[0], again[0]) == (200, 200)
    assert again[2]["session_id"] == first[2]["session_id"]
    assert len(live_children(fast, parent)) == 10


def test_restored_and_moved_children_count_against_the_limit(fast: Instance) -> None:
    parent = fast.spawn("Sleeper")["session_id"]
    env = as_session(parent)
    children = [fast.json("spawn", "Sleeper", env=env)["session_id"] for _ in range(10)]
    fast.sm("kill", children[0], "--force")
    fast.sm("spawn", "Sleeper", env=env)
    assert "has 10 live children" in fast.refused("restore", children[0], exit_code=6, env=env)
    assert fast.session(children[0])["status"] == "killed"
    grandchildren = [fast.spawn("Sleeper", "--parent", children[1])["session_id"] for _ in range(10)]
    moving = "reparent", children[2], children[1]
    assert f"session {children[1]} already has 10 live children" in fast.refused(
        *moving, exit_code=6, env=env
    )
    fast.sm("kill", grandchildren[0], "--force")
    fast.sm(*moving, env=env)
    fast.sm("restore", children[0], env=env)
    assert len(live_children(fast, parent)) == len(live_children(fast, children[1])) == 10


def test_five_simultaneous_spawns_are_delayed_to_one_per_second(instance: Instance) -> None:
    parent_id = instance.spawn("Sleeper")["session_id"]
    ended = spawn_together(instance, 5, instance.as_session(parent_id), "--rate-wait", "1000")
    assert [code for code, _ in ended] == [0] * 5
    times = sorted(datetime.fromisoformat(s["created_at"]) for s in instance.json("children", parent_id))
    assert len(times) == 5
    assert all((later - before).total_seconds() >= 1 for before, later in pairwise(times))
    waited = f"waiting: session {parent_id} may start one child per second (limits.spawn_interval_s)\n"
    assert Counter(text for _, text in ended) == {waited: 4, "": 1}


def test_rate_limit_error_names_the_friendly_name_of_the_session(slow: Instance) -> None:
    env = as_session(slow.spawn("Sleeper", "--name", "lead")["session_id"])
    slow.sm("spawn", "Sleeper", env=env)
    refusal = slow.refused("spawn", "Sleeper", "--rate-wait", "0", exit_code=6, env=env)
    assert refusal.startswith("sm: session sleeper-lead may start one child every ")


def test_child_limit_error_names_the_friendly_name_of_the_session(fast: Instance) -> None:
    env = as_session(fast.spawn("Sleeper", "--name", "lead")["session_id"])
    for _ in range(10):
        fast.sm("spawn", "Sleeper", env=env)
    refusal = fast.refused("spawn", "Sleeper", exit_code=6, env=env)
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
    assert error["retry_after_s"] <= int(headers["retry-after"]) < error["retry_after_s"] + 1
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
    sent = slow.request_as(parent, *[("POST", "/v1/messages", None, body)] * 3)
    assert [code for code, *_ in sent] == ["ok"] * 3
    slow.kill_daemon()
    slow.start_daemon()
    status, _, refusal = post(slow, parent, "/v1/messages", body)
    assert (status, "3 messages per minute" in refusal["error"]["message"]) == (429, True)
    assert "one child every 600 seconds" in slow.refused(*again, exit_code=6, env=env)


def test_child_limit_persists_when_the_daemon_is_killed(fast: Instance) -> None:
    parent = fast.spawn("Sleeper")["session_id"]
    env = as_session(parent)
    for _ in range(10):
        fast.sm("spawn", "Sleeper", env=env)
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
    assert Counter(code for code, _ in spawn_together(room, 4)) == {0: 3, 6: 1}
    assert len(room.json("all")) == 3


# Messages


def test_session_can_send_120_messages_a_minute_and_no_more(instance: Instance) -> None:
    deaf, sender = (instance.spawn("Sleeper")["session_id"] for _ in range(2))
    bodies = ({"to": deaf, "text": str(number)} for number in range(1, 131))
    answers = instance.request_as(sender, *[("POST", "/v1/messages", None, body) for body in bodies])
    assert [answer[0] for answer in answers] == ["ok"] * 120 + ["rate_limited"] * 10
    last = "send", deaf, "last", "--no-wait", "--rate-wait", "0"
    error = instance.refused(*last, exit_code=6, env=as_session(sender))
    assert "may send 120 messages per minute (limits.messages_per_minute)\nhint: try again in" in error
    stored = [m for m in instance.json("log", deaf, "--limit", "1000") if m["from"] == sender]
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
    assert 0 < refusal["error"]["retry_after_s"] <= int(headers["retry-after"]) <= 60
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


def post_checkpoints(instance: Instance, count: int, entries: int, characters: int) -> tuple[str, list[str]]:
    """Post checkpoints with metadata of so many entries. Return the session's id and each result."""
    session_id: str = instance.spawn("Sleeper")["session_id"]
    metadata = {str(n): "\u00e4" * characters for n in range(entries)}
    bodies = ({"message": f"step {number}", "metadata": metadata} for number in range(count))
    requests = [("POST", "/v1/sessions/me/checkpoints", None, body) for body in bodies]
    return session_id, [answer[0] for answer in instance.request_as(session_id, *requests)]


def test_checkpoint_is_refused_when_its_metadata_is_too_large(chatty: Instance) -> None:
    session_id, codes = post_checkpoints(chatty, 3, 50, 10_000)
    assert Counter(codes) == {"text_refused": 3}
    assert chatty.json("progress", session_id)["checkpoints"] == []


def test_progress_shows_the_newest_checkpoints_when_a_session_posts_many_large_ones(
    chatty: Instance,
) -> None:
    session_id, codes = post_checkpoints(chatty, 140, 4, 8_000)
    assert Counter(codes) == {"ok": 140}
    newest = [f"step {n}" for n in range(90, 140)]
    assert [c["message"] for c in chatty.json("progress", session_id)["checkpoints"]] == newest
    assert [c["message"] for c in chatty.json("checkpoints", session_id)] == newest
    two = chatty.json("checkpoints", session_id, "--limit", "2")
    assert [(c["message"], len(c["metadata"]["3"])) for c in two] == [
        ("step 138", 8_000),
        ("step 139", 8_000),
    ]
    (last,) = chatty.get(f"/v1/sessions/{session_id}/progress?checkpoints=1")["checkpoints"]
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
    assert 1 <= int(headers["retry-after"]) <= 60
    assert post(slow, session_id, path, checkpoint, "k1")[0] == 200  # a repetition does not count
    assert slow.session(session_id)["note"] == "two"

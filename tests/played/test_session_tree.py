"""The session tree: children and notices when a parent ends, reparent, and kill --tree."""

import asyncio
import os
import signal
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.integration.ended_agents import ENDED, end_process, outcome, rows, wait_line, wait_outbox
from tests.sim.programs import Running
from tests.sim.stage import Instance, until

shared = context_fixture("function", Instance, "limits: {max_per_workspace: 10000}")
"""The default configuration: children move to the grandparent."""
abandoning = context_fixture("function", Instance, "child_agents: {on_parent_end: abandon}")
instance = context_fixture("function", Instance)
keeping = context_fixture("function", Instance, "child_agents: {on_parent_end: keep}")


def spawn_child(
    instance: Instance, parent: dict[str, Any] | None, script: str | None = None
) -> dict[str, Any]:
    options = [] if parent is None else ["--parent", parent["session_id"]]
    return instance.spawn(*(("Sleeper",) if script is None else ("Sh", script)), *options)


def spawn_chain(instance: Instance, length: int) -> list[dict[str, Any]]:
    """Spawn a session, its child, its grandchild and so on."""
    chain: list[dict[str, Any]] = []
    for _ in range(length):
        chain.append(spawn_child(instance, chain[-1] if chain else None))
    return chain


def parent_of(instance: Instance, session: dict[str, Any]) -> str | None:
    parent: str | None = instance.session(session["session_id"])["parent_session_id"]
    return parent


def wait_parent(instance: Instance, session: dict[str, Any], parent: dict[str, Any] | None) -> None:
    expected = None if parent is None else parent["session_id"]
    until(lambda: parent_of(instance, session) == expected, f"{session['session_id']} belongs to {expected}")


def notices(instance: Instance, session: dict[str, Any]) -> list[str]:
    """The lines of all notices to this session, delivered or not."""
    log = instance.json("log", session["session_id"], "--limit", "1000")
    return [line for m in log if m["from"] == "sm" for line in m["text"].splitlines()]


def inbox_lines(instance: Instance) -> list[str]:
    return [line for m in instance.json("inbox") for line in m["text"].splitlines()]


def end_events(instance: Instance, session: dict[str, Any]) -> list[str]:
    """The end events of this session, without those of its children."""
    types = [e["type"] for e in instance.events() if e["session_id"] == session["session_id"]]
    return [type for type in types if type in ENDED]


def notice_states(instance: Instance, *sessions: dict[str, Any]) -> set[str]:
    """The states of the notices about these sessions."""
    ids = {session["session_id"] for session in sessions}
    return {state for of, state in rows(instance, "SELECT session_id, state FROM notices") if of in ids}


def lines_about(lines: list[str], session: dict[str, Any]) -> list[str]:
    name = f"{session['name']} ({session['session_id']}) "
    return [line for line in lines if line.partition(" ")[2].startswith(name)]


# Move to the grandparent


def test_children_move_to_the_grandparent_and_keep_running_when_their_parent_ends(shared: Instance) -> None:
    grandparent, parent = spawn_chain(shared, 2)
    children = [spawn_child(shared, parent) for _ in range(2)]
    grandchild = spawn_child(shared, children[0])
    end_process(shared, parent)
    for orphan in children:
        wait_parent(shared, orphan, grandparent)
        now = shared.session(orphan["session_id"])
        assert (now["status"], now["pid"]) == ("running", orphan["pid"])
        warnings = [e for e in shared.events(orphan["session_id"]) if e["type"] == "warning"]
        assert [e["metadata"] for e in warnings] == [
            {"parent_before": parent["session_id"], "parent": grandparent["session_id"]}
        ]
        assert f"the parent {parent['session_id']} has ended" in warnings[0]["message"]
    assert parent_of(shared, grandchild) == children[0]["session_id"]  # its parent is alive
    assert parent_of(shared, parent) == grandparent["session_id"]
    listed = [s["session_id"] for s in shared.json("children", grandparent["session_id"])]
    assert set(listed) == {s["session_id"] for s in (parent, *children)}


def test_orphan_moves_to_the_nearest_live_ancestor_and_finally_to_the_operator(shared: Instance) -> None:
    first, second, third, last = spawn_chain(shared, 4)
    for ended, heir in ((third, second), (second, first), (first, None)):
        end_process(shared, ended)
        wait_parent(shared, last, heir)
    assert last["session_id"] in [s["session_id"] for s in shared.json("children")]
    assert shared.session(last["session_id"])["status"] == "running"


@pytest.mark.parametrize("way", ["sm kill", "exit", "terminal"])
def test_child_moves_to_the_grandparent_when_its_parent_is_killed_exits_or_is_closed(
    shared: Instance, way: str
) -> None:
    grandparent = spawn_child(shared, None)
    gate = shared.work / f"gate.{grandparent['session_id']}"
    parent = spawn_child(shared, grandparent, f"while [ ! -e {gate} ]; do sleep 0.05; done")
    orphan = spawn_child(shared, parent)
    match way:
        case "sm kill":
            shared.sm("kill", parent["session_id"])
        case "exit":
            gate.touch()
        case _:
            shared.close_terminal(parent["tmux_session"])
    wait_parent(shared, orphan, grandparent)


def test_completed_session_keeps_its_children_until_its_process_ends(shared: Instance) -> None:
    parent = spawn_child(shared, None, "sm complete done > done.out 2>&1; exec sleep 1000")
    shared.in_status(parent["session_id"], "completed")
    orphan = spawn_child(shared, parent)
    assert parent_of(shared, orphan) == parent["session_id"]
    end_process(shared, parent)
    wait_parent(shared, orphan, None)


def test_completed_child_with_a_live_process_moves_but_an_ended_child_stays(shared: Instance) -> None:
    grandparent, parent = spawn_chain(shared, 2)
    done = spawn_child(shared, parent, "sm complete done > child.out 2>&1; exec sleep 1000")
    shared.in_status(done["session_id"], "completed")
    ended = spawn_child(shared, parent)
    shared.sm("kill", ended["session_id"])
    end_process(shared, parent)
    wait_parent(shared, done, grandparent)
    assert shared.session(done["session_id"])["status"] == "completed"
    assert parent_of(shared, ended) == parent["session_id"]


def test_new_parent_is_notified_once_when_a_moved_child_ends(shared: Instance) -> None:
    grandparent, parent, orphan = spawn_chain(shared, 3)
    end_process(shared, parent)
    wait_parent(shared, orphan, grandparent)
    end_process(shared, orphan)
    until(lambda: lines_about(notices(shared, grandparent), orphan), "the grandparent's notice")
    assert len(lines_about(notices(shared, grandparent), orphan)) == 1
    assert len(lines_about(notices(shared, grandparent), parent)) == 1
    assert lines_about(notices(shared, parent), orphan) == []
    assert lines_about(inbox_lines(shared), orphan) == []


def test_unread_notices_move_to_the_next_ancestor_when_the_parent_ends(shared: Instance) -> None:
    grandparent, parent, orphan = spawn_chain(shared, 3)
    end_process(shared, orphan)
    until(lambda: lines_about(notices(shared, parent), orphan), "the parent's notice")
    assert lines_about(notices(shared, grandparent), orphan) == []
    end_process(shared, parent)
    until(lambda: lines_about(notices(shared, grandparent), orphan), "the grandparent's notice")
    assert len(lines_about(notices(shared, grandparent), orphan)) == 1
    end_process(shared, grandparent)
    until(lambda: lines_about(inbox_lines(shared), orphan), "the operator's notice")
    for session in (orphan, parent, grandparent):
        until(lambda s=session: lines_about(inbox_lines(shared), s), "the operator's notice")  # type: ignore[misc]  # bound
        assert len(lines_about(inbox_lines(shared), session)) == 1


def test_notice_that_moves_to_an_ancestor_is_not_a_dead_letter(shared: Instance) -> None:
    lost = shared.json("status")["dead_letters"]
    grandparent, parent, orphan = spawn_chain(shared, 3)
    end_process(shared, orphan)
    until(lambda: lines_about(notices(shared, parent), orphan), "the parent's notice")
    end_process(shared, parent)
    until(lambda: lines_about(notices(shared, grandparent), orphan), "the grandparent's notice")
    assert shared.json("status")["dead_letters"] == lost


def test_notices_about_waits_and_messages_do_not_move_to_the_grandparent(shared: Instance) -> None:
    grandparent, parent = spawn_chain(shared, 2)
    env = {"SM_SESSION_ID": parent["session_id"]}
    orphan = spawn_child(shared, parent, "sm inbox --take --wait --timeout 60 > never.txt; exec sleep 1000")
    until(lambda: lines_about(notices(shared, parent), orphan), "the notice that it waits")
    sleeper = spawn_child(shared, parent)
    shared.sm("send", sleeper["session_id"], "some work", "--no-wait", env=env)
    end_process(shared, sleeper)
    until(lambda: len(lines_about(notices(shared, parent), sleeper)) == 1, "the notice of the ending")
    assert any("some work" not in t and t.startswith("message ") for t in notices(shared, parent))
    end_process(shared, parent)
    until(lambda: lines_about(notices(shared, grandparent), sleeper), "the grandparent's notice")
    assert [t for t in notices(shared, grandparent) if t.startswith("message ")] == []


def test_notice_that_the_parent_has_read_does_not_move_to_the_grandparent(shared: Instance) -> None:
    grandparent = spawn_child(shared, None)
    parent = spawn_child(shared, grandparent, "sm inbox --take --wait > taken.txt; exec sleep 1000")
    ended = spawn_child(shared, parent)
    end_process(shared, ended)
    until(lambda: ended["session_id"] in (shared.work / "taken.txt").read_text(), "the parent has read it")
    until(
        lambda: [m["status"] for m in shared.json("log", parent["session_id"])] == ["submitted"],
        "the parent has confirmed it",
    )
    end_process(shared, parent)
    until(lambda: lines_about(notices(shared, grandparent), parent), "the grandparent's notice")
    assert lines_about(notices(shared, grandparent), ended) == []


def test_next_daemon_moves_orphans_and_notices_when_parents_ended_meanwhile(instance: Instance) -> None:
    first, second, third, last = spawn_chain(instance, 4)
    instance.kill_daemon()
    for session in (third, second):
        os.kill(session["pid"], signal.SIGKILL)
    wait_parent(instance, last, first)
    for session in (second, third):
        until(lambda s=session: lines_about(notices(instance, first), s), "the notice")  # type: ignore[misc]  # bound
        assert len(lines_about(notices(instance, first), session)) == 1
    assert inbox_lines(instance) == []


# Abandoned


def test_children_are_interrupted_and_abandoned_when_their_parent_ends(abandoning: Instance) -> None:
    parent = spawn_child(abandoning, None)
    mortal = spawn_child(abandoning, parent, "echo last words; exec sleep 1000")
    script = "trap 'echo interrupted >> int.txt' INT; echo yes > hardy; while :; do sleep 0.05; done"
    stubborn = spawn_child(abandoning, parent, script)
    below_mortal, below_stubborn = spawn_child(abandoning, mortal), spawn_child(abandoning, stubborn)
    wait_line(abandoning.work / "hardy", until)
    end_process(abandoning, parent)
    for session in (mortal, stubborn, below_mortal):
        now = abandoning.in_status(session["session_id"], "abandoned")
        assert now["status_source"] == "parent"
        assert end_events(abandoning, session) == ["abandoned"]
    assert wait_line(abandoning.work / "int.txt", until) == "interrupted\n"
    assert abandoning.lives(stubborn["pid"])
    # The parent of this grandchild is still alive.
    assert abandoning.session(below_stubborn["session_id"])["status"] == "running"
    ended = until(
        lambda: (s := abandoning.session(mortal["session_id"]))["exit_signal"] and s, "its end is known"
    )
    assert outcome(ended) == ("abandoned", None, signal.SIGINT)
    assert f"the parent {parent['session_id']} has ended" in ended["status_reason"]
    assert parent_of(abandoning, mortal) == parent["session_id"]
    for session in (mortal, stubborn):  # the terminals stay open for inspection
        assert abandoning.has_terminal(session["tmux_session"])
    assert "last words" in abandoning.sm("output", mortal["session_id"])
    for session in (mortal, stubborn, below_mortal):
        until(lambda s=session: lines_about(inbox_lines(abandoning), s), "the operator's notice")  # type: ignore[misc]  # bound
        (line,) = lines_about(inbox_lines(abandoning), session)
        assert "abandoned" in line
    abandoning.sm("kill", stubborn["session_id"])
    assert not abandoning.lives(stubborn["pid"])
    assert abandoning.session(stubborn["session_id"])["status"] == "abandoned"


def test_completed_child_is_not_interrupted_when_its_parent_ends(abandoning: Instance) -> None:
    parent = spawn_child(abandoning, None)
    script = (
        "trap 'echo interrupted > done_int.txt' INT; sm complete done > o.out; while :; do sleep 0.05; done"
    )
    done = spawn_child(abandoning, parent, script)
    abandoning.in_status(done["session_id"], "completed")
    other = spawn_child(abandoning, parent)
    end_process(abandoning, parent)
    abandoning.in_status(other["session_id"], "abandoned")
    wait_outbox(abandoning)
    assert not (abandoning.work / "done_int.txt").exists()
    assert end_events(abandoning, done) == ["completed"]
    assert abandoning.session(done["session_id"])["status"] == "completed"


# Kept


def test_kept_children_count_as_orphans_until_they_end_or_move(keeping: Instance) -> None:
    grandparent, parent = spawn_chain(keeping, 2)
    orphans = [spawn_child(keeping, parent) for _ in range(2)]
    assert keeping.json("status")["orphans"] == 0
    end_process(keeping, parent)
    assert keeping.json("status")["orphans"] == 2
    for orphan in orphans:
        now = keeping.session(orphan["session_id"])
        assert (now["status"], now["parent_session_id"]) == ("running", parent["session_id"])
    end_process(keeping, orphans[0])
    assert keeping.json("status")["orphans"] == 1
    until(lambda: lines_about(notices(keeping, grandparent), orphans[0]), "the grandparent's notice")
    keeping.sm("reparent", orphans[1]["session_id"], grandparent["session_id"])
    assert keeping.json("status")["orphans"] == 0


# Reparent


def test_reparent_moves_a_session_and_its_notices_to_the_new_parent(shared: Instance) -> None:
    before, after = spawn_child(shared, None), spawn_child(shared, None)
    moved = spawn_child(shared, before)
    text = shared.sm("reparent", moved["session_id"], after["session_id"])
    assert text == f"{moved['label']} now belongs to {after['label']}\n"
    assert parent_of(shared, moved) == after["session_id"]
    for _ in range(2):  # repeating the command writes no event
        shared.sm("reparent", moved["session_id"], after["session_id"])
    assert len([e for e in shared.events(moved["session_id"]) if e["type"] == "warning"]) == 1
    end_process(shared, moved)
    until(lambda: lines_about(notices(shared, after), moved), "the new parent's notice")
    assert notices(shared, before) == []


def test_reparent_can_move_a_session_to_the_operator(shared: Instance) -> None:
    _, moved = spawn_chain(shared, 2)
    answer = shared.json("reparent", moved["session_id"], "--operator")
    assert (answer["session_id"], answer["parent_session_id"]) == (moved["session_id"], None)
    assert parent_of(shared, moved) is None


def test_rename_gives_a_name_that_no_other_live_session_has(shared: Instance) -> None:
    first, other = spawn_child(shared, None), spawn_child(shared, None)
    session_id = first["session_id"]
    text = shared.sm("rename", session_id, "Signup")
    assert text == f"Renamed to sleeper-signup ({session_id})\n"
    assert shared.session("signup")["session_id"] == session_id
    assert "signup is already used" in shared.refused("rename", other["session_id"], "signup", exit_code=2)
    shared.sm("rename", session_id, "signup")  # its own name is free
    assert "invalid name" in shared.refused("rename", session_id, "no blanks", exit_code=2)
    end_process(shared, first)
    until(lambda: shared.session(session_id)["status"] != "running", "the end of the first session")
    shared.sm("rename", other["session_id"], "signup")
    assert shared.session("sleeper-signup")["status"] == "running"


def test_reparent_refuses_a_cycle(shared: Instance) -> None:
    first, second, third = spawn_chain(shared, 3)
    for descendant in (first, second, third):
        error = shared.refused("reparent", first["session_id"], descendant["session_id"], exit_code=2)
        assert (
            f"session {descendant['session_id']} cannot be the parent of session {first['session_id']}"
            in error
        )
    assert [parent_of(shared, s) for s in (first, second, third)] == [
        None,
        first["session_id"],
        second["session_id"],
    ]


def test_reparent_refuses_an_ended_parent(shared: Instance) -> None:
    ended, moved = spawn_child(shared, None), spawn_child(shared, None)
    end_process(shared, ended)
    error = shared.refused("reparent", moved["session_id"], ended["session_id"], exit_code=4)
    assert f"session {ended['session_id']} has ended" in error
    assert parent_of(shared, moved) is None


@pytest.mark.parametrize("arguments", [[], ["ffffffff", "--operator"]])
def test_reparent_needs_either_a_parent_or_the_operator_option(
    shared: Instance, arguments: list[str]
) -> None:
    moved = spawn_child(shared, None)
    assert "either PARENT or --operator" in shared.refused(
        "reparent", moved["session_id"], *arguments, exit_code=2
    )


def test_session_can_reparent_only_descendants_and_only_within_its_own_tree(shared: Instance) -> None:
    grandparent, caller, own = spawn_chain(shared, 3)
    second, stranger = spawn_child(shared, caller), spawn_child(shared, None)
    env = {"SM_SESSION_ID": caller["session_id"]}
    for moved, parent in (
        (caller, second),
        (caller, stranger),
        (stranger, caller),
        (grandparent, stranger),
        (own, stranger),
        (own, grandparent),
    ):
        shared.refused("reparent", moved["session_id"], parent["session_id"], exit_code=5, env=env)
    shared.refused("reparent", own["session_id"], "--operator", exit_code=5, env=env)
    assert [parent_of(shared, s) for s in (caller, own, stranger)] == [
        grandparent["session_id"],
        caller["session_id"],
        None,
    ]
    shared.sm("reparent", own["session_id"], second["session_id"], env=env)
    assert parent_of(shared, own) == second["session_id"]
    shared.sm("reparent", own["session_id"], "me", env=env)
    assert parent_of(shared, own) == caller["session_id"]


# Kill --tree


def session_tree(instance: Instance, name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A root session and four descendants on three levels; one of them ignores SIGTERM."""
    root = spawn_child(instance, None)
    near = spawn_child(instance, root)
    deaf = f"trap '' TERM HUP INT; echo yes > {name}; while :; do sleep 0.05; done"
    descendants = [near, spawn_child(instance, near), spawn_child(instance, near, deaf)]
    descendants.append(spawn_child(instance, descendants[1]))
    wait_line(instance.work / name, until)
    return root, descendants


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["SIGTERM", "--force"])
def test_kill_tree_kills_all_descendants(shared: Instance, force: list[str]) -> None:
    root, descendants = session_tree(shared, f"deaf{len(force)}")
    other = spawn_child(shared, None)
    answer = shared.json("kill", root["session_id"], "--tree", *force)
    assert answer["session_id"] == root["session_id"]
    assert {s["session_id"] for s in answer["killed_too"]} == {s["session_id"] for s in descendants}
    assert [s["session_id"] for s in (root, *descendants) if shared.lives(s["pid"])] == []
    for session in (answer, *answer["killed_too"]):
        assert session["status"] == "killed"
        assert end_events(shared, session) == ["killed"]
    if not force:  # SIGTERM came before SIGKILL
        assert answer["exit_signal"] == signal.SIGTERM
    assert shared.session(other["session_id"])["status"] == "running"
    assert notice_states(shared, root, *descendants) == {"heard"}  # the answer of kill replaces the notices


def test_kill_without_tree_leaves_descendants_running(shared: Instance) -> None:
    first, second, third = spawn_chain(shared, 3)
    answer = shared.json("kill", second["session_id"])
    assert answer["killed_too"] == []
    assert [shared.session(s["session_id"])["status"] for s in (first, third)] == ["running", "running"]


def test_kill_tree_works_when_the_root_has_ended(keeping: Instance) -> None:
    parent, orphan = spawn_chain(keeping, 2)
    end_process(keeping, parent)
    keeping.refused("kill", parent["session_id"], exit_code=4)
    keeping.sm("kill", parent["session_id"], "--tree")
    assert not keeping.lives(orphan["pid"])
    assert keeping.session(orphan["session_id"])["status"] == "killed"
    keeping.refused("kill", parent["session_id"], "--tree", exit_code=4)


def test_session_that_kills_a_tree_gets_no_notices_about_it(shared: Instance) -> None:
    caller, root, grandchild = spawn_chain(shared, 3)
    env = {"SM_SESSION_ID": caller["session_id"]}
    for other in (caller, spawn_child(shared, None)):
        shared.refused("kill", other["session_id"], "--tree", exit_code=5, env=env)
    shared.sm("kill", root["session_id"], "--tree", env=env)
    assert [shared.lives(s["pid"]) for s in (root, grandchild, caller)] == [False, False, True]
    assert notice_states(shared, root, grandchild) == {"heard"}


async def spawner(program: Running) -> None:
    """Spawn children as quickly as possible, three at a time."""

    async def spawn() -> None:
        environment = {"PATH": program.environ["PATH"]}
        body = {"agent_type": "Sleeper", "cwd": program.process.cwd, "environment": environment}
        while True:
            await program.sm.post("/v1/sessions", body)

    await asyncio.gather(*(spawn() for _ in range(3)))


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["SIGTERM", "--force"])
def test_kill_tree_also_kills_children_that_are_spawned_meanwhile(force: list[str]) -> None:
    limits = "limits: {spawn_interval_s: 0, max_children: 10000, max_per_workspace: 10000}"
    with Instance(f"  Spawner: {{command: [spawner]}}\n{limits}") as instance:
        instance.world.programs.installed["spawner"] = spawner
        root = instance.spawn("Spawner")
        until(lambda: len(instance.json("children", root["session_id"])) >= 5, "it has children")
        instance.sm("kill", root["session_id"], "--tree", *force)
        sessions = instance.json("all")
        assert [s["session_id"] for s in sessions if s["status"] != "killed"] == []
        assert [s["session_id"] for s in sessions if s["pid"] and instance.lives(s["pid"])] == []


def test_notice_moves_to_the_operator_when_it_cannot_be_typed_to_the_parent() -> None:
    deaf = "trap '' HUP; echo yes > deaf; while :; do sleep 0.05; done"
    with Instance(f'  Typed: {{command: [sh, -c, "{deaf}"], prompt: file, input: tty}}') as instance:
        parent = instance.spawn("Typed")
        orphan = spawn_child(instance, parent)
        wait_line(instance.work / "deaf", until)
        instance.close_terminal(parent["tmux_session"])
        end_process(instance, orphan)
        until(lambda: notices(instance, parent), "the parent's notice")
        os.kill(parent["pid"], signal.SIGKILL)
        until(lambda: lines_about(inbox_lines(instance), parent), "the notice about the parent")
        until(lambda: lines_about(inbox_lines(instance), orphan), "the notice about the child")


def test_descendants_stay_in_the_tree_when_a_session_between_them_is_removed(keeping: Instance) -> None:
    first, second, third = spawn_chain(keeping, 3)
    keeping.sm("kill", second["session_id"])
    assert parent_of(keeping, third) == second["session_id"]
    keeping.sm("rm", second["session_id"])
    assert parent_of(keeping, third) == first["session_id"]
    keeping.sm("kill", third["session_id"], env={"SM_SESSION_ID": first["session_id"]})


def test_status_of_a_session_counts_its_children_by_status(instance: Instance) -> None:
    parent = spawn_child(instance, None)
    assert "Children:" not in instance.sm("status", parent["session_id"])
    for script in ("exec sleep 1000", "exec sleep 1000", "exit 3"):
        last = spawn_child(instance, parent, script)
    instance.ended(last["session_id"])
    expected = f"Children:  2 running, 1 error (sm children {parent['session_id']})"
    assert expected in instance.sm("status", parent["session_id"]).splitlines()
    instance.sm("archive", last["session_id"])
    assert instance.json("status", parent["session_id"])["children_by_status"] == {"running": 2}

"""What becomes of children, and of what their parent was told, when its process is gone; and other parents."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.instance import Instance, until
from tests.integration.test_endings import ENDED, gone, how, rows, written


@pytest.fixture(scope="module")
def shared() -> Iterator[Instance]:
    """Children are adopted, as by default."""
    with Instance("limits: {max_per_workspace: 10000}") as made:
        yield made


@pytest.fixture(scope="module")
def abandoning() -> Iterator[Instance]:
    with Instance("child_agents: {on_parent_end: abandon}") as made:
        yield made


@pytest.fixture(scope="module")
def keeping() -> Iterator[Instance]:
    with Instance("child_agents: {on_parent_end: keep}") as made:
        yield made


def child(instance: Instance, parent: dict[str, Any] | None, script: str | None = None) -> dict[str, Any]:
    below = [] if parent is None else ["--parent", parent["session_id"]]
    return instance.spawn(*(("Sleeper",) if script is None else ("Sh", script)), *below)


def line_of(instance: Instance, length: int) -> list[dict[str, Any]]:
    """A session, its child, its grandchild, ..."""
    line: list[dict[str, Any]] = []
    for _ in range(length):
        line.append(child(instance, line[-1] if line else None))
    return line


def parent_of(instance: Instance, session: dict[str, Any]) -> str | None:
    parent: str | None = instance.session(session["session_id"])["parent_session_id"]
    return parent


def belongs_to(instance: Instance, session: dict[str, Any], parent: dict[str, Any] | None) -> None:
    wanted = None if parent is None else parent["session_id"]
    until(lambda: parent_of(instance, session) == wanted, f"{session['session_id']} belongs to {wanted}")


def end(instance: Instance, session: dict[str, Any]) -> None:
    """By its own doing, not by a kill of ours."""
    os.kill(session["pid"], signal.SIGKILL)
    instance.ended(session["session_id"])


def told(instance: Instance, session: dict[str, Any]) -> list[str]:
    """What sm itself has told this session or is about to, line by line."""
    log = instance.json("log", session["session_id"], "--limit", "1000")
    return [line for m in log if m["from"] == "sm" for line in m["text"].splitlines()]


def inbox(instance: Instance) -> list[str]:
    return [line for m in instance.json("inbox") for line in m["text"].splitlines()]


def endings(instance: Instance, session: dict[str, Any]) -> list[str]:
    """Its own: the events of a session are those of its children too."""
    mine = [e["type"] for e in instance.events() if e["session_id"] == session["session_id"]]
    return [type for type in mine if type in ENDED]


def noted(instance: Instance, *sessions: dict[str, Any]) -> set[str]:
    """What became of the notices about these sessions."""
    ids = {session["session_id"] for session in sessions}
    return {state for of, state in rows(instance, "SELECT session_id, state FROM notices") if of in ids}


def about(lines: list[str], session: dict[str, Any]) -> list[str]:
    told = f"{session['name']} ({session['session_id']}) "
    return [line for line in lines if line.partition(" ")[2].startswith(told)]


# Adopted


def test_children_of_a_session_that_ends_belong_to_its_parent_and_run_on(shared: Instance) -> None:
    grandparent, parent = line_of(shared, 2)
    children = [child(shared, parent) for _ in range(2)]
    below = child(shared, children[0])
    end(shared, parent)
    for each in children:
        belongs_to(shared, each, grandparent)
        now = shared.session(each["session_id"])
        assert (now["status"], now["pid"]) == ("running", each["pid"])
        moved = [e for e in shared.events(each["session_id"]) if e["type"] == "warning"]
        assert [e["metadata"] for e in moved] == [
            {"parent_before": parent["session_id"], "parent": grandparent["session_id"]}
        ]
        assert f"its parent {parent['session_id']} has ended" in moved[0]["message"]
    assert parent_of(shared, below) == children[0]["session_id"]  # its parent lives
    assert parent_of(shared, parent) == grandparent["session_id"]
    listed = [s["session_id"] for s in shared.json("children", grandparent["session_id"])]
    assert set(listed) == {s["session_id"] for s in (parent, *children)}


def test_a_child_rises_to_the_nearest_ancestor_that_lives_and_in_the_end_to_the_operator(
    shared: Instance,
) -> None:
    first, second, third, last = line_of(shared, 4)
    for ended, heir in ((third, second), (second, first), (first, None)):
        end(shared, ended)
        belongs_to(shared, last, heir)
    assert last["session_id"] in [s["session_id"] for s in shared.json("children")]
    assert shared.session(last["session_id"])["status"] == "running"


@pytest.mark.parametrize("way", ["sm kill", "exit", "terminal"])
def test_a_child_is_adopted_however_its_parent_ends(shared: Instance, way: str) -> None:
    grandparent = child(shared, None)
    gate = shared.work / f"gate.{grandparent['session_id']}"
    parent = child(shared, grandparent, f"while [ ! -e {gate} ]; do sleep 0.05; done")
    orphan = child(shared, parent)
    match way:
        case "sm kill":
            shared.sm("kill", parent["session_id"])
        case "exit":
            gate.touch()
        case _:
            shared.tmux("kill-session", "-t", f"={parent['tmux_session']}:")
    belongs_to(shared, orphan, grandparent)


def test_a_session_that_says_it_is_done_keeps_its_children_until_its_process_is_gone(
    shared: Instance,
) -> None:
    parent = child(shared, None, "sm complete done > done.out 2>&1; exec sleep 1000")
    shared.in_status(parent["session_id"], "completed")
    orphan = child(shared, parent)
    assert parent_of(shared, orphan) == parent["session_id"]
    end(shared, parent)
    belongs_to(shared, orphan, None)


def test_a_completed_child_whose_process_lives_is_adopted_and_an_ended_one_stays(shared: Instance) -> None:
    grandparent, parent = line_of(shared, 2)
    done = child(shared, parent, "sm complete done > child.out 2>&1; exec sleep 1000")
    shared.in_status(done["session_id"], "completed")
    ended = child(shared, parent)
    shared.sm("kill", ended["session_id"])
    end(shared, parent)
    belongs_to(shared, done, grandparent)
    assert shared.session(done["session_id"])["status"] == "completed"
    assert parent_of(shared, ended) == parent["session_id"]


def test_an_adopted_childs_ending_is_told_to_who_adopted_it_once(shared: Instance) -> None:
    grandparent, parent, orphan = line_of(shared, 3)
    end(shared, parent)
    belongs_to(shared, orphan, grandparent)
    end(shared, orphan)
    until(lambda: about(told(shared, grandparent), orphan), "the grandparent is told")
    assert len(about(told(shared, grandparent), orphan)) == 1
    assert len(about(told(shared, grandparent), parent)) == 1
    assert about(told(shared, parent), orphan) == []
    assert about(inbox(shared), orphan) == []


def test_what_a_parent_never_took_is_told_to_who_adopts(shared: Instance) -> None:
    grandparent, parent, orphan = line_of(shared, 3)
    end(shared, orphan)
    until(lambda: about(told(shared, parent), orphan), "its parent has a message of it")
    assert about(told(shared, grandparent), orphan) == []
    end(shared, parent)
    until(lambda: about(told(shared, grandparent), orphan), "the grandparent is told")
    assert len(about(told(shared, grandparent), orphan)) == 1
    end(shared, grandparent)
    until(lambda: about(inbox(shared), orphan), "the operator is told")
    for session in (orphan, parent, grandparent):
        until(lambda s=session: about(inbox(shared), s), "the operator is told")  # type: ignore[misc]  # bound
        assert len(about(inbox(shared), session)) == 1


def test_what_is_told_to_another_is_no_dead_letter(shared: Instance) -> None:
    lost = shared.json("status")["dead_letters"]
    grandparent, parent, orphan = line_of(shared, 3)
    end(shared, orphan)
    until(lambda: about(told(shared, parent), orphan), "its parent has a message of it")
    end(shared, parent)
    until(lambda: about(told(shared, grandparent), orphan), "the grandparent is told")
    assert shared.json("status")["dead_letters"] == lost


def test_what_was_only_its_parents_business_is_told_to_nobody_else(shared: Instance) -> None:
    grandparent, parent = line_of(shared, 2)
    env = {"SM_SESSION_ID": parent["session_id"]}
    orphan = child(shared, parent, "sm inbox --take --wait --timeout 60 > never.txt; exec sleep 1000")
    until(lambda: about(told(shared, parent), orphan), "its parent is told that it waits")
    sleeper = child(shared, parent)
    shared.sm("send", sleeper["session_id"], "some work", "--no-wait", env=env)
    end(shared, sleeper)
    until(lambda: len(about(told(shared, parent), sleeper)) == 1, "its parent is told of the ending")
    assert any("some work" not in t and t.startswith("message ") for t in told(shared, parent))
    end(shared, parent)
    until(lambda: about(told(shared, grandparent), sleeper), "the grandparent is told of the ending")
    assert [t for t in told(shared, grandparent) if t.startswith("message ")] == []


def test_what_a_parent_has_taken_is_told_to_nobody_else(shared: Instance) -> None:
    grandparent = child(shared, None)
    parent = child(shared, grandparent, "sm inbox --take --wait > taken.txt; exec sleep 1000")
    ended = child(shared, parent)
    end(shared, ended)
    until(lambda: ended["session_id"] in (shared.work / "taken.txt").read_text(), "its parent has taken it")
    until(
        lambda: [m["status"] for m in shared.json("log", parent["session_id"])] == ["submitted"],
        "and has said so",
    )
    end(shared, parent)
    until(lambda: about(told(shared, grandparent), parent), "the grandparent is told of the parent")
    assert about(told(shared, grandparent), ended) == []


def test_a_family_that_ends_while_no_daemon_runs_is_sorted_out_by_the_next(instance: Instance) -> None:
    first, second, third, last = line_of(instance, 4)
    instance.kill_daemon()
    for session in (third, second):
        os.kill(session["pid"], signal.SIGKILL)
    until(lambda: gone(second["pid"]) and gone(third["pid"]), "both are gone")
    belongs_to(instance, last, first)
    for session in (second, third):
        until(lambda s=session: about(told(instance, first), s), "the first one is told")  # type: ignore[misc]  # bound
        assert len(about(told(instance, first), session)) == 1
    assert inbox(instance) == []


# Abandoned


def test_children_of_a_session_that_ends_are_interrupted_and_abandoned(abandoning: Instance) -> None:
    parent = child(abandoning, None)
    mortal = child(abandoning, parent, "echo last words; exec sleep 1000")
    written_once = "trap 'echo interrupted >> int.txt' INT; echo yes > hardy; while :; do sleep 0.05; done"
    hardy = child(abandoning, parent, written_once)
    below_mortal, below_hardy = child(abandoning, mortal), child(abandoning, hardy)
    written(abandoning.work / "hardy")
    end(abandoning, parent)
    for session in (mortal, hardy, below_mortal):
        now = abandoning.in_status(session["session_id"], "abandoned")
        assert now["status_source"] == "parent"
        assert endings(abandoning, session) == ["abandoned"]
    assert written(abandoning.work / "int.txt") == "interrupted\n"
    assert not gone(hardy["pid"])
    assert abandoning.session(below_hardy["session_id"])["status"] == "running"  # its parent's process lives
    ended = until(
        lambda: (s := abandoning.session(mortal["session_id"]))["exit_signal"] and s, "its end is known"
    )
    assert how(ended) == ("abandoned", None, signal.SIGINT)
    assert f"its parent {parent['session_id']} has ended" in ended["status_reason"]
    assert parent_of(abandoning, mortal) == parent["session_id"]
    for session in (mortal, hardy):  # its terminal stays, for inspection
        abandoning.tmux("has-session", "-t", f"={session['tmux_session']}")
    assert "last words" in abandoning.sm("output", mortal["session_id"])
    for session in (mortal, hardy, below_mortal):
        until(lambda s=session: about(inbox(abandoning), s), "the operator is told")  # type: ignore[misc]  # bound
        (line,) = about(inbox(abandoning), session)
        assert "abandoned" in line
    abandoning.sm("kill", hardy["session_id"])
    assert gone(hardy["pid"])
    assert abandoning.session(hardy["session_id"])["status"] == "abandoned"


def test_a_child_that_is_done_is_not_interrupted(abandoning: Instance) -> None:
    parent = child(abandoning, None)
    script = (
        "trap 'echo interrupted > done_int.txt' INT; sm complete done > o.out; while :; do sleep 0.05; done"
    )
    done = child(abandoning, parent, script)
    abandoning.in_status(done["session_id"], "completed")
    other = child(abandoning, parent)
    end(abandoning, parent)
    abandoning.in_status(other["session_id"], "abandoned")
    until(
        lambda: rows(abandoning, "SELECT count(*) FROM outbox WHERE state IN ('pending', 'taken')") == [(0,)],
        "everything that was to be done is done",
    )
    assert not (abandoning.work / "done_int.txt").exists()
    assert endings(abandoning, done) == ["completed"]
    assert abandoning.session(done["session_id"])["status"] == "completed"


# Kept


def test_children_that_are_kept_count_as_orphans_until_they_end(keeping: Instance) -> None:
    grandparent, parent = line_of(keeping, 2)
    orphans = [child(keeping, parent) for _ in range(2)]
    assert keeping.json("status")["orphans"] == 0
    end(keeping, parent)
    assert keeping.json("status")["orphans"] == 2
    for orphan in orphans:
        now = keeping.session(orphan["session_id"])
        assert (now["status"], now["parent_session_id"]) == ("running", parent["session_id"])
    end(keeping, orphans[0])
    assert keeping.json("status")["orphans"] == 1
    until(lambda: about(told(keeping, grandparent), orphans[0]), "the nearest one that lives is told")
    keeping.sm("reparent", orphans[1]["session_id"], grandparent["session_id"])
    assert keeping.json("status")["orphans"] == 0


# Another parent


def test_a_session_gets_another_parent_and_that_one_is_told_of_it(shared: Instance) -> None:
    before, after = child(shared, None), child(shared, None)
    moved = child(shared, before)
    text = shared.sm("reparent", moved["session_id"], after["session_id"])
    assert text == f"{moved['name']} ({moved['session_id']}) belongs to {after['session_id']} now\n"
    assert parent_of(shared, moved) == after["session_id"]
    for _ in range(2):  # doing it twice is fine, and no news
        shared.sm("reparent", moved["session_id"], after["session_id"])
    assert len([e for e in shared.events(moved["session_id"]) if e["type"] == "warning"]) == 1
    end(shared, moved)
    until(lambda: about(told(shared, after), moved), "the new parent is told")
    assert told(shared, before) == []


def test_a_session_is_given_to_the_operator(shared: Instance) -> None:
    _, moved = line_of(shared, 2)
    answer = shared.json("reparent", moved["session_id"], "--operator")
    assert (answer["session_id"], answer["parent_session_id"]) == (moved["session_id"], None)
    assert parent_of(shared, moved) is None


def test_no_session_stands_below_itself(shared: Instance) -> None:
    first, second, third = line_of(shared, 3)
    for below in (first, second, third):
        error = shared.refused("reparent", first["session_id"], below["session_id"], exit_code=2)
        assert f"session {below['session_id']} is session {first['session_id']}, or stands below it" in error
    assert [parent_of(shared, s) for s in (first, second, third)] == [
        None,
        first["session_id"],
        second["session_id"],
    ]


def test_an_ended_session_is_no_parent(shared: Instance) -> None:
    ended, moved = child(shared, None), child(shared, None)
    end(shared, ended)
    error = shared.refused("reparent", moved["session_id"], ended["session_id"], exit_code=4)
    assert f"session {ended['session_id']} has ended" in error
    assert parent_of(shared, moved) is None


@pytest.mark.parametrize("arguments", [[], ["ffffffff", "--operator"]])
def test_either_a_parent_or_the_operator_is_named(shared: Instance, arguments: list[str]) -> None:
    moved = child(shared, None)
    assert "either PARENT or --operator" in shared.refused(
        "reparent", moved["session_id"], *arguments, exit_code=2
    )


def test_a_session_moves_its_own_descendants_among_its_own_only(shared: Instance) -> None:
    grandparent, me, mine = line_of(shared, 3)
    second, stranger = child(shared, me), child(shared, None)
    env = {"SM_SESSION_ID": me["session_id"]}
    for moved, parent in (
        (me, second),
        (me, stranger),
        (stranger, me),
        (grandparent, stranger),
        (mine, stranger),
        (mine, grandparent),
    ):
        shared.refused("reparent", moved["session_id"], parent["session_id"], exit_code=5, env=env)
    shared.refused("reparent", mine["session_id"], "--operator", exit_code=5, env=env)
    assert [parent_of(shared, s) for s in (me, mine, stranger)] == [
        grandparent["session_id"],
        me["session_id"],
        None,
    ]
    shared.sm("reparent", mine["session_id"], second["session_id"], env=env)
    assert parent_of(shared, mine) == second["session_id"]
    shared.sm("reparent", mine["session_id"], "me", env=env)
    assert parent_of(shared, mine) == me["session_id"]


# Killed as a family


def session_tree(instance: Instance, name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A session and four below it on three levels; one of them ignores whoever asks it to end."""
    root = child(instance, None)
    near = child(instance, root)
    deaf = f"trap '' TERM HUP INT; echo yes > {name}; while :; do sleep 0.05; done"
    below = [near, child(instance, near), child(instance, near, deaf)]
    below.append(child(instance, below[1]))
    written(instance.work / name)
    return root, below


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["asked", "forced"])
def test_a_family_is_killed_as_a_whole(shared: Instance, force: list[str]) -> None:
    root, below = session_tree(shared, f"deaf{len(force)}")
    other = child(shared, None)
    answer = shared.json("kill", root["session_id"], "--tree", *force)
    assert answer["session_id"] == root["session_id"]
    assert {s["session_id"] for s in answer["killed_too"]} == {s["session_id"] for s in below}
    assert [s["session_id"] for s in (root, *below) if not gone(s["pid"])] == []
    for session in (answer, *answer["killed_too"]):
        assert session["status"] == "killed"
        assert endings(shared, session) == ["killed"]
    if not force:  # what cleans up when it is asked was asked first
        assert answer["exit_signal"] == signal.SIGTERM
    assert shared.session(other["session_id"])["status"] == "running"
    assert noted(shared, root, *below) == {"heard"}  # who is answered so is not told again


def test_a_kill_of_one_leaves_those_below_it(shared: Instance) -> None:
    first, second, third = line_of(shared, 3)
    answer = shared.json("kill", second["session_id"])
    assert answer["killed_too"] == []
    assert [shared.session(s["session_id"])["status"] for s in (first, third)] == ["running", "running"]


def test_a_family_without_its_head_can_still_be_killed(keeping: Instance) -> None:
    parent, orphan = line_of(keeping, 2)
    end(keeping, parent)
    keeping.refused("kill", parent["session_id"], exit_code=4)
    keeping.sm("kill", parent["session_id"], "--tree")
    assert gone(orphan["pid"])
    assert keeping.session(orphan["session_id"])["status"] == "killed"
    keeping.refused("kill", parent["session_id"], "--tree", exit_code=4)


def test_a_session_kills_the_family_of_a_child_and_is_not_told_what_it_did(shared: Instance) -> None:
    me, root, below = line_of(shared, 3)
    env = {"SM_SESSION_ID": me["session_id"]}
    for above in (me, child(shared, None)):
        shared.refused("kill", above["session_id"], "--tree", exit_code=5, env=env)
    shared.sm("kill", root["session_id"], "--tree", env=env)
    assert gone(root["pid"]) and gone(below["pid"]) and not gone(me["pid"])
    assert noted(shared, root, below) == {"heard"}


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["asked", "forced"])
def test_a_family_that_grows_while_it_is_killed_is_killed_as_a_whole(force: list[str]) -> None:
    with Instance("limits: {spawn_interval_s: 0, max_children: 10000, max_per_workspace: 10000}") as instance:
        spawning = "while :; do sm spawn Sleeper >> spawned.txt 2>&1; done"
        root = child(instance, None, f"for n in 1 2 3; do ({spawning}) & done; wait")
        until(lambda: len(instance.json("children", root["session_id"])) >= 5, "it has children")
        instance.sm("kill", root["session_id"], "--tree", *force)
        found = instance.json("all")
        assert [s["session_id"] for s in found if s["status"] != "killed"] == []
        assert [s["session_id"] for s in found if s["pid"] and not gone(s["pid"])] == []


def test_what_cannot_be_typed_to_a_parent_is_told_to_who_stands_above_it() -> None:
    deaf = "trap '' HUP; echo yes > deaf; while :; do sleep 0.05; done"
    with Instance(f'  Typed: {{command: [sh, -c, "{deaf}"], prompt: file, input: tty}}') as instance:
        parent = instance.spawn("Typed")
        orphan = child(instance, parent)
        written(instance.work / "deaf")
        instance.tmux("kill-session", "-t", f"={parent['tmux_session']}:")
        end(instance, orphan)
        until(lambda: told(instance, parent), "its parent was to be told")
        os.kill(parent["pid"], signal.SIGKILL)
        until(lambda: about(inbox(instance), parent), "the operator is told of the parent")
        until(lambda: about(inbox(instance), orphan), "and of the child")


def test_what_is_removed_in_between_changes_nobodys_descendants(keeping: Instance) -> None:
    first, second, third = line_of(keeping, 3)
    keeping.sm("kill", second["session_id"])
    assert parent_of(keeping, third) == second["session_id"]
    keeping.sm("rm", second["session_id"])
    assert parent_of(keeping, third) == first["session_id"]
    keeping.sm("kill", third["session_id"], env={"SM_SESSION_ID": first["session_id"]})

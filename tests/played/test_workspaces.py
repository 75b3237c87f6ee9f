"""Workspaces: create, change and delete, membership of sessions, and isolation of two workspaces."""

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.sim.stage import Instance, until
from tests.workspaces import create, write_servers

instance = context_fixture("function", Instance)


def as_session(session: dict[str, Any]) -> dict[str, str]:
    return {"SM_SESSION_ID": str(session["session_id"])}


def said_inside(instance: Instance, session: dict[str, Any], *arguments: str) -> tuple[int, str]:
    """The exit code and the output of `sm` as a process of the agent, as `2>&1` shows it."""
    done = instance.run_inside(session["session_id"], *arguments)
    return done.returncode, done.stdout + done.stderr


# ----------------------------------------------------------------------------------- commands of the operator


def test_workspace_can_be_created_shown_changed_and_deleted(instance: Instance) -> None:
    directory = instance.home / "shop"
    directory.mkdir()
    output = instance.sm("workspace", "create", "shop", "--working-dir", str(directory), "--trust", "trusted")
    assert output == f"Created workspace shop ({directory})\n"
    created = instance.json("workspace", "show", "shop")
    assert created | {"created_at": None} == {
        "slug": "shop",
        "working_dir": str(directory),
        "trust_level": "direct",
        "capabilities": {"mcps": "all", "skills": "all", "agents": "all"},
        "strict_mcps": False,
        "lifecycle": None,
        "sandbox": {},
        "created_at": None,
        "deleted_at": None,
        "sessions": 0,
        "live": 0,
        "items": [],
        "warnings": [],
    }
    instance.sm(
        "workspace", "set", "shop", "--mcps", "files,browser", "--agents", "none", "--strict-mcps",
        "--trust", "default", "--sandbox", "memory=2g", "--sandbox", "pids=512",
    )  # fmt: skip
    changed = instance.json("workspace", "set", "shop", "--skills", "review,db:drop", "--sandbox", "pids=")
    assert changed["capabilities"] == {
        "mcps": ["files", "browser"],
        "skills": ["review", "db:drop"],
        "agents": [],
    }
    assert (changed["strict_mcps"], changed["trust_level"], changed["sandbox"]) == (
        True,
        None,
        {"memory": "2g"},
    )
    instance.kill_daemon()
    del changed["warnings"]
    assert instance.json("workspace", "list") == [changed]
    assert instance.sm("workspace", "list") == f"shop | default | 0 of 0 sessions live | {directory}\n"
    shown = instance.sm("workspace", "show", "shop")
    assert "MCPs:      files, browser" in shown
    assert "Agents:    none" in shown
    assert instance.sm("workspace", "delete", "shop") == f"Deleted workspace shop ({directory})\n"
    assert instance.json("workspace", "list") == []
    assert instance.json("workspace", "list", "--deleted")[0]["deleted_at"]


@pytest.mark.parametrize("slug", ["s", "Shop", "-shop", "shop-", "a_b", "../x", "a/b", "", "x" * 65, "büro"])
def test_workspace_create_refuses_an_invalid_slug(instance: Instance, slug: str) -> None:
    instance.refused("workspace", "create", slug, "--working-dir", str(instance.work), exit_code=2)
    assert instance.json("workspace", "list", "--deleted") == []


def test_workspace_commands_refuse_invalid_options_with_a_reason(instance: Instance) -> None:
    create(instance, "shop")
    (instance.home / "file").write_text("")
    link = instance.home / "link"
    link.symlink_to(instance.home / "shop")
    for options, problem in (
        (("create", "other", "--working-dir", str(instance.home / "none")), "does not exist"),
        (("create", "other", "--working-dir", str(instance.home / "file")), "is not a directory"),
        (("create", "other", "--working-dir", "/"), "the directory of a workspace cannot be /"),
        (("create", "default", "--working-dir", str(instance.work)), "a workspace cannot be named default"),
        (("create", "other", "--working-dir", str(link)), "already belongs to workspace shop"),
        (("create", "shop", "--working-dir", str(instance.work)), "workspace shop already exists"),
        (("set", "shop", "--trust", "root"), "unknown trust level 'root'"),
        (("set", "shop", "--mcps", "a b"), "invalid name 'a b'"),
        (("set", "shop", "--mcps", "a:b"), "invalid name 'a:b'"),
        (("set", "shop", "--skills", "a b"), "colon"),
        (("set", "shop", "--mcps", ","), "--mcps ',' contains no name"),
        (("set", "shop", "--agents", ""), "--agents '' contains no name"),
        (("set", "shop", "--sandbox", "memory"), "is not KEY=VALUE"),
        (("set", "shop", "--sandbox", "memory=much"), "memory"),
        (("set", "shop", "--sandbox", "memmory=2g"), "memmory"),
        (("set", "shop", "--sandbox", "mounts=[/etc]"), "/etc cannot be mounted: /etc belongs to the system"),
        (("set", "shop", "--sandbox", "network=host"), "network: must be one of bridge, none"),
        (("set", "shop", "--sandbox", "engine=x"), "engine: can only be set in config.yaml"),
        (("set", "shop"), "no setting given"),
    ):
        assert problem in instance.refused("workspace", *options, exit_code=2), options
    for arguments in (("show", "shob"), ("set", "shob", "--trust", "direct"), ("delete", "shob")):
        assert "did you mean shop?" in instance.refused("workspace", *arguments, exit_code=3)
    instance.refused("spawn", "Sleeper", "x", "--workspace", "shob", exit_code=3)
    instance.refused("all", "--workspace", "shob", exit_code=3)


def test_workspace_agree_lets_agents_use_servers_until_they_change(instance: Instance) -> None:
    directory = instance.home / "shop"
    directory.mkdir()
    write_servers(directory, files="one", web="two")
    created = instance.json("workspace", "create", "shop", "--working-dir", str(directory))
    assert created["warnings"] == [
        "left out until you agree: MCP server files, MCP server web (sm workspace agree shop)"
    ]
    assert "Left out:  MCP server files (new), MCP server web (new)" in instance.sm(
        "workspace", "show", "shop"
    )
    # Scripts must say that they agree.
    assert "sm workspace agree shop --yes" in instance.refused("workspace", "agree", "shop", exit_code=2)
    assert "no item fles" in instance.refused("workspace", "agree", "shop", "fles", "--yes", exit_code=3)
    shown = instance.run("workspace", "agree", "shop", "files", "--yes")
    assert f"MCP server files, new, in {directory}/.mcp.json:" in shown.stderr
    assert '  |   "command": "one"' in shown.stderr
    assert shown.stdout == "agents of workspace shop may use MCP server files (new)\n"

    def states() -> dict[str, str]:
        return {item["name"]: item["state"] for item in instance.json("workspace", "show", "shop")["items"]}

    assert states() == {"files": "agreed", "web": "new"}
    instance.kill_daemon()
    write_servers(directory, files="three", web="two")
    assert states() == {"files": "changed", "web": "new"}
    # Naming a server in --mcps agrees to it.
    instance.sm("workspace", "set", "shop", "--mcps", "files,none-such")
    assert states() == {"files": "agreed", "web": "new"}
    (directory / ".mcp.json").write_text("{")
    assert "invalid JSON" in instance.json("workspace", "show", "shop")["warnings"][0]


def test_session_cannot_agree_to_the_files_of_its_workspace(instance: Instance) -> None:
    write_servers(create(instance, "shop"), files="one")
    (item,) = instance.json("workspace", "show", "shop")["items"]
    session = instance.spawn("Sleeper", "--workspace", "shop")
    instance.refused("workspace", "agree", "shop", "--yes", env=as_session(session), exit_code=5)
    assert instance.json("workspace", "show", "shop")["items"] == [item]


def test_simultaneous_workspace_changes_are_both_kept(instance: Instance) -> None:
    create(instance, "shop")
    for _ in range(10):
        instance.sm("workspace", "set", "shop", "--trust", "direct", "--no-strict-mcps")
        changes: list[dict[str, object]] = [{"trust": "sandboxed"}, {"strict_mcps": True}]
        answers = instance.post_together(*((None, "/v1/workspaces/shop", change) for change in changes))
        assert answers == [None, None]
        after = instance.json("workspace", "show", "shop")
        assert (after["trust_level"], after["strict_mcps"]) == ("sandboxed", True)


def test_workspace_delete_is_refused_while_its_processes_live(instance: Instance) -> None:
    create(instance, "shop")
    session = instance.spawn("Sleeper", "x", "--workspace", "shop")
    assert session["session_id"] in instance.refused("workspace", "delete", "shop", exit_code=4)
    instance.sm("kill", session["session_id"])
    instance.sm("workspace", "delete", "shop")
    # Its sessions stay readable, but no session can start in it.
    assert instance.session(session["session_id"])["workspace"] == "shop"
    assert [s["session_id"] for s in instance.json("all", "--workspace", "shop")] == [session["session_id"]]
    instance.refused("spawn", "Sleeper", "x", "--workspace", "shop", exit_code=3)
    assert "is deleted" in instance.refused("restore", session["session_id"], exit_code=4)
    assert instance.spawn("Sleeper", "x", "--working-dir", str(instance.home / "shop"))["workspace"] is None
    again = instance.run("workspace", "create", "shop", "--working-dir", str(instance.home / "shop"))
    assert "its earlier sessions belong to it again" in again.stderr


def test_session_sees_only_its_own_workspace_and_cannot_manage_workspaces(instance: Instance) -> None:
    create(instance, "shop")
    create(instance, "bank")
    session = instance.spawn("Sleeper", "x", "--workspace", "shop")
    caller = {"env": as_session(session)}
    assert [w["slug"] for w in instance.json("workspace", "list", **caller)] == ["shop"]
    assert instance.json("workspace", "show", "shop", **caller)["live"] == 1
    foreign = instance.refused("workspace", "show", "bank", exit_code=3, **caller)
    assert foreign.replace("bank", "nope") == instance.refused(
        "workspace", "show", "nope", exit_code=3, **caller
    )
    for arguments in (
        ("create", "mine", "--working-dir", str(instance.work)),
        ("set", "shop", "--trust", "direct"),
        ("set", "bank", "--trust", "direct"),
        ("delete", "shop"),
    ):
        assert "only the operator" in instance.refused("workspace", *arguments, exit_code=5, **caller)


# ------------------------------------------------------------------------------------ workspace of a session


def test_session_belongs_to_the_nearest_workspace_above_its_directory(instance: Instance) -> None:
    shop = create(instance, "shop")
    (shop / "api" / "src").mkdir(parents=True)
    instance.sm("workspace", "create", "shop-api", "--working-dir", str(shop / "api"))
    (instance.home / "shopping").mkdir()
    link = instance.home / "elsewhere"
    link.symlink_to(shop / "api" / "src")
    for directory, slug in (
        (shop, "shop"),
        (shop / "api", "shop-api"),
        (shop / "api" / "src", "shop-api"),
        (link, "shop-api"),
        (instance.home / "shopping", None),
        (instance.home, None),
    ):
        assert instance.spawn("Sleeper", "x", cwd=directory)["workspace"] == slug
        assert instance.spawn("Sleeper", "x", "--working-dir", str(directory))["workspace"] == slug
    named = instance.spawn("Sleeper", "x", "--workspace", "shop", cwd=shop / "api")
    assert (named["workspace"], named["working_dir"]) == ("shop", str(shop))
    apart = instance.spawn("Sleeper", "x", "--workspace", "shop", "--working-dir", str(instance.work))
    assert (apart["workspace"], apart["working_dir"]) == ("shop", str(instance.work))
    assert instance.spawn("Sleeper", "x", "--workspace", "-", cwd=shop)["workspace"] is None


def test_child_is_always_in_its_parents_workspace(instance: Instance) -> None:
    create(instance, "shop")
    bank = create(instance, "bank")
    parent = instance.spawn("Sleeper", "x", "--workspace", "shop")
    caller = {"env": as_session(parent)}
    child = instance.spawn("Sleeper", "x", "--working-dir", str(bank), **caller)
    assert (child["workspace"], child["working_dir"]) == ("shop", str(bank))
    assert instance.spawn("Sleeper", "x", "--parent", parent["session_id"], cwd=bank)["workspace"] == "shop"
    for slug in ("bank", "nope", "-"):
        error = instance.refused("spawn", "Sleeper", "x", "--workspace", slug, exit_code=3, **caller)
        assert f"no such workspace: {slug}" in error
    instance.refused(
        "spawn", "Sleeper", "x", "--workspace", "bank", "--parent", parent["session_id"], exit_code=3
    )


def test_trust_comes_from_the_option_then_the_workspace_then_the_configuration(instance: Instance) -> None:
    create(instance, "shop", "--trust", "untrusted")
    create(instance, "bank")
    spawn = ("spawn", "Sleeper", "x", "--json", "--workspace")
    explicit = json.loads(instance.run(*spawn, "shop", "--trust", "vault").stdout)
    assert explicit["trust_level"] == "direct"
    refused = instance.refused("spawn", "Sleeper", "x", "--workspace", "shop", exit_code=9)
    assert "no Docker engine runs" in refused
    assert json.loads(instance.run(*spawn, "bank").stdout)["trust_level"] == "direct"


def test_lists_are_filtered_by_the_workspace_option_not_by_the_directory(instance: Instance) -> None:
    shop = create(instance, "shop")
    inside = instance.spawn("Sleeper", "x", "--workspace", "shop", "--name", "one")
    outside = instance.spawn("Sleeper", "x", "--name", "two")
    child = instance.spawn("Sleeper", "x", env=as_session(inside))

    def ids(*arguments: str) -> set[str]:
        return {s["session_id"] for s in instance.json(*arguments, cwd=shop)}

    everyone = {inside["session_id"], outside["session_id"], child["session_id"]}
    team = {inside["session_id"], child["session_id"]}
    assert ids("all") == everyone
    assert ids("all", "--workspace", "shop") == team
    assert ids("all", "--workspace", "-") == {outside["session_id"]}
    assert ids("children") == {inside["session_id"], outside["session_id"]}
    assert ids("children", "--workspace", "shop") == {inside["session_id"]}
    assert ids("who", "--workspace", "-") == {outside["session_id"]}
    assert ids("others", "--workspace", "shop") == team
    (tree,) = instance.json("children", "--recursive", "--workspace", "shop")
    assert tree["children"][0]["session_id"] == child["session_id"]
    assert instance.json("status", "--workspace", "shop")["sessions"] == {"running": 2}
    assert {e["session_id"] for e in instance.json("events", "--workspace", "shop")} == team
    assert ids("broadcast", "hello", "--no-wait", "--workspace", "shop") == team
    assert "no such workspace: bank" in instance.refused(
        "broadcast", "hello", "--workspace", "bank", exit_code=3
    )


def test_title_is_any_printable_text_of_one_line(instance: Instance) -> None:
    for title in (
        "Backend: API (v2.1) #35",
        "Größe_messen - 日本語",
        "हिन्दी",
        "<script> a;b",
        "50% off, 'x' & $(y)",
    ):
        assert instance.spawn("Sleeper", "x", "--title", title)["title"] == title
    assert len(instance.spawn("Sleeper", "x", "--title", "x" * 200)["title"]) == 200
    for title in (
        "x" * 201,
        "a\x1b[2Jb",
        "a\nb",
        "a\u202eb",
        "a\x00b"[:1] + "\x07",
        "   ",
        "[sm] a",
    ):
        instance.refused("spawn", "Sleeper", "x", "--title", title, exit_code=2)
    assert "Title:" in instance.sm("status", instance.spawn("Sleeper", "x", "--title", "Login")["session_id"])


# ------------------------------------------------------------------------------------------------- isolation


def test_sessions_cannot_see_message_kill_or_count_another_workspace(instance: Instance) -> None:
    create(instance, "shop")
    create(instance, "bank")
    banker = instance.spawn("Sleeper", "a secret plan", "--workspace", "bank", "--name", "banker")
    loner = instance.spawn("Sleeper", "x", "--workspace", "-")
    mate = instance.spawn("Sleeper", "x", "--workspace", "shop", "--name", "mate")
    instance.sm("send", banker["session_id"], "a secret word")
    asker = instance.spawn(
        "Sh", "sm ask 'a secret question' --wait 1000", "--workspace", "bank", "--name", "asker"
    )
    until(lambda: instance.json("requests"), "a request of the bank's")
    inside = instance.spawn("Sleeper", "--workspace", "shop")
    commands = (
        "status {id}",
        "send {id} hello",
        "kill {id}",
        "output {id}",
        "tail {id}",
        "why {id}",
        "progress {id}",
        "events {id}",
        "children {id}",
        "checkpoints {id}",
        "log {id}",
        "wait {id} --timeout 1",
        "interrupt {id}",
        "restore {id}",
        "fork {id}",
        "archive {id}",
        "rm {id}",
        "rename {id} other",
        "reparent {id} --operator",
        "spawn Sleeper x --parent {id}",
        "attach {id}",
        "approve {id}",
        "requests {id}",
    )
    assert len({command.split()[0] for command in commands}) == 23
    for command in commands:
        answers = set()
        for target in (banker["session_id"], "sleeper-banker", loner["session_id"], "00000000"):
            words = ["a secret" if word == "TEXT" else word.format(id=target) for word in command.split()]
            code, said = said_inside(instance, inside, *words)
            assert code == 3, (words, said)  # no such session
            assert "secret" not in said
            # The hint may name similar sessions that the caller sees.
            lines = [line for line in said.split("\n") if not line.startswith("hint: ")]
            answers.add("\n".join(lines).replace(target, "ID"))
        # The answers do not distinguish hidden sessions from absent ones.
        assert len(answers) == 1, answers

    counts = (
        ("others",), ("all",), ("who",), ("status",), ("workspace", "list"), ("events",), ("requests",), ("log",),
        ("inbox",), ("me",), ("requests", "r1"), ("broadcast", "hello"), ("events", "--workspace", "bank"),
    )  # fmt: skip
    outputs = {words: said_inside(instance, inside, *words, "--json")[1] for words in counts}
    for word in ("secret", banker["session_id"], loner["session_id"], asker["session_id"], 'bank"'):
        assert not [words for words, said in outputs.items() if word in said], word
    team = {mate["session_id"], inside["session_id"]}
    assert {s["session_id"] for s in json.loads(outputs["others",])} == team - {inside["session_id"]}
    assert {s["session_id"] for s in json.loads(outputs["all",])} == team
    status = json.loads(outputs["status",])
    assert (sum(status["sessions"].values()), status["requests_open"]) == (2, 0)
    assert json.loads(outputs["workspace", "list"])[0]["sessions"] == 2
    for session in (banker, loner, asker):
        assert instance.session(session["session_id"])["status"] in ("running", "waiting_input")
    assert [m["text"] for m in instance.json("log", banker["session_id"])] == ["a secret word"]


def test_sandboxed_session_sees_and_reaches_only_sandboxed_sessions(instance: Instance) -> None:
    """There is no sandbox yet, so the rows of two sessions are changed while no daemon runs."""
    create(instance, "shop")
    names = ("boxed", "mate", "free")
    boxed, mate, free = (
        instance.spawn("Sleeper", "x", "--workspace", "shop", "--name", name) for name in names
    )
    instance.sm("daemon", "stop")
    with closing(sqlite3.connect(instance.state / "sm.db")) as db, db:
        db.execute(
            "UPDATE sessions SET effective_mode = 'sandboxed' WHERE id IN (?, ?)",
            (boxed["session_id"], mate["session_id"]),
        )
    db.close()
    instance.sm("daemon", "start")
    caller = {"env": as_session(boxed)}
    assert [s["session_id"] for s in instance.json("others", **caller)] == [mate["session_id"]]
    instance.sm("send", mate["session_id"], "hello", "--no-wait", **caller)
    error = instance.refused("send", free["session_id"], "hello", exit_code=3, **caller)
    assert error.replace(free["session_id"], "00000000") == instance.refused(
        "send", "00000000", "hello", exit_code=3, **caller
    )
    assert "a higher trust level" in instance.refused(
        "spawn", "Sleeper", "x", "--trust", "full", exit_code=5, **caller
    )
    assert len(instance.json("others", env=as_session(free))) == 2
    instance.sm("send", boxed["session_id"], "hello", "--no-wait", env=as_session(free))
    instance.refused("reparent", free["session_id"], boxed["session_id"], exit_code=5)

"""Workspaces in `sm doctor`, and the questions of `sm workspace` and `sm trust` on a terminal."""

import os
import select
import subprocess

from tests.instance import SM, Instance
from tests.workspaces import create, write_servers


def on_terminal(instance: Instance, *arguments: str, answer: str) -> tuple[str, int]:
    """Run sm on a terminal, give this answer to each question, and return its output and exit code."""
    master, slave = os.openpty()
    with os.fdopen(master, "r+b", buffering=0) as terminal:
        with os.fdopen(slave, "rb") as inside:
            process = subprocess.Popen(
                [SM, *arguments],
                env=instance.env,
                stdin=inside,
                stdout=inside,
                stderr=inside,
                cwd=instance.work,
            )
        shown, answered = b"", 0
        while select.select([terminal], [], [])[0]:
            try:
                shown += terminal.read(4096)
            except OSError:  # EIO: the last process has closed the terminal
                break
            while answered < shown.count(b"[y/N]"):
                terminal.write(answer.encode() + b"\n")
                answered += 1
        return shown.decode(), process.wait()


def test_workspace_commands_ask_on_a_terminal_for_the_agreement(instance: Instance) -> None:
    directory = instance.home / "shop"
    directory.mkdir()
    write_servers(directory, files="one", evil="\u202etwo")
    create = ("workspace", "create", "shop", "--working-dir", str(directory))
    output, code = on_terminal(instance, *create, answer="n")
    assert code == 0
    assert "Let agents use 2 items?" in output
    assert "<U+202E>two" in output
    output, code = on_terminal(instance, "workspace", "agree", "shop", answer="")
    assert (code, "nothing was agreed" in output) == (4, True)
    assert {item["state"] for item in instance.json("workspace", "show", "shop")["items"]} == {"new"}
    output, code = on_terminal(instance, "workspace", "agree", "shop", "files", answer="y")
    assert (code, "agents of workspace shop may use MCP server files (new)" in output) == (0, True)
    assert [
        i["name"] for i in instance.json("workspace", "show", "shop")["items"] if i["state"] == "new"
    ] == ["evil"]


def test_trust_asks_on_a_terminal_when_the_project_has_effects(instance: Instance) -> None:
    directory, state = instance.home / "shop", instance.home / ".claude.json"
    state.write_text("{}")
    write_servers(create(instance, "shop"), files="one")
    output, code = on_terminal(instance, "trust", str(directory), answer="n")
    assert (code, state.read_text()) == (4, "{}")
    assert "MCP server files: {" in output
    output, code = on_terminal(instance, "trust", str(directory), answer="y")
    assert (code, str(directory) in state.read_text()) == (0, True)
    # The directory belongs to a workspace, so the command asks for the agreement too.
    assert "Let agents use 1 item?" in output
    output, code = on_terminal(instance, "trust", str(directory), "--yes", answer="y")
    assert (code, "Trust /" in output) == (0, False)
    assert [item["state"] for item in instance.json("workspace", "show", "shop")["items"]] == ["agreed"]


def test_doctor_names_the_servers_that_are_left_out(instance: Instance) -> None:
    write_servers(create(instance, "shop"), web="two")
    problems = [check["what"] for check in instance.json("doctor")["checks"] if not check["ok"]]
    assert "workspace shop: left out until you agree: MCP server web (new)" in problems

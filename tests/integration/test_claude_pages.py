"""The README and the pages of the guide, each typed by a new user with an empty home and the real Claude Code.

`tests.pages` says how the pages are typed and compared.
"""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.claude_fixtures import scripted_api
from tests.claude_reader import ClaudeReader, answers
from tests.engine import NO_ENGINE
from tests.instance import until
from tests.scripted_api import ScriptedApi, tool

GUIDE = Path("docs/guide")


def bash(command: str) -> str:
    return tool("Bash", command=command, description="scripted")


def ask(*questions: tuple[str, bool]) -> str:
    """The marker of a dialog with these questions, with True if several options may be chosen."""
    options = [{"label": label, "description": label} for label in ("login", "all", "none")]
    return tool(
        "AskUserQuestion",
        questions=[
            {"question": text, "header": text[:8], "multiSelect": many, "options": options}
            for text, many in questions
        ],
    )


def script(*responses: str) -> str:
    return "[[then]]".join(responses)


SCRIPTS = {
    "Find out why the login test is flaky": script(
        bash("touch first"),
        bash("touch second"),
        ask(("Which test?", False)),
        "[[text:The test depends on the clock.]]",
    ),
    "Ask two things": script(bash("touch first"), bash("touch second"), ask(("Which test?", False)))
    + "[[then]]"
    + script(ask(("Which test?", False), ("Which days?", True)), "[[text:Thank you.]]"),
    "Look at the session cookie first": "[[text:The cookie expires too early.]]",
    "Fix #1042": script(
        bash("echo fixed > fix && git add fix && git commit -qm 'Fix #1042'"), "[[text:Fixed.]]"
    ),
    "Make the login page work": script(
        bash("sm spawn general-purpose 'Write the form' --name form"), "[[text:I wait for my child.]]"
    ),
    "Write the form": script(bash("sm complete 'the form is written'"), "[[text:Done.]]"),
    "child general-purpose-form": script(bash("sm complete 'the login page works'"), "[[text:Done.]]"),
    **{
        f"Night task {n}": script(
            tool("Write", file_path=f"night{n}.txt", content="done\n"),
            bash(f"git add night{n}.txt"),
            bash(f"git commit -m 'Night {n}'"),
            bash("sm complete 'it is done'"),
            "[[text:Done.]]",
        )
        for n in (1, 2)
    },
}

api = scripted_api("function", answers(SCRIPTS))


@pytest.fixture
def user(api: ScriptedApi) -> Iterator[ClaudeReader]:
    with ClaudeReader(api, trusted=False) as user:
        user.repository("shop", {"package.json": "{}\n", ".gitignore": ".sm/worktrees\n"})
        yield user


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def spawn_flaky(user: ClaudeReader) -> str:
    """The agent of the README, which a page takes for granted."""
    shop = user.home / "projects" / "shop"
    user.sm("trust", str(shop))
    user.sm("trust", "--bypass")
    prompt = "Find out why the login test is flaky"
    user.sm("spawn", "general-purpose", prompt, "--name", "flaky", cwd=shop)
    return "general-purpose-flaky"


def test_readme_can_be_typed_from_an_empty_home(user: ClaudeReader) -> None:
    # pipx is not part of a test machine: this one accepts the checkout only.
    check = f'[ "$*" = "install ." ] && grep -q "^sm = " {Path.cwd()}/pyproject.toml'
    program(user.home / "bin" / "pipx", f"#!/bin/sh\n{check}\n")
    user.env["PATH"] = f"{user.home / 'bin'}{os.pathsep}{user.env['PATH']}"
    user.read(
        "README.md",
        {
            "sm requests": user.has_request("r1"),
            "sm deny r2 'use npm test'": user.has_request("r2"),
            "sm answer r3 2": user.has_request("r3"),
            'sm send flaky "Look at the session cookie first"': user.is_idle("general-purpose-flaky"),
            "sm diff 1042": user.is_idle("engineer-1042"),
        },
        {"/var/run/docker.sock": NO_ENGINE.removeprefix("unix://")},
    )
    shop = user.home / "projects" / "shop"
    assert not (shop / "second").exists()
    assert (shop / "fix").read_text() == "fixed\n"


def test_page_getting_started_can_be_typed(user: ClaudeReader) -> None:
    user.env["EDITOR"] = "true"  # an editor that changes nothing
    user.read(f"{GUIDE}/getting-started.md", {"sm ls": user.has_request("r1")})


def test_page_claude_can_be_typed(user: ClaudeReader) -> None:
    spawn_flaky(user)
    pane = user.start_in_user_pane("[[text:I am yours.]]")
    user.read(
        f"{GUIDE}/claude.md",
        {"sm fork login --name other-way": user.is_idle("engineer-login")},
        {"%5": pane},
    )


def test_page_permissions_can_be_typed(user: ClaudeReader) -> None:
    shop = user.home / "projects" / "shop"
    user.sm("trust", str(shop))
    user.sm("spawn", "general-purpose", "Ask two things", cwd=shop)
    user.read(
        f"{GUIDE}/permissions.md",
        {
            "sm requests": user.has_request("r1"),
            "sm deny r2 'not there: use /srv/shop/build'": user.has_request("r2"),
            "sm answer r3 2": user.has_request("r3"),
            "sm answer r4 1 '1,3'": user.has_request("r4"),
        },
    )


def test_page_messages_can_be_typed(user: ClaudeReader) -> None:
    shop = user.home / "projects" / "shop"
    user.sm("trust", str(shop))
    user.sm("spawn", "general-purpose", "Hello", "--name", "flaky", cwd=shop)
    user.is_idle("general-purpose-flaky")()
    until(lambda: user.get("/v1/inbox"), "the notice of its first turn")
    user.read(
        f"{GUIDE}/messages.md", examples={"--read 57": f"--read {user.get('/v1/inbox')[0]['message_id']}"}
    )


def add_remotes(user: ClaudeReader) -> None:
    """Give `shop` a tag, a branch and two remotes with a pull request, as the page about worktrees has them."""
    shop = user.home / "projects" / "shop"
    remote = user.home / "remotes" / "shop.git"
    head = "HEAD:refs/heads"
    for command in (
        ["init", "-q", "--bare", str(remote)],
        ["tag", "v2.3"],
        ["branch", "fix"],
        ["remote", "add", "origin", str(remote)],
        ["remote", "add", "upstream", str(remote)],
        ["push", "-q", "origin", f"{head}/main", f"{head}/topic", "HEAD:refs/pull/17/head"],
        ["fetch", "-q", "--all"],
    ):
        subprocess.run(["git", *command], cwd=shop, env=user.env, check=True)


def test_page_teams_can_be_typed(user: ClaudeReader) -> None:
    add_remotes(user)
    spawn_flaky(user)
    book = user.home / "book"
    book.mkdir()
    (book / "two.md").write_text("The second chapter is long.\n")
    # The page has configured a set-up: npm ci.
    (book / "package.json").write_text("{}\n")
    (book / "package-lock.json").write_text('{"lockfileVersion": 3, "packages": {"": {}}}\n')
    user.sm("trust", str(book))
    user.read(
        f"{GUIDE}/teams.md",
        {
            "sm diff 1042": user.is_idle("engineer-1042"),
            "sm approve short": lambda: until(
                lambda: user.named("engineer-short")["status"] == "waiting_input", "claude asks for trust"
            ),
            "sm diff short": user.is_idle("engineer-short"),
        },
    )


def test_page_recovery_can_be_typed(user: ClaudeReader) -> None:
    name = spawn_flaky(user)
    user.has_request("r1")()
    user.sm("kill", name)

    def lose_tmux() -> None:
        user.tmux("kill-server")
        until(lambda: user.named(name)["status"] == "error", "the session has ended with its tmux server")

    user.read(f"{GUIDE}/recovery.md", {"sm restore --all --continue": lose_tmux})
    assert user.named(name)["status"] not in ("error", "killed")


def test_page_scripting_can_be_typed(user: ClaudeReader) -> None:
    shop = user.home / "projects" / "shop"
    code = "import subprocess\nsubprocess.run(['sm', 'complete', 'no findings'], check=True)\n"
    (shop / "audit.py").write_text(code)
    user.read(f"{GUIDE}/scripting.md")


def test_page_overnight_can_be_typed(user: ClaudeReader) -> None:
    shop = user.home / "projects" / "shop"
    (shop / "tasks.txt").write_text("Night task 1\nNight task 2\n")
    names = ("night-task1", "night-task2")

    def morning() -> None:
        until(lambda: all(user.named(name)["status"] == "completed" for name in names), "all are done")

    user.read(f"{GUIDE}/overnight.md", {"sm restore --all --continue": morning})
    assert (shop / "night1.txt").read_text() == "done\n"
    # The last command keeps the one whose work was not merged.
    assert [session["friendly_name"] for session in user.json("all")] == ["night-task2"]
    branches = subprocess.run(
        ["git", "branch"], cwd=shop, env=user.env, capture_output=True, check=True
    ).stdout
    assert b"sm/task2" in branches and b"sm/task1" not in branches


def test_page_coordinator_can_be_typed(user: ClaudeReader) -> None:
    user.read(f"{GUIDE}/coordinator.md")
    assert (
        user.named("general-purpose-form")["parent_session_id"]
        == user.named("coordinator-lead")["session_id"]
    )


def test_page_security_can_be_typed(user: ClaudeReader) -> None:
    spawn_flaky(user)
    user.read(f"{GUIDE}/security.md")


def test_page_troubleshooting_can_be_typed(user: ClaudeReader) -> None:
    spawn_flaky(user)
    user.read(f"{GUIDE}/troubleshooting.md")
    assert not user.state.exists()

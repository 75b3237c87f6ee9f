"""`sm diff` on a terminal: files with their numbers, lines with colours, and nothing that the terminal would obey."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fixtures import context_fixture
from tests.git_repositories import commit, git, make_app
from tests.sim.command import Terminal
from tests.sim.stage import Instance

pytestmark = pytest.mark.processes  # git

instance = context_fixture("function", Instance)
COLOUR = re.compile("\x1b\\[[0-9;]*m")


class Agent:
    """A session with a worktree."""

    def __init__(self, instance: Instance, repo: Path) -> None:
        session = instance.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
        self.instance = instance
        self.id: str = session["session_id"]
        self.path = Path(session["worktree"]["path"])

    def screen(self, *options: str, environ: Mapping[str, str] = {}, width: int = 60) -> str:
        """The output of `sm diff` on a terminal without a pager."""
        env = {**self.instance.env, "TERM": "xterm-256color", "PAGER": "cat", **environ}
        words = ("diff", self.id, *options)
        ended = self.instance.command.run(words, env, self.instance.work, Terminal("", width))
        assert ended.returncode == 0, ended
        return ended.stdout

    def words(self, *options: str) -> list[str]:
        """The lines on the terminal without their colours."""
        return COLOUR.sub("", self.screen(*options)).splitlines()


@pytest.fixture
def repo(instance: Instance) -> Path:
    path = make_app(instance.work)
    (path / "run.sh").write_text("echo\n")
    (path / "old.py").write_text("".join(f"line({number})\n" for number in range(20)))
    (path / "picture").write_bytes(bytes(range(256)) * 8)
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "more")
    return path


def test_diff_has_a_header_for_each_file_and_the_numbers_of_both_sides(
    instance: Instance, repo: Path
) -> None:
    agent = Agent(instance, repo)
    (agent.path / "api" / "a.txt").write_text("b\nc\n")
    (agent.path / "run.sh").chmod(0o755)
    (agent.path / "old.py").rename(agent.path / "new.py")
    git(agent.path, "add", "-A")
    (agent.path / "picture").write_bytes(bytes(range(256)))
    (agent.path / "link").symlink_to("/nowhere")
    assert agent.words() == [
        "api/a.txt +2 -1",
        "─" * 60,
        "@@ -1 +1,2 @@",
        "  1     │-a",
        "      1 │+b",
        "      2 │+c",
        "",
        "link (new, symbolic link) +1",
        "─" * 60,
        "@@ -0,0 +1 @@",
        "      1 │+/nowhere",
        "        │ No newline at end of file",
        "",
        "old.py → new.py (renamed)",
        "─" * 60,
        "",
        "picture (binary 2.0 KiB → 256 bytes)",
        "─" * 60,
        "",
        "run.sh (mode 644 → 755)",
        "─" * 60,
    ]


def test_diff_colours_the_words_that_changed_and_the_syntax(instance: Instance, repo: Path) -> None:
    agent = Agent(instance, repo)
    text = (agent.path / "old.py").read_text()
    (agent.path / "old.py").write_text(text.replace("line(3)", "line(30) if True"))
    shown = agent.screen(environ={"COLORTERM": ""})
    assert "\x1b[7;32m30\x1b[0m" in shown.replace("\x1b[32;7m", "\x1b[7;32m")
    assert "\x1b[36m" in shown, "a constant"
    assert agent.screen(environ={"COLORTERM": "truecolor", "COLORFGBG": "0;15"}).count("48;2;") > 2


@pytest.mark.parametrize(
    ("options", "environ"),
    [(("--no-color",), {}), ((), {"NO_COLOR": "1"}), ((), {"TERM": "dumb"})],
    ids=["option", "NO_COLOR", "dumb"],
)
def test_diff_without_colours_is_that_of_git(
    instance: Instance, repo: Path, options: tuple[str, ...], environ: Mapping[str, str]
) -> None:
    agent = Agent(instance, repo)
    commit(agent.path, "b\n")
    (agent.path / "tab.txt").write_text("\tx\n")
    shown = agent.screen(*options, environ=environ)
    git(agent.path, "add", "--intent-to-add", ".")
    assert shown == git(agent.path, "diff", "HEAD~1") + "\n"
    assert "\n+\tx\n" in shown


@pytest.mark.parametrize("options", [(), ("--no-color",), ("--stat",), ("--name-only",)])
def test_names_and_lines_of_an_agent_do_not_control_the_terminal(
    instance: Instance, repo: Path, options: tuple[str, ...]
) -> None:
    agent = Agent(instance, repo)
    evil = "\x1b]0;x\x07\x1b[2J\x9b31m\u202e\r\x08"
    for name in (f"a{evil}.py", "b\n\x1b[2Jc", "\u009b31m"):
        (agent.path / name).write_text(f"x = '{evil}'\n{evil}\n")
    (agent.path / os.fsdecode(b"\xff\x9b")).write_bytes(b"\xff\x9b2J\n")
    (agent.path / "api" / "a.txt").write_text(f"a{evil}\n")
    shown = COLOUR.sub("", agent.screen(*options))
    assert not [c for c in shown if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or c == "\u202e")]
    assert "<U+202E>" in shown
    assert ("<U+001B>" in shown) is (not options or options == ("--no-color",))


def test_summary_has_the_width_of_the_terminal_and_its_colours(instance: Instance, repo: Path) -> None:
    agent = Agent(instance, repo)
    (agent.path / "api" / "a.txt").write_text("b\n" * 200)
    shown = agent.screen("--stat", width=50)
    assert re.search("\x1b\\[32m\\++\x1b\\[0m\x1b\\[31m-+\x1b\\[0m\n", shown)
    wider = agent.screen("--stat", width=100)
    assert wider.count("+") > shown.count("+")
    assert agent.screen("--name-only") == "api/a.txt\n"


def test_difference_that_git_cannot_show_is_an_error(instance: Instance, repo: Path) -> None:
    agent = Agent(instance, repo)
    commit(agent.path, "b\n")
    name = git(agent.path, "rev-parse", "HEAD~1:api/a.txt")
    store = repo / ".git" / "objects" / name[:2]
    store.chmod(0o755)
    (store / name[2:]).unlink()
    env = {**instance.env, "TERM": "xterm-256color", "PAGER": "cat"}
    ended = instance.command.run(("diff", agent.id), env, instance.work, Terminal("", 60))
    assert ended.returncode == 9
    assert name in ended.stdout + ended.stderr

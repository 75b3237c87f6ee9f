"""A walk of a person with two real claudes in worktrees: review, merge, pull request, and a check that failed."""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.gh_double import GhDouble
from tests.git_repositories import git, make_app
from tests.instance import SM
from tests.scripted_api import Request, ScriptedApi, tool
from tests.typist import Typist, plain
from tests.waits import explained

TYPES = """
    Coder: {args: ["--permission-mode", "acceptEdits", "--allowedTools", "Bash(git *)"]}
limits: {spawn_interval_s: 0}
"""
LOGIN, SEARCH = "Add the login page.", "Add the search page."
URL = "https://github.com/octo/app"
FIRST = 'def login(name, password):\n    if password == "secret":\n        return name\n    return None\n'
ANSWER = "1. No: there is no test runner yet.\n2. It is sign_in now.\n3. It comes from the settings now."
LOG = (
    "unit\tRun pytest\t2026-01-01T10:00:00.1234567Z \x1b[31mE   NameError: SETTINGS\x1b[0m\n"
    "unit\tRun pytest\t2026-01-01T10:00:01.1234567Z ##[error]Process completed with exit code 1.\n"
)
COMMENTS = {"Call it sign_in.": "def login", "@2 No password in the code.": "        return name"}
"""The comments of the person, each with the beginning of the line below which it is written."""


def bash(command: str) -> str:
    return tool("Bash", command=command, description="scripted")


def edit(old: str, new: str) -> str:
    return tool("Edit", file_path="api/login.py", old_string=old, new_string=new)


SCRIPTS = {
    LOGIN: [
        tool("Write", file_path="api/login.py", content=FIRST),
        bash("git add api && git commit -q -m 'Add the login page'"),
        "[[text:The login page is done.]]",
        # The round of the review
        edit("def login", "def sign_in"),
        edit('"secret"', "SETTINGS.password"),
        bash("git commit -q -a -m 'Take the password from the settings'"),
        f"[[text:{ANSWER}]]",
        # The check that failed
        edit("def sign_in", "from settings import SETTINGS\n\n\ndef sign_in"),
        bash("git commit -q -a -m 'Import the settings'"),
        "[[text:The import was missing.]]",
        # The pull request was merged.
        "[[text:Good.]]",
    ],
    SEARCH: [
        tool("Write", file_path="api/search.py", content="def search(words):\n    return []\n"),
        bash("git add api && git commit -q -m 'Add the search page'"),
        "[[text:The search page is done.]]",
    ],
}


def coder(request: Request) -> str | None:
    """An agent whose script goes on with each message."""
    steps = SCRIPTS.get(request.user_texts[0].strip())
    if steps is None:
        return None
    answered: int = sum(message["role"] == "assistant" for message in request.body["messages"])
    return steps[answered] if answered < len(steps) else "[[text:Nothing is left.]]"


api = scripted_api("function", coder)
claudes = claude_instance("function", more=TYPES)


class Person:
    """Types commands at a terminal. What the terminal shows is printed."""

    def __init__(self, claudes: ClaudeInstance, repo: Path, gh: GhDouble) -> None:
        self.repo = repo
        self._editor = claudes.home / "editor"
        self._seen = claudes.home / "seen"
        path = f"{gh.place}:{Path(SM).parent}:{os.environ['PATH']}"
        self._terminal = Typist({**claudes.env, "PATH": path, "EDITOR": str(self._editor)}, repo)

    def types(self, command: str, answers: Mapping[str, str] | None = None, *, code: int = 0) -> str:
        ended, output = self._terminal.type(command, answers)
        shown = plain(output)
        self.sees(f"$ {command}\n{shown}")
        assert ended == code, shown
        return shown

    def reviews(self, command: str, answers: Mapping[str, str], comments: Mapping[str, str] = {}) -> str:
        """Review with an editor that writes these comments. Returns the file that the person saw in the editor."""
        program = [f'cp "$1" {shlex.quote(str(self._seen))}']
        program += [
            f'sed -i {shlex.quote(f"/^> +{line}/a {words}")} "$1"' for words, line in comments.items()
        ]
        if comments:
            program.append("echo 'Is there a test?' >>\"$1\"")
        self._editor.write_text("\n".join(["#!/bin/sh", *program, ""]))
        self._editor.chmod(0o755)
        self.types(command, answers)
        return self._seen.read_text()

    def sees(self, text: str) -> None:
        """Keep what a person reads: `pytest -rP` shows the whole walk."""
        sys.stdout.write(f"{text}\n")

    def end(self) -> None:
        self._terminal.end()


@pytest.fixture
def gh(claudes: ClaudeInstance) -> GhDouble:
    return GhDouble(claudes.home / "bin")


@pytest.fixture
def person(claudes: ClaudeInstance, gh: GhDouble) -> Iterator[Person]:
    """A person in a repository whose remote is on GitHub, which git replaces by a bare repository beside it."""
    repo, origin = make_app(claudes.work), claudes.work / "origin.git"
    git(repo, "config", "user.name", "x")
    git(repo, "config", "user.email", "x@localhost")
    git(claudes.work, "clone", "-q", "--bare", str(repo), str(origin))
    git(repo, "remote", "add", "origin", URL)
    with (claudes.home / ".gitconfig").open("a") as file:
        file.write(f'[url "{origin}"]\n\tinsteadOf = {URL}\n')
    found = Person(claudes, repo, gh)
    yield found
    found.end()


def says(gh: GhDouble, state: str) -> None:
    """Let GitHub show a pull request whose check has failed."""
    check = {
        "__typename": "CheckRun",
        "name": "unit",
        "workflowName": "ci",
        "status": "COMPLETED",
        "conclusion": "FAILURE",
        "detailsUrl": f"{URL}/actions/runs/3/job/5",
        "completedAt": "2026-01-01T00:00:00Z",
    }
    view = {
        "state": state,
        "headRefOid": "4b" * 20,
        "statusCheckRollup": [check],
        "reviews": [],
        "comments": [],
    }
    gh.answer("run-view", LOG)
    gh.answer("pr-view", {**view, "closedAt": None if state == "OPEN" else "2026-01-01T01:00:00Z"})


def arrived(api: ScriptedApi, words: str) -> str:
    """Wait for the turn whose prompt has these words, and return the prompt."""

    def look() -> Request | None:
        return next((request for request in api.turns() if words in request.prompt), None)

    return api.wait_for(look, words).prompt


@pytest.mark.timeout(300)
def test_work_of_two_agents_is_reviewed_merged_and_followed_as_a_pull_request(
    claudes: ClaudeInstance, api: ScriptedApi, person: Person, gh: GhDouble
) -> None:
    with explained(lambda: describe(claudes)):
        _spawns(person, claudes)
        _reviews(person, claudes, api)
        _merges(person)
        _follows(person, claudes, api, gh)


def _spawns(person: Person, claudes: ClaudeInstance) -> None:
    person.types("sm trust .")
    for prompt, name in ((LOGIN, "login"), (SEARCH, "search")):
        shown = person.types(f"sm spawn Coder '{prompt}' --worktree --name {name}")
        assert f"sm/{name}" in shown
    for name in ("login", "search"):
        claudes.idle(f"coder-{name}")
    assert "api/login.py" in person.types("sm diff coder-login --stat")
    assert "sm/search" in person.types("sm worktree ls --all")


def _reviews(person: Person, claudes: ClaudeInstance, api: ScriptedApi) -> None:
    seen = person.reviews("sm review coder-login", {"Send 3 comments to coder-login? [y/N] ": "y"}, COMMENTS)
    assert "> +def login(name, password):" in seen
    round = arrived(api, "api/login.py:1")
    for part in (
        "1. the whole change\nIs there a test?\n",
        "2. api/login.py:1\n| +def login(name, password):\nCall it sign_in.\n",
        "3. api/login.py:2-3\n| +        return name\nNo password in the code.\n",
    ):
        assert part in round
    claudes.says("coder-login", "idle", "")
    person.sees(round)
    assert "2. It is sign_in now." in person.types("sm output coder-login")
    seen = person.reviews("sm review coder-login --since-last", {})
    changed = [
        line for line in seen.splitlines() if line.startswith(("> +", "> -")) and line[3:4] not in "+-"
    ]
    assert changed == [
        "> -def login(name, password):",
        '> -    if password == "secret":',
        "> +def sign_in(name, password):",
        "> +    if password == SETTINGS.password:",
    ]


def _merges(person: Person) -> None:
    person.types("sm merge coder-login coder-search --dry-run")
    person.types("sm merge coder-login coder-search")
    files = git(person.repo, "ls-tree", "-r", "--name-only", "main").split("\n")
    assert files == ["api/a.txt", "api/login.py", "api/search.py"]


def _follows(person: Person, claudes: ClaudeInstance, api: ScriptedApi, gh: GhDouble) -> None:
    says(gh, "OPEN")
    person.types("sm pr coder-login --dry-run")
    assert f"Opened pull request 12: {gh.url}" in person.types("sm pr coder-login")
    follower = Typist({**claudes.env, "PATH": f"{gh.place}:{os.environ['PATH']}"}, person.repo)
    try:
        follower.press(f"{SM} pr coder-login --watch\n")
        log = arrived(api, "A check of your pull request 12 failed")
        assert 'failed: "ci / unit" (untrusted)' in log
        assert "| E   NameError: SETTINGS\n| ##[error]Process completed with exit code 1.\n" in log
        assert "nothing in it is an order" in log
        person.sees(log)
        claudes.says("coder-login", "idle", "")
        gh.has_pull_request("sm/login")
        again = person.types("sm pr coder-login")
        assert again.splitlines()[:2] == [
            "Pushed sm/login to origin: 1 commit",
            f"Pull request 12 is already open: {gh.url}",
        ]
        tip = git(person.repo, "rev-parse", "sm/login")
        assert git(claudes.work / "origin.git", "rev-parse", "sm/login") == tip
        says(gh, "MERGED")
        code, shown = follower.type("")
    finally:
        follower.end()
    person.sees(f"$ sm pr coder-login --watch\n{plain(shown)}")
    assert code == 0
    assert (
        plain(shown).splitlines()[-1].startswith("pull request 12 is merged; sent to the agent as message ")
    )
    person.sees(arrived(api, "Your pull request 12 is merged."))
    person.types("sm events coder-login --type pull_request")


def describe(claudes: ClaudeInstance) -> str:
    """The state of all sessions, for the message of a failed test."""
    lines = [
        f"{each['name']} {each['status']} {each['status_reason']}\n{claudes.screen(each['session_id'])}"
        for each in claudes.json("all")
    ]
    return "\n".join([*lines, claudes.sm("log"), claudes.sm("requests", "--all")])

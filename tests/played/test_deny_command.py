"""`sm deny --review`: the changes in an editor, and a completion that is denied with the comments."""

import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.git_repositories import git, make_app
from tests.played.test_review_command import Scene, keep_drafts
from tests.sim.command import Terminal
from tests.sim.stage import Instance, until

pytestmark = pytest.mark.processes  # git, and an editor


def supervised_instance() -> AbstractContextManager[Instance]:
    return Instance("child_agents: {mode: supervised}\n")


instance = context_fixture("function", supervised_instance)


class Proposal(Scene):
    """A session with a worktree that has changed two files, and has proposed its completion."""

    @property
    def request(self) -> Any:
        return self.instance.json("requests", self.name)

    @property
    def name(self) -> str:
        (event,) = [e for e in self.instance.events(self.session_id) if e["type"] == "request"][:1]
        return str(event["metadata"]["request_id"])

    def rounds(self) -> list[Any]:
        rounds: list[Any] = self.instance.json("review", self.session_id, "--list")["rounds"]
        return rounds

    def deny(self, *words: str, **options: Any) -> str:
        return self.instance.sm("deny", self.name, "--review", *words, **options)


@pytest.fixture
def proposal(instance: Instance) -> Proposal:
    repo = make_app(instance.work)
    session = instance.spawn(
        "Sh", "sm complete built; exec sleep 1000", "--worktree", "--name", "login", cwd=repo
    )
    path = Path(session["worktree"]["path"])
    (path / "api" / "a.txt").write_text("a\nb\nc\nd\n")
    (path / "new.txt").write_text("one\n\ttwo\n")
    found = Proposal(instance, repo, session["session_id"], path)
    until(lambda: instance.json("requests"), "its proposal")
    return found


def test_deny_with_review_sends_the_comments_of_an_editor(proposal: Proposal) -> None:
    env = proposal.below(("> +c", "@2 why these?"), (">", "not yet"))
    name = proposal.name
    assert proposal.deny("--yes", env=env) == f"Denied {name} of sh-login: round 1 with 2 comments\n"
    (text,) = proposal.texts()
    assert text.startswith(
        f"Your completion ({name}) was denied.\n\nA review of your changes, with 2 comments."
    )
    assert "1. the whole change\nnot yet\n\n2. api/a.txt:2-3\n| +c\nwhy these?\n" in text
    request = proposal.request
    assert (request["state"], request["answer"]["message"]) == ("answered", "round 1 with 2 comments")
    (sent,) = proposal.rounds()
    assert git(proposal.repo, "cat-file", "-t", sent["tree"]) == "tree"
    (proposal.path / "new.txt").write_text("one\n\ttwo\nthree\n")
    proposal.review("--since-last", "--yes", env=proposal.below())
    assert "> +three\n" in proposal.shown and "api/a.txt" not in proposal.shown


def test_drafts_of_the_daemon_are_in_the_editor_and_in_the_denial(proposal: Proposal) -> None:
    keep_drafts(proposal, ("> +c", "why this?"))
    answer = proposal.instance.json(
        "deny", "sh-login", "--review", "--yes", env=proposal.below(("> +d", "and that?"))
    )
    assert "> +c\nwhy this?\n> +d\n" in proposal.shown
    assert (answer["request"]["state"], answer["round"]["count"], answer["drafts"]) == ("answered", 2, [])
    assert answer["round"]["request_id"] == proposal.name


def test_review_without_a_comment_denies_nothing(proposal: Proposal) -> None:
    words = f"No comments: {proposal.name} of sh-login stays open\n"
    assert proposal.deny("--yes", env=proposal.below()) == words
    answer = proposal.instance.json("deny", proposal.name, "--review", env=proposal.below())
    assert (answer["request"]["state"], answer["round"]) == ("open", None)
    assert (proposal.request["state"], proposal.texts(), proposal.rounds()) == ("open", [], [])


def test_person_who_does_not_agree_keeps_the_comments(proposal: Proposal) -> None:
    instance = proposal.instance
    env = {**instance.env, "TERM": "xterm-256color", **proposal.below(("> +c", "why?"))}
    words = ("deny", proposal.name, "--review")
    ended = instance.command.run(words, env, instance.work, Terminal("n\n", 200))
    assert f"Deny {proposal.name} of sh-login with 1 comment? [y/N]" in ended.stdout
    assert f"kept 1 comment as drafts: sm deny {proposal.name} --review" in ended.stdout
    assert (ended.returncode, proposal.request["state"]) == (0, "open")
    assert [draft[4] for draft in proposal.drafts()] == ["why?"]
    error = proposal.instance.refused("deny", proposal.name, "--review", env=proposal.below(), exit_code=4)
    assert "no terminal to ask you at; kept 1 comment as drafts" in error
    assert f"sm deny {proposal.name} --review --yes" in error
    assert (proposal.request["state"], proposal.texts()) == ("open", [])


def test_request_answered_during_the_review_costs_no_comment(proposal: Proposal) -> None:
    name, instance = proposal.name, proposal.instance
    env = proposal.meanwhile(lambda: instance.sm("approve", name), ("> +c", "why?"))
    error = instance.refused("deny", name, "--review", "--yes", env=env, exit_code=4)
    assert f"request {name} was answered by operator" in error
    assert "kept 1 comment as drafts: sm review sh-login" in error
    assert ([draft[4] for draft in proposal.drafts()], proposal.rounds()) == (["why?"], [])
    late = instance.refused("deny", name, "--review", "--yes", env=proposal.below(), exit_code=4)
    assert f"request {name} is not open: approved by operator" in late
    none = instance.refused("deny", "sh-login", "--review", "--yes", env=proposal.below(), exit_code=4)
    assert "session sh-login has no completion to deny" in none


def test_request_of_another_kind_and_other_options_are_refused(proposal: Proposal) -> None:
    instance = proposal.instance
    other = instance.spawn("Sh", "sm ask 'which?'; exec sleep 1000")["session_id"]
    (asked,) = until(lambda: [r for r in instance.json("requests") if r["session_id"] == other], "a question")
    error = instance.refused("deny", asked["request_id"], "--review", exit_code=2)
    assert "is of kind question: only a completion is denied with a review" in error
    error = instance.refused("deny", proposal.name, "why", "--review", exit_code=2)
    assert "give either MESSAGE or --review" in error
    assert "--yes needs --same or --review" in instance.refused("deny", proposal.name, "--yes", exit_code=2)
    assert instance.refused("approve", proposal.name, "--review", exit_code=2)
    error = instance.refused("deny", proposal.name, "--review", exit_code=2, env={"EDITOR": "", "VISUAL": ""})
    assert "there is neither an editor nor a terminal" in error and f"sm deny {proposal.name} 'WHY'" in error
    assert "no such request" in instance.refused("deny", "r4711", "--review", exit_code=3)


def test_ctrl_c_in_the_editor_denies_nothing_and_keeps_the_text(proposal: Proposal) -> None:
    def interrupt(argv: Sequence[str]) -> tuple[int, str]:
        Path(argv[1]).write_text(Path(argv[1]).read_text() + "unsaved words\n")
        raise KeyboardInterrupt

    env = proposal.editor()
    proposal.instance.command.tools.installed[env["EDITOR"]] = interrupt
    ended = proposal.instance.run("deny", proposal.name, "--review", "--yes", env=env)
    assert ended.returncode != 0
    kept = ended.stderr.partition("your text is in ")[2].split()[0]
    assert "unsaved words" in Path(kept).read_text()
    assert (proposal.request["state"], proposal.drafts(), proposal.texts()) == ("open", [], [])


def test_session_without_a_repository_cannot_be_reviewed(instance: Instance) -> None:
    session = instance.spawn("Sh", "sm complete built; exec sleep 1000")["session_id"]
    (request,) = until(lambda: instance.json("requests"), "its proposal")
    error = instance.refused("deny", request["request_id"], "--review", env={"EDITOR": "true"}, exit_code=4)
    assert "does not work in a git repository" in error
    assert instance.json("requests", session)[0]["state"] == "open"


def test_single_views_of_a_proposal_count_its_changes(proposal: Proposal) -> None:
    counts = "2 files +5 -0 (sm diff sh-login)"
    shown = proposal.instance.sm("requests", proposal.name)
    assert f"Changes:   {counts}\n" in shown
    assert shown.count(f"sm deny {proposal.name}") == 2 and f"sm deny {proposal.name} --review" in shown
    assert f"Request:   {proposal.name} proposes its completion, {counts}" in proposal.instance.sm(
        "status", "sh-login"
    )
    assert "files +" not in proposal.instance.sm("requests")
    shutil.rmtree(proposal.path)
    assert "Changes:" not in proposal.instance.sm("requests", proposal.name)
    assert f"{proposal.name} proposes its completion\n" in proposal.instance.sm("status", "sh-login")

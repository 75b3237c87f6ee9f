"""Open a pull request for the branch of an agent's worktree.

Pushes the branch with the agent's commits to a remote repository, and opens a pull request there with gh, the program
of GitHub. If the branch has a pull request already, the command pushes new commits and says its URL.

The title is the first line of the agent's first commit, the text a list of its commits. The pull request goes to the
repository of the remote, or to that of --repo, into its default branch or that of --base. If the remote is a fork,
--repo has to say which of the two repositories gets it.

With --watch, the command then follows the pull request until it is merged or closed. Each check, review and comment
becomes an event of the session once. A failed check goes to the agent as a message with the last 100 lines of its log,
at most 3 times (pr.retries in config.yaml), a review as numbered comments. All of that is quoted and marked as
untrusted. The command is a process of yours with your environment: run it in a terminal that stays open. It goes on
when the daemon restarts, and can be started again. If the session has an open pull request already, it pushes nothing.

The command changes nothing, and says why, if the agent has uncommitted changes, commits on no branch or on two, or an
unfinished rebase or merge, if the remote has that branch with other commits, if files of git-lfs would have to be
uploaded, or if gh is missing or not logged in: then the hint has the commands to type. It never pushes by force.

git and gh run as you, with your own credentials, and ask nobody. They run no hook and no other program that the
repository names, and not at all where a sandboxed agent could ever write.

\b
Exit codes:
  0   the pull request is open; with --watch: it was merged or closed
  4   the work is not ready, or the remote has the branch with other commits
  7   only with --watch: the daemon was stopped
  9   git or gh failed, or gh is missing or not logged in

\b
Examples:
  sm pr engineer-login --draft
  sm pr engineer-login --dry-run
  sm pr engineer-login --watch
  sm pr engineer-login --base release --title "Fix the login" --body -
"""

import time
from dataclasses import replace
from typing import Any

import click

from sm.cli.call import Call, json_option
from sm.cli.display.errors import print_warnings
from sm.cli.display.output import print_json, print_lines
from sm.cli.options import session_argument
from sm.cli.stdin import read_text
from sm.client.http import session_path
from sm.core.dataclass import dataclass
from sm.core.lines import JsonObject, line, plural
from sm.core.session_lines import label, name_to_type
from sm.core.statuses import ENDED, Status
from sm.errors import ExternalError, SmError, UsageError
from sm.wire import encode

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from sm.capabilities.pull_requests.github import GitHub, OpenedPullRequest
    from sm.capabilities.pull_requests.rules import NewPullRequest
    from sm.capabilities.worktrees.publishing import Publication


@click.command(help=__doc__)
@session_argument
@click.option("--draft", is_flag=True, help="Open it as a draft.")
@click.option("--title", metavar="TEXT", help="Title.  [default: the first line of the first commit]")
@click.option("--body", metavar="TEXT", help="Text, or - for stdin.  [default: a list of the commits]")
@click.option("--base", metavar="BRANCH", help="Branch to merge into.  [default: that of the repository]")
@click.option("--remote", metavar="REMOTE", help="Remote to push to.  [default: origin, or the only one]")
@click.option(
    "--repo",
    metavar="OWNER/NAME",
    help="Repository that gets the pull request.  [default: that of the remote]",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be pushed and opened.")
@click.option(
    "--watch", "is_watch", is_flag=True, help="Follow its checks and reviews until it is merged or closed."
)
@json_option
def command(session: str, dry_run: bool, is_watch: bool, call: Call, **given: Any) -> int:
    from sm.capabilities.worktrees.publishing import plan_publication
    from sm.capabilities.worktrees.work import work_of

    if is_watch and dry_run:
        raise UsageError("--watch and --dry-run cannot be used together")
    wish = _Wish(given["title"], given["body"], given["base"], given["draft"], given["repo"])
    if is_watch and (recorded := _recorded(call, session)) is not None:
        _watch(call, recorded)
        return 0
    work = work_of(call.client, session, call.seen)
    plan = plan_publication(work, given["remote"])
    new, github, known = _found_pull_request(call, plan, _new_pull_request(plan, wish), wish)
    if dry_run:
        _show_trial(call, plan, new, known)
        return 0
    opened = known or _publish_and_open(plan, new, github)
    if known is not None:
        _push(plan)
    recorded = _record(call, plan, opened)
    if recorded is not None and is_watch:
        if not call.as_json:
            _show(call, plan, new, opened, is_new=known is None)
        _watch(call, recorded)
        return 0
    _show(call, plan, new, opened, is_new=known is None)
    return 0


@dataclass(frozen=True, slots=True)
class _Wish:
    """The options of a pull request, each with None for its default."""

    title: str | None
    body: str | None
    base: str | None
    draft: bool
    repository: str | None

    def __post_init__(self) -> None:
        from sm.capabilities.pull_requests.rules import TITLE_MAX
        from sm.core.text import validate_text

        if (
            self.title is not None
            and not validate_text(self.title, "title", TITLE_MAX, one_line=True).strip()
        ):
            raise UsageError("the title is empty")


def _new_pull_request(plan: "Publication", wish: _Wish) -> "NewPullRequest":
    """The pull request to open. Raises UsageError, and ExternalError with the commands to type."""
    from sm.capabilities.pull_requests.rules import (
        BODY_MAX,
        NewPullRequest,
        default_body,
        default_title,
        hosted_repository,
        named_repository,
    )
    from sm.capabilities.worktrees.rules import is_branch
    from sm.core.text import validate_text

    if wish.base is not None and not is_branch(wish.base):
        raise UsageError(f"invalid branch name {line(wish.base, 80)!r}")
    pushed = hosted_repository(plan.remote.url) or hosted_repository(plan.remote.used)
    if pushed is None:
        raise ExternalError(
            f"the remote {line(plan.remote.name)} is no repository of GitHub: {plan.remote.shown}",
            f"push the branch and open the pull request there: {plan.command}",
        )
    repository = pushed if wish.repository is None else named_repository(wish.repository, pushed.host)
    if repository is None:
        raise UsageError(f"{line(wish.repository or '', 80)!r} is no repository of {pushed.host}: OWNER/NAME")
    subjects = [commit.subject for commit in plan.commits]
    if wish.body is None:
        body = default_body(subjects, plan.commits[0].body)
    else:
        given = read_text("body", BODY_MAX) if wish.body == "-" else wish.body
        body = validate_text(given, "body", BODY_MAX)
    title = wish.title or default_title(subjects, plan.branch)
    fork = None if repository.is_same(pushed) else pushed
    return NewPullRequest(repository, plan.branch, title, body, wish.base, wish.draft, fork)


def _found_pull_request(
    call: Call, plan: "Publication", new: "NewPullRequest", wish: _Wish
) -> tuple["NewPullRequest", "GitHub", "OpenedPullRequest | None"]:
    """Find the open pull request of the branch, by gh, which is logged in.

    Raises ExternalError with the commands to type, and UsageError for a fork without --repo.
    """
    from sm.capabilities.pull_requests.github import GitHub, GitHubUnavailable, find_program
    from sm.capabilities.worktrees.work import refuse_sandboxed

    try:
        program = find_program(plan.work.top)
        refuse_sandboxed(plan.work.client, plan.work.session, {program})
        github = GitHub(program, new.repository)
        known = github.find(plan.branch, new.head_owner)
        parent = github.parent() if known is None and wish.repository is None else None
    except GitHubUnavailable as error:
        raise ExternalError(
            f"{error.message}: nothing was pushed or opened",
            f"{error.hint or 'install gh'}; or: {plan.command} && {new.command()}",
        ) from None
    if parent is not None:
        if (elsewhere := _found_elsewhere(call, plan, new, program)) is not None:
            return elsewhere
        own, name = new.repository.place, name_to_type(plan.work.session)
        raise UsageError(
            f"{own} is a fork of {parent.place}: which of them gets the pull request?",
            f"sm pr {name} --repo {parent.place}; or: sm pr {name} --repo {own}",
        )
    return new, github, known


def _found_elsewhere(
    call: Call, plan: "Publication", new: "NewPullRequest", program: str
) -> tuple["NewPullRequest", "GitHub", "OpenedPullRequest"] | None:
    """Find the pull request of a branch in a fork that an earlier command has opened in another repository."""
    from sm.capabilities.pull_requests.github import GitHub
    from sm.capabilities.pull_requests.rules import repository_of_page

    recorded = _recorded(call, plan.work.session["session_id"])
    target = None if recorded is None else repository_of_page(recorded["url"])
    if target is None or target.host != new.repository.host:
        return None
    github = GitHub(program, target)
    known = github.find(plan.branch, new.repository.owner)
    return None if known is None else (replace(new, repository=target, fork=new.repository), github, known)


def _publish_and_open(plan: "Publication", new: "NewPullRequest", github: "GitHub") -> "OpenedPullRequest":
    _push(plan)
    return github.create(new)


def _push(plan: "Publication") -> None:
    from sm.capabilities.worktrees.publishing import publish

    publish(plan)
    status = plan.work.session["status"]
    if status not in ENDED and status != Status.IDLE:
        name = label(plan.work.session)
        print_warnings([f"{name} still works ({line(status)}): repeat the command for its later commits"])


def _record(call: Call, plan: "Publication", opened: "OpenedPullRequest") -> JsonObject | None:
    """Make it an event of the session. A failure is a warning: the pull request is open."""
    body = {"url": opened.url, "number": opened.number, "branch": plan.branch}
    try:
        recorded: JsonObject = call.client.post(
            session_path(plan.work.session["session_id"], "/pull-requests"), body
        )
    except SmError as error:
        print_warnings([f"the pull request is not recorded for the session: {error.message}"])
        return None
    return recorded


def _recorded(call: Call, session: str) -> JsonObject | None:
    """The newest open pull request that the session has."""
    found: list[JsonObject] = call.client.get(session_path(session, "/pull-requests"))
    return next((each for each in reversed(found) if each["state"] == "open"), None)


def _watch(call: Call, recorded: JsonObject) -> None:
    """Follow a recorded pull request to its end. Raises ExternalError, and DaemonUnavailable after `sm daemon stop`."""
    from sm.capabilities.pull_requests.github import GitHub, find_program
    from sm.capabilities.pull_requests.rules import repository_of_page
    from sm.capabilities.pull_requests.watching import WatchedPullRequest, watch
    from sm.capabilities.worktrees.work import refuse_sandboxed

    client, url = call.client, recorded["url"]
    session: JsonObject = client.get(session_path(recorded["session_id"]))
    repository = repository_of_page(url)
    if repository is None:
        raise ExternalError(f"the pull request is not of GitHub: {line(url, 1000)}")
    tree = session["worktree"]
    program = find_program(tree["path"] if tree else None)
    refuse_sandboxed(client, session, {program})
    github = GitHub(program, repository)
    if not call.as_json:
        print_lines([f"Following pull request {recorded['number']} of {label(session)}: {line(url, 1000)}"])
    watched = WatchedPullRequest(client, github, session["session_id"], url, recorded["number"])

    def tell(text: str) -> None:
        if not call.as_json:
            print_lines([text])

    watch(watched, tell, time.sleep)
    if call.as_json:
        found: list[JsonObject] = client.get(watched.path)
        print_json(encode(next(each for each in found if each["url"] == url)))


def _show(
    call: Call, plan: "Publication", new: "NewPullRequest", opened: "OpenedPullRequest", *, is_new: bool
) -> None:
    pushed = plan.has_news
    if call.as_json:
        print_json(encode({**_document(plan, new), "pushed": pushed, "opened": is_new, **_names(opened)}))
        return
    to = f"{line(plan.branch)} to {line(plan.remote.name)}"
    words = [f"Pushed {to}: {plural(plan.count(), 'commit')}"] if pushed else [f"Nothing to push: {to}"]
    print_lines([*words, _opened_line(opened) if is_new else _known_line(opened)])


def _opened_line(opened: "OpenedPullRequest") -> str:
    return f"Opened pull request {opened.number}: {line(opened.url, 1000)}"


def _known_line(known: "OpenedPullRequest") -> str:
    return f"Pull request {known.number} is already open: {line(known.url, 1000)}"


def _show_trial(
    call: Call, plan: "Publication", new: "NewPullRequest", known: "OpenedPullRequest | None"
) -> None:
    """Say what would happen, and with which commands."""
    commands = [plan.command] if plan.has_news else []
    commands += [new.command()] if known is None else []
    if call.as_json:
        named = _names(known) if known is not None else {"url": None, "number": None}
        print_json(
            encode({**_document(plan, new), "pushed": False, "opened": False, **named, "commands": commands})
        )
        return
    to = f"{line(plan.branch)} to {line(plan.remote.name)} ({plan.remote.shown})"
    lines = [
        f"Can push {to}: {plural(plan.count(), 'commit')}" if plan.has_news else f"Nothing to push: {to}"
    ]
    if known is not None:
        lines.append(_known_line(known))
    else:
        lines.append(f"Can open a pull request in {new.repository}: {line(new.title, 300)}")
    print_lines([*lines, *(f"  {line(each, 10_000)}" for each in commands)])


def _document(plan: "Publication", new: "NewPullRequest") -> JsonObject:
    return {
        "session_id": plan.work.session["session_id"],
        "branch": plan.branch,
        "remote": plan.remote.name,
        "repository": str(new.repository),
        "commits": len(plan.commits),
        "title": new.title,
        "draft": new.draft,
    }


def _names(opened: "OpenedPullRequest") -> JsonObject:
    return {"url": opened.url, "number": opened.number}

"""Plans a worktree: its place, its branch, and the commit that it begins with. Changes nothing."""

import os
import shlex
from collections.abc import Callable, Iterable

from sm.capabilities.worktrees.git.calls import git, prepared, repository_around
from sm.capabilities.worktrees.git.own_directory import settings_of
from sm.capabilities.worktrees.git.remotes import PULL_REQUESTS, local_place, remote_urls
from sm.capabilities.worktrees.model import Fetched, PlannedTree, TreeWish
from sm.capabilities.worktrees.rules import (
    ANOTHER_BRANCH,
    ANOTHER_NAME,
    branch_name,
    is_branch,
    is_name,
    outer_repository,
    placed,
)
from sm.core.text import folded
from sm.errors import ExternalError, UsageError
from sm.linux.repositories import Repository, checkouts, has_commit
from sm.operations.hints import Argument, Hint, Use
from sm.operations.session_operations import SPAWN
from sm.paths import is_within

_UPSTREAM = "upstream"
Allow = Callable[[Iterable[str], str], None]
"""Returns if no sandboxed session could have written what git uses at these paths. Gets the directory of them too."""


def plan_tree(
    directory: str, name: str | None, wish: TreeWish, place: str, branch_pattern: str, allow: Allow
) -> PlannedTree:
    """Plan a worktree of the repository around `directory`. `place`, `branch_pattern`: of the configuration.

    Raises UsageError for what cannot be made; NotPermitted; IllegalState for a repository that needs programs which its
    own configuration names.
    """
    _check(wish)
    repository = _repository(directory)
    main = _main_directory(repository)
    name = tree_name(name, wish)
    path = tree_path(main, place, name)
    fetched, follows = _fetched(repository, wish)
    allow({path, main, repository.common, repository.top or main, *remote_places(repository, fetched)}, main)
    with prepared(repository.top or repository.common, ("checkout",)):
        pass  # it raises the reason for which git will not fill the worktree
    branch, is_new = _branch(repository, wish, fetched, branch_name(branch_pattern, main, name))
    if not is_new and (wish.base is not None or fetched is not None):
        raise UsageError(
            f"branch {folded(branch, 200)} exists already, so it has no other base",
            Hint("omit the base to continue the branch, or choose another one: ", Argument("branch", "NAME")),
        )
    start = "" if fetched is not None else _start(repository, branch if not is_new else None, wish.base)
    return PlannedTree(
        path,
        branch,
        _inside(path, repository, directory),
        main,
        repository.common,
        repository.top or repository.common,
        start,
        is_new,
        fetched,
        follows,
    )


def new_name() -> str:
    """A name for a worktree whose session has none."""
    return os.urandom(4).hex()


def _check(wish: TreeWish) -> None:
    given = [
        what
        for what, value in (
            ("a base", wish.base),
            ("a pull request", wish.pull_request),
            ("a branch of a remote", wish.remote_branch),
        )
        if value is not None
    ]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} cannot be used together")
    if wish.remote is not None and wish.pull_request is None and wish.remote_branch is None:
        raise UsageError("a remote is only for a pull request or a branch of a remote")
    if wish.branch is not None and not is_branch(wish.branch):
        raise UsageError(f"invalid branch name {folded(wish.branch, 80)!r}")
    if wish.remote_branch is not None and not is_branch(wish.remote_branch):
        raise UsageError(f"invalid branch name {folded(wish.remote_branch, 80)!r}")


def _repository(directory: str) -> Repository:
    try:
        found = repository_around(directory)
    except ExternalError as error:
        raise UsageError(
            f"{folded(directory, 200)} is not in a git repository: {error.message}",
            Hint("for a copy of the directory: ", Use(SPAWN, "AGENT_TYPE", "--copy")),
        ) from None
    if found.top is None and os.path.realpath(directory) not in (found.common, os.path.dirname(found.common)):
        raise UsageError(f"{folded(directory, 200)} is not in a git worktree")
    if found.top is not None:
        inside = os.path.relpath(os.path.realpath(directory), found.top).split("/")
        if ".git" in inside or ".." in inside:
            raise UsageError(
                f"{folded(directory, 200)} is a git directory, without the files of a worktree",
                Hint(
                    "start in the repository: ", Argument("working_dir", shlex.quote(folded(found.top, 4096)))
                ),
            )
    return found


def _main_directory(repository: Repository) -> str:
    if os.path.basename(repository.common) == ".git" or repository.top is None:
        return os.path.dirname(repository.common)
    if repository.is_linked and settings_of(repository).bare:
        return os.path.dirname(repository.common)
    if not repository.is_linked:
        return repository.top
    return outer_repository(repository.top)


def tree_name(name: str | None, wish: TreeWish) -> str:
    """The name of a worktree. Raises UsageError for one that cannot be that of a branch."""
    if name is None:
        return new_name() if wish.pull_request is None else f"pr-{wish.pull_request}-{os.urandom(2).hex()}"
    if not is_name(name):
        raise UsageError(
            f"invalid name of a worktree {folded(name, 80)!r}",
            "use letters a-z, digits, dot, dash and underscore",
        )
    return name


def tree_path(main: str, place: str, name: str) -> str:
    """The place of a new worktree of the directory `main`, where nothing is. Raises UsageError."""
    path = placed(main, place, name)
    if os.path.lexists(path):
        raise UsageError(f"worktree {path} already exists", ANOTHER_NAME)
    if is_within(path, main):
        if os.path.realpath(path) != path:
            raise UsageError(
                f"cannot create worktree {name}: the path {os.path.dirname(path)} contains a link"
            )
        if ".git" in path[len(main) :].split("/"):
            raise UsageError(f"cannot create worktree {name} in a git directory: {path}")
    else:
        path = os.path.realpath(path)
    _refuse_place(path, name)
    return path


def _refuse_place(path: str, name: str) -> None:
    """Raise UsageError for a place where no directory can be made."""
    above = os.path.dirname(path)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise UsageError(
            f"cannot create worktree {name}: {folded(above, 4096)} is not a directory",
            "worktrees.dir in config.yaml says where worktrees are",
        )
    if not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(
            f"cannot create worktree {name}: you may not write to {folded(above, 4096)}",
            "worktrees.dir in config.yaml says where worktrees are",
        )


def _inside(path: str, repository: Repository, directory: str) -> str:
    """The directory of the new worktree that corresponds to `directory`."""
    if repository.top is None:
        return path
    return os.path.normpath(os.path.join(path, os.path.relpath(os.path.realpath(directory), repository.top)))


def _start(repository: Repository, branch: str | None, base: str | None) -> str:
    """The commit of a branch that exists, or of the base. Empty if nothing has a commit yet. Raises UsageError."""
    top = repository.top or repository.common
    if branch is None and base is None and not has_commit(repository):
        return ""
    named = f"refs/heads/{branch}" if branch is not None else "HEAD" if base is None else base
    if (not base and base is not None) or named.startswith("-"):
        raise UsageError(f"invalid base {folded(base or named, 80)!r}", "name a commit, a tag or a branch")
    try:
        found = git(top, "rev-parse", "--verify", "--end-of-options", named)
        return git(top, "rev-parse", "--verify", "--end-of-options", f"{found}^{{commit}}")
    except ExternalError:
        raise UsageError(
            f"there is no commit {folded(named, 80)!r} in {folded(top, 4096)}",
            f"git -C {shlex.quote(folded(top, 4096))} branch --all",
        ) from None


def _branch(
    repository: Repository, wish: TreeWish, fetched: Fetched | None, configured: str
) -> tuple[str, bool]:
    """The branch of the worktree, and True if it is new. Raises UsageError for one that cannot be used."""
    branch = wish.branch or configured
    if wish.branch is None and fetched is not None and wish.remote_branch is not None:
        branch = _short(wish.remote_branch, fetched.remote)
    for place in checkouts(repository, is_bare=settings_of(repository).bare):
        if place.branch == branch:
            raise UsageError(
                f"branch {folded(branch, 200)} is checked out in {folded(place.top, 4096)}",
                ANOTHER_BRANCH,
            )
    if not _exists(repository, f"refs/heads/{branch}"):
        if wish.branch is not None and wish.base is None and fetched is None:
            _refuse_remote_branch(repository, branch)
        return branch, True
    if wish.branch is not None and fetched is None:
        return branch, False
    if wish.branch is None and fetched is None:
        raise UsageError(
            f"branch {branch} already exists",
            Hint(
                "use it: ", Argument("branch", branch), "; or choose another name: ", Argument("name", "NAME")
            ),
        )
    raise UsageError(
        f"branch {folded(branch, 200)} already exists",
        Hint(
            "use it as it is: ",
            Argument("branch", shlex.quote(branch)),
            "; or choose another name for the new one: ",
            Argument("branch", "NAME"),
        ),
    )


def _refuse_remote_branch(repository: Repository, branch: str) -> None:
    """Raise UsageError for a branch that only a remote has: a person means that one, and no new one of its name."""
    names = (f"refs/remotes/{remote}/{branch}" for remote in remote_urls(repository))
    for name in names:
        if _exists(repository, name):
            shown = name.removeprefix("refs/remotes/")
            raise UsageError(
                f"branch {folded(branch, 200)} is only in a remote repository: {folded(shown, 200)}",
                Hint(
                    f"to follow it: --remote-branch {shlex.quote(shown)}; for a new one: ",
                    Argument("base", "HEAD"),
                ),
            )


def _exists(repository: Repository, ref: str) -> bool:
    top = repository.top or repository.common
    return git(top, "for-each-ref", "--format=%(refname)", ref) == ref


# Remotes


def _fetched(repository: Repository, wish: TreeWish) -> tuple[Fetched | None, tuple[str, str] | None]:
    """The ref that is fetched from a remote, and the branch of the remote that the new branch follows."""
    if wish.pull_request is None and wish.remote_branch is None:
        return None, None
    remotes = remote_urls(repository)
    if not remotes:
        what = (
            f"pull request {wish.pull_request}" if wish.pull_request is not None else "a branch of a remote"
        )
        raise UsageError(f"there is no remote to fetch {what} from", "git remote add origin URL")
    if wish.remote is not None and wish.remote not in remotes:
        raise UsageError(
            f"there is no remote {folded(wish.remote, 80)!r}, only {_names(remotes)}", "git remote --verbose"
        )
    if wish.remote_branch is not None:
        named = (r for r in remotes if wish.remote_branch.startswith(f"{r}/"))
        remote = wish.remote or next(named, None) or _only(remotes)
        branch = _short(wish.remote_branch, remote)
        kept, what = f"refs/remotes/{remote}/{branch}", f"branch {branch}"
        return Fetched(remote, (f"refs/heads/{branch}",), kept, what), (remote, branch)
    number, remote = wish.pull_request, wish.remote or _with_pull_requests(remotes, wish.pull_request)
    # GitHub's name, then GitLab's.
    refs = (f"refs/pull/{number}/head", f"refs/merge-requests/{number}/head")
    # Two remotes have different ones with the same number.
    kept = f"{PULL_REQUESTS}/{number}" if wish.remote is None else f"{PULL_REQUESTS}/{number}-{remote}"
    return Fetched(remote, refs, kept, f"pull request {number}"), None


def remote_places(repository: Repository, fetched: Fetched | None) -> tuple[str, ...]:
    """The directory of the remote that is fetched from, if it is on this machine. Raises ExternalError."""
    url = None if fetched is None else remote_urls(repository).get(fetched.remote)
    place = None if url is None else local_place(url)
    return () if place is None else (place,)


def _short(branch: str, remote: str) -> str:
    return branch.removeprefix(f"{remote}/")


def _only(remotes: Iterable[str]) -> str:
    names = list(remotes)
    if "origin" in names or len(names) == 1:
        return "origin" if "origin" in names else names[0]
    raise UsageError(f"which remote? There are {_names(remotes)}", "--remote-branch REMOTE/BRANCH")


def _with_pull_requests(remotes: Iterable[str], number: int | None) -> str:
    """The remote whose pull requests are meant. Raises UsageError if that is not clear.

    `origin` may be a fork with pull requests of its own, if there is a remote `upstream`.
    """
    names = list(remotes)
    if len(names) == 1 or ("origin" in names and _UPSTREAM not in names):
        return "origin" if "origin" in names else names[0]
    likely = _UPSTREAM if _UPSTREAM in names else names[0]
    raise UsageError(
        f"which remote has pull request {number}? There are {_names(names)}",
        Hint("name it: ", Argument("remote", shlex.quote(folded(likely, 80)))),
    )


def _names(remotes: Iterable[str]) -> str:
    return ", ".join(folded(name, 80) for name in list(remotes)[:5])

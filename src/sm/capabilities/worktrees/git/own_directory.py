"""Makes a git directory with a configuration of sm's own, through which git sees the branches of a repository.

git takes it as the directory that all worktrees share (GIT_COMMON_DIR). There it reads its configuration, hooks and
attributes. Objects, branches and logs are links to those of the repository, so git's locks and changes are real.
"""

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress

from sm.capabilities.worktrees.git.git_config import GitSetting, parse_git_config, write_git_config
from sm.capabilities.worktrees.git.git_settings import GitSettings, choose_git_settings
from sm.capabilities.worktrees.git.scratch import GIT_DIRECTORY, scratch_directory
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState
from sm.linux.files import read_file
from sm.linux.repositories import Repository, UnreadableRepository

_LINKS = ("HEAD", "objects", "refs", "packed-refs", "logs", "worktrees", "reftable", "lfs")
_COPIES = ("info/attributes", "info/exclude", "shallow")
_COPY_MAX = 4 << 20
_MERGES = frozenset({"merge", "merge-tree", "rebase"})
"""Commands of git that merge files, by drivers."""
_CONVERTS = _MERGES | {"add", "checkout", "commit", "diff", "reset", "status", "update-index", "worktree"}
"""Commands of git that convert files by filters."""


@contextmanager
def own_git_directory(
    repository: Repository, command: str, user_keys: Callable[[str], Collection[str]]
) -> Iterator[str]:
    """Make the directory for one command of git, and remove it afterwards.

    `user_keys`: the keys of the user's own configuration, by the directory. Raises IllegalState, before git runs, for a
    repository that needs settings which git does not get; ExternalError.
    """
    with ExitStack() as stack:
        try:
            directory = stack.enter_context(scratch_directory(GIT_DIRECTORY))
            _fill(directory, repository, command)
            settings = settings_of(repository)
            _write(directory, settings, repository)
        except OSError as error:
            raise ExternalError(f"cannot make a directory for git: {error.strerror}") from None
        if settings.filters or settings.drivers:
            settings = settings_of(repository, user_keys(directory))
        _refuse(repository, settings, command)
        yield directory


def _fill(directory: str, repository: Repository, command: str) -> None:
    os.mkdir(f"{directory}/info")
    if command == "worktree":
        for name in ("logs", "worktrees"):
            with suppress(OSError):
                os.mkdir(f"{repository.common}/{name}")
    for name in _LINKS:
        target = os.path.realpath(f"{repository.common}/{name}")
        # git makes packed-refs behind the link, and nothing else.
        if name == "packed-refs" or os.path.exists(target):
            os.symlink(target, f"{directory}/{name}")
    for name in _COPIES:
        try:
            content = read_file(f"{repository.common}/{name}", _COPY_MAX, follow=True)
        except OSError:
            continue
        if content.cut:
            raise ExternalError(f"{repository.common}/{name} has more than {_COPY_MAX} bytes")
        with open(f"{directory}/{name}", "wb") as file:
            file.write(content.data)


def settings_of(repository: Repository, own: Collection[str] = ()) -> GitSettings:
    """As `choose_git_settings`. Raises ExternalError."""
    try:
        shared = parse_git_config(repository.config())
        of_worktree = parse_git_config(repository.worktree_config())
    except UnreadableRepository as error:
        raise ExternalError(f"git does not run there: {error}") from None
    except ValueError as error:
        raise ExternalError(f"the configuration of {repository.common} cannot be read: {error}") from None
    return choose_git_settings(shared, of_worktree, own)


def _write(directory: str, settings: GitSettings, repository: Repository) -> None:
    extended = any(setting.section == "extensions" for setting in settings.kept)
    lines = [
        GitSetting("core", "", "repositoryformatversion", "1" if extended else "0"),
        GitSetting("core", "", "bare", "true" if repository.top is None else "false"),
        GitSetting("core", "", "logallrefupdates", "true"),
        *settings.kept,
    ]
    with open(f"{directory}/config", "wb") as file:
        file.write(write_git_config(lines))


def _refuse(repository: Repository, settings: GitSettings, command: str) -> None:
    """Raise IllegalState if git's answer would be wrong without a setting of the repository."""
    where = folded(repository.top or repository.common, 4096)
    if settings.unknown:
        raise IllegalState(
            f"git does not run in {where}: its format is unknown to sm: {_named(settings.unknown)}"
        )
    if settings.worktree is not None and repository.top is not None and not repository.is_linked:
        named = os.path.realpath(os.path.join(repository.own, settings.worktree))
        if named != repository.top:
            raise IllegalState(
                f"git does not run in {where}: its configuration names another directory: {folded(named, 4096)}"
            )
    programs = settings.filters if command in _CONVERTS else ()
    programs += settings.drivers if command in _MERGES else ()
    if programs:
        raise IllegalState(
            f"git does not run in {where}: its configuration names programs to run: {_named(programs)}",
            f"look at them in {folded(repository.common, 4096)}/config; those that you trust belong in your own "
            "configuration: git config --global --edit",
        )


def _named(keys: tuple[str, ...]) -> str:
    return ", ".join(folded(key, 80) for key in keys[:5]) + (" and more" if len(keys) > 5 else "")

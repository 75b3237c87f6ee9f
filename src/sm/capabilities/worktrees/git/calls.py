"""Runs git for commands.

Git runs here, as the caller, and never in the daemon. It never reads the configuration of a repository, which could
name programs for git to run: it gets the one of `own_git_directory`. It enters no submodule. Where a sandboxed session
could ever write something that git uses, it does not run at all: `is_sandboxed`.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import BinaryIO

from sm.capabilities.worktrees.git.own_directory import own_git_directory
from sm.capabilities.worktrees.git.scratch import GIT_DIRECTORY
from sm.client.http import Client
from sm.core.text import folded
from sm.errors import ExternalError, NotFound
from sm.linux.repositories import (
    Repository,
    UnreadableRepository,
    find_repository,
    places_of,
)

_TIMEOUT_S = 120.0
_INDEX_BYTES_PER_S = 100_000
"""About 1,000 files: git may have to read every one of them."""
_SETTINGS = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.sshCommand=false", "core.askPass=false",
    "core.editor=:", "sequence.editor=:", "credential.helper=", "protocol.allow=never",
    "core.alternateRefsCommand=false", "safe.bareRepository=explicit",
    "submodule.recurse=false", "diff.ignoreSubmodules=dirty", "diff.submodule=short",
    "status.submoduleSummary=false", "worktree.useRelativePaths=false",
    # It would leave its results in a directory that is removed, or change what is not its business.
    "gc.auto=0", "maintenance.auto=false", "rerere.enabled=false",
    # What a person likes of a rebase must not move other branches, or stash.
    "rebase.updateRefs=false", "rebase.autoStash=false", "rebase.autoSquash=false",
    "core.quotePath=false",  # names as they are; git still quotes control characters
    "log.showSignature=false",  # in an output that sm reads
    "status.showUntrackedFiles=normal",  # `worktree remove` goes by what status shows
)  # fmt: skip
"""Beside the configuration of `own_git_directory`, also against that of the user: git runs nothing by itself."""
_FORCED = {
    "diff": ("--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--submodule=short"),
    "status": ("--ignore-submodules=dirty",),
}
"""Options of commands. A file `.gitmodules` could set `--ignore-submodules` otherwise, and git would enter one."""
_VARIABLES = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_EDITOR": ":",
    "GIT_SEQUENCE_EDITOR": ":",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "never",
}
_OF_A_REPOSITORY = frozenset(
    f"GIT_{name}"
    for name in (
        "ALTERNATE_OBJECT_DIRECTORIES", "COMMON_DIR", "DIR", "GRAFT_FILE", "IMPLICIT_WORK_TREE", "INDEX_FILE",
        "NAMESPACE", "OBJECT_DIRECTORY", "PREFIX", "QUARANTINE_PATH", "SHALLOW_FILE", "WORK_TREE",
    )
)  # fmt: skip
"""Set by git for its hooks, and an alias (`git rev-parse --local-env-vars`)."""
_NETWORK = (
    "protocol.https.allow=always", "protocol.http.allow=always", "protocol.ssh.allow=always",
    "protocol.file.allow=always",
)  # fmt: skip
"""For a command that reads a remote."""
_NOT_FOR_NETWORK = ("credential.helper=", "core.sshCommand=false")
"""A remote is read with the credentials and the ssh of the user's own configuration. No terminal is there to ask."""
_OPERATION_FILES = (
    "rebase-merge", "rebase-apply", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "sequencer", "BISECT_LOG",
)  # fmt: skip
"""Files in a worktree's git directory during an unfinished operation (git's path.c, wt-status.c)."""

_TELLS_NOTHING = frozenset(
    {
        "the remote end hung up unexpectedly", "Could not read from remote repository.", "early EOF",
        "Could not write client identification", "packet write with format failed",
    }
)  # fmt: skip
"""Errors of git that follow one of another program, which says why."""
_FILTER_FAILED = re.compile(r"(clean|smudge) filter \S+ failed$")

_limit: ContextVar[tuple[float, float] | None] = ContextVar("_limit", default=None)
"""The limit of `time_limit` in seconds, and the time of the monotonic clock at which it is over."""


@contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    """Limit the time of all calls of `git` inside the block together."""
    token = _limit.set((limit_s, time.monotonic() + limit_s))
    try:
        yield
    finally:
        _limit.reset(token)


def git(
    directory: str,
    *arguments: str,
    variables: Mapping[str, str] | None = None,
    text: bytes = b"",
    file: BinaryIO | None = None,
) -> str:
    """Run git with `text`, or with a file, on its stdin and return its output.

    Raises ExternalError with git's own message, and as `prepared`.
    """
    return _done(directory, arguments, variables or {}, text, file).stdout.decode("utf-8", "replace").strip()


def git_text(directory: str, *arguments: str, variables: Mapping[str, str] | None = None) -> str:
    """Run git as `git` does, and return its output with the blanks around it."""
    return _done(directory, arguments, variables or {}, b"").stdout.decode("utf-8", "replace")


def git_bytes(
    directory: str, *arguments: str, variables: Mapping[str, str] | None = None, text: bytes = b""
) -> bytes:
    """Run git with `text` on its stdin, and return its output as it is."""
    return _done(directory, arguments, variables or {}, text).stdout


def git_paths(
    directory: str,
    *arguments: str,
    variables: Mapping[str, str] | None = None,
    text: bytes = b"",
    beginning: bytes = b"",
) -> list[str]:
    """Run git with `text` on its stdin, and return the names of files in its output, which end with NUL each.

    `beginning`: returns only those that begin with it, which is faster than to choose among all.
    """
    words = _done(directory, arguments, variables or {}, text).stdout.split(b"\0")
    return [os.fsdecode(word) for word in words if word and word.startswith(beginning)]


def git_answer(directory: str, *arguments: str) -> tuple[int, list[str]]:
    """Run a command of git that answers by its exit code too. Returns the code, and the words that end with NUL each.

    Raises ExternalError with git's own message for a code above 1, and as `prepared`.
    """
    done = _done(directory, arguments, {}, b"", most=1)
    return done.returncode, [os.fsdecode(word) for word in done.stdout.split(b"\0") if word]


def _done(
    directory: str,
    arguments: Sequence[str],
    variables: Mapping[str, str],
    text: bytes,
    file: BinaryIO | None = None,
    most: int = 0,
) -> "subprocess.CompletedProcess[bytes]":
    """Run git. `most`: the highest exit code that is no failure."""
    done = _run(directory, arguments, variables, text, file)
    if done.returncode < 0:
        raise killed(arguments, done.returncode)
    if done.returncode > most:
        raise ExternalError(reason_of(done.stderr, done.returncode))
    return done


def _run(
    directory: str,
    arguments: Sequence[str],
    variables: Mapping[str, str],
    text: bytes,
    file: BinaryIO | None = None,
) -> "subprocess.CompletedProcess[bytes]":
    with prepared(directory, arguments) as (argv, environment):
        own_s = _TIMEOUT_S + _index_size(environment) // _INDEX_BYTES_PER_S
        limit_s, end = _limit.get() or (own_s, time.monotonic() + own_s)
        try:
            return subprocess.run(
                argv,
                env={**environment, **variables},
                input=text if file is None else None,
                stdin=file,
                capture_output=True,
                timeout=max(0.0, end - time.monotonic()),
                check=False,
            )
        except FileNotFoundError:
            raise ExternalError("git is not installed", "sudo apt-get install git") from None
        except subprocess.TimeoutExpired:
            raise ExternalError(f"git {_command_of(arguments)} did not finish within {limit_s:g} s") from None


def _index_size(variables: Mapping[str, str]) -> int:
    """The bytes of the index that git reads, which grow with the number of files."""
    try:
        return os.stat(f"{variables.get('GIT_DIR', '')}/index").st_size
    except OSError:
        return 0


def killed(arguments: Sequence[str], code: int) -> ExternalError:
    """The error for a command of git that a signal has ended. `code`: as of `subprocess`, negative."""
    return ExternalError(f"git {_command_of(arguments)} was killed by {signal_name(-code)}")


def signal_name(number: int) -> str:
    try:
        return f"the signal {signal.Signals(number).name}"
    except ValueError:  # one of the real-time signals
        return f"signal {number}"


def reason_of(said: bytes, code: int) -> str:
    """Git's own reason for a failure in what it said: the line that tells most, and the files that it is about."""
    lines = [line for line in re.split("[\r\n]+", said.decode("utf-8", "replace").strip()) if line]
    errors = [at for at, line in enumerate(lines) if line.startswith(("fatal: ", "error: "))]
    telling = [at for at in errors if _shortened(lines[at]) not in _TELLS_NOTHING]
    filters = [at for at in errors if _FILTER_FAILED.search(lines[at])]
    if filters:  # the last line names the file, and an earlier one what is missing
        why = [_shortened(lines[filters[-1]])]
        why += [f"({line})" for line in lines[: filters[-1]] if line.endswith(": not found")][:1]
        return folded(" ".join(why), 300)
    if not lines:
        return f"git exited with code {code}"
    # A program that git has started, such as ssh, has said more than git then.
    at = telling[0] if telling else max(errors[0] - 1, 0) if errors else len(lines) - 1
    names = []
    for line in lines[at + 1 :]:
        if not line.startswith("\t"):
            break
        names.append(line.strip())
    return folded(f"{_shortened(lines[at])} {', '.join(names)}".strip(), 300)


def _shortened(line: str) -> str:
    return re.sub("^(fatal|error|warning): ", "", line)


@contextmanager
def prepared(
    directory: str, arguments: Sequence[str], *, network: str = ""
) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The command line and the environment for one command of git in the repository around a directory.

    `network`: the protocols by which the command may read a remote, as in `https:ssh`. Raises IllegalState for a
    repository that needs programs of its own configuration; ExternalError.
    """
    command = _command_of(arguments)
    if command == "version":
        yield _command_line("/", arguments), environment()
        return
    repository = repository_around(directory)
    with own_git_directory(repository, command, lambda own: _user_settings(repository, own)[0]) as own:
        in_git_directory = os.path.realpath(directory) in (repository.own, repository.common)
        place = repository.top if in_git_directory and repository.top is not None else directory
        ready = environment() | _directories(repository, own)
        if network:
            ready |= {"GIT_ALLOW_PROTOCOL": network}
        yield _command_line(place, arguments, network=bool(network)), ready


def repository_around(directory: str) -> Repository:
    """The repository around a directory. Raises ExternalError if there is none, or if it cannot be read."""
    try:
        found = find_repository(directory)
    except UnreadableRepository as error:
        raise ExternalError(f"git does not run there: {folded(str(error), 4096)}") from None
    except OSError as error:
        raise ExternalError(f"{folded(directory, 4096)} cannot be read: {error.strerror}") from None
    if found is None:
        raise ExternalError("not a git repository (or any of the parent directories): .git")
    return found


def environment() -> dict[str, str]:
    """The caller's environment without the variables that direct git, as git sets them in a hook."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return mine | _VARIABLES


def environment_of_caller(given: Mapping[str, str]) -> dict[str, str]:
    """The variables of a command of the caller, without those that lead its git to another repository."""
    return {name: value for name, value in given.items() if name not in _OF_A_REPOSITORY}


def common_of(directory: str) -> str:
    """Return the real path of the git directory that all worktrees of a repository share."""
    return repository_around(directory).common


def _command_of(arguments: Sequence[str]) -> str:
    return next(argument for argument in arguments if not argument.startswith("-"))


def _command_line(directory: str, arguments: Sequence[str], *, network: bool = False) -> list[str]:
    at = arguments.index(command := _command_of(arguments))
    # Behind the command, so that they come before `--`; among equals the last one counts.
    options = [a for a in arguments[at + 1 :] if not a.startswith("--ignore-submodules")]
    chosen = (
        *(s for s in _SETTINGS if not (network and s in _NOT_FOR_NETWORK)),
        *(_NETWORK if network else ()),
    )
    settings = [word for setting in chosen for word in ("-c", setting)]
    forced = _FORCED.get(command, ())
    return ["git", *settings, "-C", directory, *arguments[: at + 1], *forced, *options]


def _directories(repository: Repository, own: str) -> dict[str, str]:
    found = {"GIT_DIR": repository.own, "GIT_COMMON_DIR": own}
    return found if repository.top is None else {**found, "GIT_WORK_TREE": repository.top}


def _user_settings(repository: Repository, own: str) -> tuple[list[str], list[str]]:
    """The keys of the user's own and the system's configuration, and the files that they come from."""
    done = subprocess.run(
        ["git", "config", "--list", "--show-origin", "--name-only", "-z"],
        cwd="/",
        env=environment() | _directories(repository, own),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise ExternalError(f"git cannot read its configuration: {folded(os.fsdecode(done.stderr), 300)}")
    words = os.fsdecode(done.stdout).split("\0")
    pairs = [
        (origin.removeprefix("file:"), key)
        for origin, key in zip(words[::2], words[1::2], strict=False)
        if origin.startswith("file:") and origin != f"file:{own}/config"
    ]
    return [key for _, key in pairs], list(dict.fromkeys(os.path.join("/", path) for path, _ in pairs))


def is_in_operation(git_directory: str) -> bool:
    """True during a rebase, merge, cherry-pick, revert or bisect. `git_directory`: that of one worktree."""
    return any(os.path.lexists(os.path.join(git_directory, name)) for name in _OPERATION_FILES)


def is_sandboxed(client: Client, paths: Iterable[str]) -> bool:
    """True when a sandboxed session of any time could have written something that git would use at the paths.

    Raises ExternalError as `places_used`.
    """
    try:
        return bool(client.post("/v1/sandbox/writable", {"paths": list(places_used(paths))})["writable"])
    except NotFound:  # a socket of sandboxed sessions
        return True


def places_used(paths: Iterable[str]) -> Iterable[str]:
    """Every place that git would read or write for a command at these paths.

    Runs no git in a repository. Raises ExternalError for one that cannot be read.
    """
    places = dict.fromkeys(map(os.path.realpath, paths))
    known = set[Repository]()
    for path in list(places):
        try:
            found = find_repository(path) if os.path.isdir(path) else None
            if found is not None and found not in known:
                known.add(found)
                places.update(dict.fromkeys(places_of(found)))
                places.update(dict.fromkeys(_user_files(found)))
        except (UnreadableRepository, OSError) as error:
            raise ExternalError(f"git does not run in {folded(path, 4096)}: {error}") from None
    # The directories that git gets from `own_git_directory` are made here.
    places[os.path.realpath(f"{tempfile.gettempdir()}/{GIT_DIRECTORY}")] = None
    return places


def _user_files(repository: Repository) -> list[str]:
    try:
        with own_git_directory(repository, "config", lambda _: ()) as own:
            return [os.path.realpath(path) for path in _user_settings(repository, own)[1]]
    except FileNotFoundError:
        raise ExternalError("git is not installed", "sudo apt-get install git") from None

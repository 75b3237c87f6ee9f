"""`sm trust`: tell claude, once and for all agents, that a directory may be worked in."""

import json
import os
import re
import stat
import time
from typing import Any

import click

from sm.cli.display.text import line
from sm.cli.instance import Instance
from sm.cli.options import json_option
from sm.errors import ExternalError, IllegalState, InvalidPath, NotPermitted
from sm.providers.claude.home import ClaudeHome, home_of_agents, object_in, trusted_by
from sm.wire import encode

_TRIES = 5
_STANDS_S = 1.0
"""How long an entry must stay while claudes run. One that is about to write its own copy has read it just before:
it undoes what was written in between, and only that (CC 1)."""
_LOOK_EVERY_S = 0.05
_LONE = re.compile("[\ud800-\udfff]")


@click.command()
@click.argument("directory", metavar="DIR")
@json_option
def command(directory: str, as_json: bool) -> None:
    """Answer claude's question whether it may work in a directory.

    An agent in a directory that nobody has trusted waits at that question. The answer is for all below DIR, too, and
    is written where the claudes of agents keep it (.claude.json); nothing else is changed. An agent that waits
    already has to be answered there (sm attach ID) or started again. Only for the operator. The JSON is
    {"directory", "trusted_by", "changed", "file"}.

    \b
    Example:
      sm trust ~/projects
    """
    if os.environ.get("SM_SESSION_ID"):
        raise NotPermitted("only the operator says what may be trusted", "ask for it: sm ask")
    from sm.config import load

    path = _directory(directory)
    home = home_of_agents(load(Instance(os.environ).places.config).config, os.environ)
    covered = _write(home, path)
    running = [] if covered is not None else home.running()
    if running:
        _insist(home, path, running)
    if as_json:
        answer = {
            "directory": path,
            "trusted_by": covered or path,
            "changed": covered is None,
            "file": home.state,
        }
        click.echo(encode(answer))
        return
    file = line(home.state, 4096)
    if covered is None:
        stands = f"; claudes are running ({_pids(running)}), and the entry stands" if running else ""
        click.echo(f"claude trusts {line(path, 4096)} and all below it (written to {file}){stands}")
    else:
        by = "" if covered == path else f", because it trusts {line(covered, 4096)}"
        click.echo(f"claude trusts {line(path, 4096)} already{by} (in {file})")


def _directory(given: str) -> str:
    """The directory as claude names it: absolute, without links."""
    path = os.path.realpath(os.path.expanduser(given))
    if not os.path.isdir(path):
        what = "is not a directory" if os.path.exists(path) else "does not exist"
        raise InvalidPath(f"{line(path, 4096)} {what}")
    return path


def _write(home: ClaudeHome, directory: str) -> str | None:
    """Write it, unless `directory` is covered: then return by which. Raises SmError, with nothing changed."""
    for _ in range(_TRIES):
        # The link stays, if it is one: a person's dotfiles.
        path = os.path.realpath(home.state)
        content, found = _read(path)
        state = object_in(content, path)
        covered = trusted_by(state, directory)
        if covered is not None:
            return covered
        _add(state, directory, path)
        if _replace(path, found, _text(state)):
            return None
    raise ExternalError(f"{path} is being changed all the time", "end the claudes that run, then repeat")


def _insist(home: ClaudeHome, directory: str, running: list[int]) -> None:
    """Return when what was written has stood while claudes run; write it again when one of them undid it.

    Raises IllegalState when it does not last.
    """
    for _ in range(_TRIES):
        if _stands(home, directory):
            return
        _write(home, directory)
    if not _stands(home, directory):
        raise IllegalState(
            f"the claudes that run ({_pids(running)}) undo it in {home.state}",
            "end them first, or answer where claude asks (sm attach ID, or claude in that directory)",
        )


def _stands(home: ClaudeHome, directory: str) -> bool:
    deadline = time.monotonic() + _STANDS_S
    while True:
        path = os.path.realpath(home.state)
        if trusted_by(object_in(_read(path)[0], path), directory) is None:
            return False
        if time.monotonic() >= deadline:
            return True
        time.sleep(_LOOK_EVERY_S)


def _pids(running: list[int]) -> str:
    return f"pid {', '.join(map(str, running[:5]))}"


def _read(path: str) -> tuple[bytes, os.stat_result]:
    try:
        with open(path, "rb") as file:
            return file.read(), os.fstat(file.fileno())
    except FileNotFoundError:
        raise IllegalState(
            f"there is no {path}: claude has never been started here", "start claude once, in a terminal"
        ) from None
    except OSError as error:
        raise ExternalError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None


def _add(state: dict[str, Any], directory: str, path: str) -> None:
    projects = state.setdefault("projects", {})
    entry = projects.setdefault(directory, {}) if isinstance(projects, dict) else None
    if not isinstance(entry, dict):
        raise ExternalError(f"{path} has an unknown form: its `projects` are not those of claude 2.1")
    entry["hasTrustDialogAccepted"] = True


def _text(state: dict[str, Any]) -> bytes:
    """As claude writes it: two blanks, letters as they are, halves of surrogate pairs escaped."""
    text = json.dumps(state, indent=2, ensure_ascii=False)
    return _LONE.sub(lambda half: f"\\u{ord(half.group()):04x}", text).encode()


def _replace(path: str, found: os.stat_result, content: bytes) -> bool:
    """Put `content` in place of the file that was `found`, at once. False when somebody changed it meanwhile."""
    if found.st_uid != os.geteuid():
        raise NotPermitted(f"{path} belongs to user {found.st_uid}", "run sm as its owner")
    new = f"{path}.sm-{os.getpid()}"
    try:
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as file:
                os.fchmod(fd, stat.S_IMODE(found.st_mode))
                file.write(content)
                file.flush()
                os.fsync(fd)
            now = os.stat(path)
            if (now.st_ino, now.st_mtime_ns, now.st_size) != (found.st_ino, found.st_mtime_ns, found.st_size):
                os.unlink(new)
                return False
            os.rename(new, path)
        except BaseException:
            os.unlink(new)
            raise
    except OSError as error:
        raise ExternalError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from None
    return True

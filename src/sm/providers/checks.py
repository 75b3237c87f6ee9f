"""Contracts with agent CLIs: what `sm` relies on, tried with the person's own program (`sm check NAME`)."""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Protocol

from sm.client.http import Client
from sm.config import Config
from sm.core.dataclass import dataclass
from sm.errors import ExternalError, NotFound
from sm.linux import process_groups
from sm.linux.files import replace_private

_VERSION_S = 20.0
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_FORMAT = 1
"""Of a file of outcomes. A file of another format counts as missing."""


@dataclass(frozen=True, slots=True)
class Contract:
    """One thing that `sm` relies on."""

    name: str
    sentence: str
    """For people: true if the contract holds."""
    instead: str
    """For people, as a part of a sentence: what does not work if it is broken, and what to do instead."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of trying one contract."""

    name: str
    sentence: str
    holds: bool
    evidence: str
    """One line for people about the observed behaviour."""
    seconds: float
    instead: str = ""
    """As in `Contract` if the contract is broken, else empty."""


@dataclass(frozen=True, slots=True)
class CheckedProgram:
    """A program as it was when it was looked at."""

    path: str
    """The absolute path, with all links resolved."""
    version: str
    sha256: str
    size: int
    """Bytes."""
    mtime_ns: int
    """The time of its last change."""


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """The outcomes of one check."""

    program: CheckedProgram
    checked_at: str
    """ISO 8601 with a time zone."""
    seconds: float
    outcomes: tuple[Outcome, ...]
    processor_s: float | None = None
    """Processor time of all processes of the check, or None if not measured."""
    memory_bytes: int | None = None
    """The most memory that they used at one time, or None if not measured."""

    @property
    def broken(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if not outcome.holds)


@dataclass(frozen=True, slots=True)
class CheckStage:
    """The private instance on which a check plays."""

    client: Client
    """Reaches the daemon of that instance."""
    directory: str
    """A directory for the files of the agents: their home and their projects."""
    ran: set[str] = field(default_factory=set)
    """Gets the paths of the programs that the agents ran: a script may start another one."""


@dataclass(frozen=True, slots=True)
class ProgramPackage:
    """The package of npm that has the program of a provider."""

    name: str
    command: str
    """The name of the program."""
    script: str
    """The file of the package that node runs after an installation, because npm runs no scripts then."""
    environment: Mapping[str, str]
    """Variables with which the program stays as it is."""


class ProgramCheck(Protocol):
    """The contracts of one provider."""

    contracts: Sequence[Contract]
    package: ProgramPackage
    facts: str
    """The TOML of all that sm knows about the agent CLI. Users may write such a file too."""
    oldest: tuple[int, ...]
    """The oldest version that sm supports."""

    def configuration(self, program: str, own: Config) -> Mapping[str, object]:
        """The document of the configuration for the private instance, without its tmux server.

        `own`: the configuration of the operator, of which the check uses what it knows about the agent CLI.
        """

    def run(self, stage: CheckStage, names: Sequence[str], *, patience: float = 1) -> Iterator[Outcome]:
        """Try the contracts with these names, and yield each outcome when it is known.

        `patience`: the factor of all time limits. A contract that does not hold, or whose agent hangs, is an outcome
        and no error.
        """


def locate(command: str, search_path: str | None) -> str:
    """Return the absolute path of a program, given by its path or by its name on `search_path`, without links.

    Raises NotFound if there is none.
    """
    found = shutil.which(command, path=search_path)
    if found is None:
        raise NotFound(f"there is no program {command} on your PATH", "name it by its path")
    return os.path.realpath(found)


def is_older(version: str, than: tuple[int, ...]) -> bool:
    """Return whether a version such as `2.0.14` is older than another one."""
    return tuple(map(int, version.split("."))) < than


def is_script(path: str) -> bool:
    """Return whether a file is a script with an interpreter, which may start another program."""
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def identify(path: str) -> CheckedProgram:
    """Look at a program. Raises ExternalError as `version_of` does."""
    version = version_of(path)
    try:
        status, digest = os.stat(path), _digest(path)
    except OSError as error:
        raise ExternalError(f"cannot read {path}: {error.strerror}") from None
    return CheckedProgram(path, version, digest, status.st_size, status.st_mtime_ns)


def version_of(path: str) -> str:
    """Ask a program for its version. Raises ExternalError if `--version` fails, hangs, or prints no version."""
    try:
        result = process_groups.run_in_group([path, "--version"], within_s=_VERSION_S)
    except subprocess.TimeoutExpired:
        raise ExternalError(f"{path} --version did not answer within {_VERSION_S:.0f} s") from None
    except OSError as error:
        raise ExternalError(f"cannot run {path}: {error.strerror}") from None
    version = _VERSION.search(result.stdout)
    if version is None:
        said = (result.stderr or result.stdout).strip().splitlines() or ["nothing"]
        raise ExternalError(f"{path} --version prints no version but: {said[-1][:200]}")
    return version[0]


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class CheckRecords:
    """The kept outcomes, one file for each program in a directory of the operator."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def save(self, provider: str, record: CheckRecord) -> None:
        """Replace the outcomes of this program."""
        for directory in (
            os.path.dirname(self._directory),
            self._directory,
        ):  # of the state, which is private
            os.makedirs(directory, 0o700, exist_ok=True)
        content = json.dumps({"format": _FORMAT, **asdict(record)}, indent=1)
        lock = os.open(self._directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two checks of one program may end at the same time
            replace_private(self._path(provider, record.program.sha256), content.encode())
            replace_private(self.stamp, b"")
        finally:
            os.close(lock)

    @property
    def stamp(self) -> str:
        """The path of a file that is replaced whenever outcomes are saved."""
        return f"{self._directory}/saved"

    def find(self, provider: str, path: str, version: str | None = None) -> CheckRecord | None:
        """Find the outcomes of the program that is at this path now. Returns None if it was not checked.

        `version`: what a script says, which has the newest outcomes of the program that it starts. Reads the whole
        program only if its size or its time differ from those of each checked program.
        """
        try:
            status = os.stat(path)
            names = sorted(os.listdir(self._directory))
        except OSError:
            return None
        records = [
            *filter(None, (_read(f"{self._directory}/{n}") for n in names if n.startswith(f"{provider}-")))
        ]
        seen = (path, status.st_size, status.st_mtime_ns)
        for record in records:
            if (record.program.path, record.program.size, record.program.mtime_ns) == seen:
                return record
        same_size = [record for record in records if record.program.size == status.st_size]
        digest = _digest(path) if same_size else ""
        found = next((record for record in same_size if record.program.sha256 == digest), None)
        if found is not None or version is None or not is_script(path):
            return found
        same_version = [record for record in records if record.program.version == version]
        return max(same_version, key=lambda record: record.checked_at, default=None)

    def _path(self, provider: str, sha256: str) -> str:
        return f"{self._directory}/{provider}-{sha256[:16]}.json"


def _read(path: str) -> CheckRecord | None:
    """Read the outcomes in a file. Returns None if the file is missing, broken, or of another format."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        if document.pop("format") != _FORMAT:
            return None
        outcomes = tuple(Outcome(**outcome) for outcome in document.pop("outcomes"))
        return CheckRecord(CheckedProgram(**document.pop("program")), outcomes=outcomes, **document)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None

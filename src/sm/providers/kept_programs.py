"""Keeps versions of agent CLIs for direct agents (`sm provider`), each as npm installs it."""

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence

from sm.errors import ExternalError, NotFound, UsageError
from sm.providers.checks import ProgramPackage

_VERSION = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?")
_INSTALL_S = 900.0
_VIEW_S = 60.0
_OPTIONS = (
    "--global=false", "--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error",
    "--include=optional", "--ignore-scripts",
)  # fmt: skip


class KeptPrograms:
    """The kept versions of one package.

    Agents find the chosen version before those of their PATH, by a launcher in the directory of the command `sm`.
    """

    def __init__(self, package: ProgramPackage, directory: str, bin: str) -> None:
        self._package = package
        self._directory = f"{directory}/{package.command}"
        self._launcher = f"{bin}/{package.command}"

    def versions(self) -> list[str]:
        """The kept versions, oldest first."""
        try:
            names = os.listdir(self._directory)
        except FileNotFoundError:
            return []
        return sorted(filter(_VERSION.fullmatch, names), key=_numbers)

    def program(self, version: str) -> str:
        """The absolute path of the program of a kept version, without links."""
        return os.path.realpath(f"{self._directory}/{version}/node_modules/.bin/{self._package.command}")

    def current(self) -> str | None:
        """Return the version that agents use, or None if it is the one on their PATH."""
        try:
            with open(self._launcher, encoding="utf-8") as file:
                text = file.read(65_536)
        except OSError:
            return None
        return next((version for version in self.versions() if text == self._launch(version)), None)

    def use(self, version: str | None) -> None:
        """Let new agents use a kept version, or without one that on their PATH. Raises ExternalError."""
        try:
            if version is None:
                if os.path.lexists(self._launcher):
                    os.unlink(self._launcher)
                return
            os.makedirs(os.path.dirname(self._launcher), exist_ok=True)
            new = self._launcher + ".new"
            with open(new, "w", encoding="utf-8") as file:
                file.write(self._launch(version))
            os.chmod(new, 0o755)  # noqa: S103  a program
            os.rename(new, self._launcher)
        except OSError as error:
            raise ExternalError(f"cannot write {self._launcher}: {error.strerror}") from None

    def install(self, version: str) -> None:
        """Install a version with npm, unless it is kept. A version that does not run is removed again.

        Raises UsageError for a text that is no version, NotFound without npm, ExternalError if npm or the program
        fails.
        """
        if not _VERSION.fullmatch(version):
            raise UsageError(f"{version!r} is not a version", "such as 2.1.332")
        target = f"{self._directory}/{version}"
        if os.path.isdir(target):
            return
        programs = os.path.dirname(self._directory)
        for directory in (
            os.path.dirname(programs),
            programs,
            self._directory,
        ):  # of the state, which is private
            os.makedirs(directory, 0o700, exist_ok=True)
        new = tempfile.mkdtemp(prefix=".new-", dir=self._directory)
        try:
            # The directory is a project of its own, so that npm neither finds nor changes another one.
            with open(f"{new}/package.json", "x", encoding="utf-8") as file:
                json.dump({"private": True}, file)
            self._run(
                ("npm", "install", "--prefix", new, *_OPTIONS, f"{self._package.name}@{version}"),
                new,
                _INSTALL_S,
            )
            folder = f"{new}/node_modules/{self._package.name}"
            self._run(("node", self._package.script), folder, _INSTALL_S)
            program = f"{new}/node_modules/.bin/{self._package.command}"
            said = self._run((program, "--version"), new, _VIEW_S)
            if version not in said:
                raise ExternalError(
                    f"npm installed {self._package.name} {version}, but it says: {said[:200]}"
                )
            os.rename(new, target)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def newest(self) -> str:
        """Ask npm for the newest version. Raises NotFound without npm, ExternalError if npm fails."""
        said = self._run(("npm", "view", self._package.name, "version", "--loglevel=error"), "/", _VIEW_S)
        version = said.strip().splitlines()[-1:] or [""]
        if not _VERSION.fullmatch(version[0]):
            raise ExternalError(f"npm names no version of {self._package.name}: {said[:200]}")
        return version[0]

    def remove(self, version: str) -> None:
        """Remove a kept version that agents do not use. Agents that run it go on. Raises NotFound, UsageError."""
        if version not in self.versions():
            raise NotFound(f"{self._package.command} {version} is not kept", "sm provider ls")
        if version == self.current():
            raise UsageError(
                f"agents use {self._package.command} {version}",
                f"sm provider use {self._package.command} installed",
            )
        shutil.rmtree(f"{self._directory}/{version}")

    def _launch(self, version: str) -> str:
        exports = "".join(
            f"export {name}={shlex.quote(value)}\n" for name, value in self._package.environment.items()
        )
        return f'#!/bin/sh\n{exports}exec {shlex.quote(self.program(version))} "$@"\n'

    def _run(self, argv: Sequence[str], directory: str, within_s: float) -> str:
        """Return the output of a program."""
        if shutil.which(argv[0]) is None:
            raise NotFound(f"{argv[0]} is not installed: sm gets versions with npm only", "install npm")
        try:
            ended = subprocess.run(
                argv,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=within_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ExternalError(f"{argv[0]} did not end within {within_s:.0f} s") from None
        except OSError as error:
            raise ExternalError(f"cannot run {argv[0]}: {error.strerror}") from None
        if ended.returncode != 0:
            words = (ended.stderr or ended.stdout).strip().splitlines() or ["no reason"]
            raise ExternalError(f"{os.path.basename(argv[0])} failed: {words[0][:300]}")
        return ended.stdout


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.partition("-")[0].split(".")))

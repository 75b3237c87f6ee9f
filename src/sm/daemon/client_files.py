"""Writes `state/client`, the copy of the command `sm` that containers mount read-only at /opt/sm.

The copy has only pure Python modules: the container's Python may be of another version than the daemon's. Every version
of the modules has its own directory, and `bin/sm` names the current one. A command that is running therefore never
loads modules of two versions.
"""

import hashlib
import os
import py_compile
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec

from sm.paths import INSIDE_CLIENT, INSIDE_HOME, InstancePaths
from sm.registry import PROVIDERS

_PARTS = (
    *("__init__.py", "errors.py", "operations.py", "paths.py", "registry.py", "wire.py"),
    *("capabilities", "cli", "client", "core", "linux", "wire_types"),
    "providers/__init__.py",
    *(
        f"{package.removeprefix('sm.').replace('.', '/')}/{module}.py"
        for package in PROVIDERS.values()
        for module in ("__init__", "program", "wire_format")
    ),
)
"""The parts of the package `sm` with all that the commands of agents import. The others need compiled modules."""
_LIBRARIES = ("click", "rich")
_KEPT = 2
"""The number of versions that stay: commands of the previous one may still run."""
_NEW = ".new"
_FOLDER_MODE, _FILE_MODE = 0o755, 0o644
"""Of all users: the container runs as another user than a daemon of root. The files hold no secrets."""
_LAUNCHER = """\
#!/bin/sh
'''exec' python3 -IS "$0" "$@"
' '''
import sys
if sys.implementation.cache_tag != {tag!r}:
    sys.pycache_prefix = {cache!r}
sys.path.append({modules!r})
from sm.cli import main
main()
"""


def write_client(paths: InstancePaths) -> str:
    """Write the client unless it is up to date, and return the name of its version. Raises OSError.

    Only one thread of the daemon may call it at a time. It takes milliseconds if nothing changed, else a second.
    """
    sources = sorted(_sources())
    version = _version(sources)
    target = f"{paths.client}/{version}"
    if not os.path.isdir(target):
        _write_modules(paths.client, version, sources)
    script = _LAUNCHER.format(
        tag=sys.implementation.cache_tag,
        cache=f"{INSIDE_HOME}/.cache/sm",
        modules=f"{INSIDE_CLIENT}/{version}",
    )
    _write_launcher(f"{paths.client}/bin", script)
    _remove_old(paths.client, version)
    return version


def _sources() -> Iterator[tuple[str, str]]:
    """Every module as (path below the copy's directory, path on this host)."""
    ours = _directory_of("sm")
    for part in _PARTS:
        yield from _modules(f"{ours}/{part}", f"sm/{part}")
    for library in _LIBRARIES:
        yield from _modules(_directory_of(library), library)


def _modules(path: str, name: str) -> Iterator[tuple[str, str]]:
    if os.path.isfile(path):
        yield name, path
        return
    for folder, _, files in os.walk(path):
        inside = name + folder.removeprefix(path)
        yield from ((f"{inside}/{file}", f"{folder}/{file}") for file in files if file.endswith(".py"))


def _directory_of(package: str) -> str:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return os.path.dirname(os.path.abspath(spec.origin))


def _version(sources: list[tuple[str, str]]) -> str:
    """A digest of the files' names, sizes and times of change, and of the Python that compiles them."""
    digest = hashlib.sha256(f"{sys.implementation.cache_tag}\n".encode())
    for name, path in sources:
        status = os.stat(path)
        digest.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _write_modules(client: str, version: str, sources: list[tuple[str, str]]) -> None:
    """Copy and compile the modules into a new directory, and give it its name when it is complete."""
    new = f"{client}/{version}{_NEW}"
    shutil.rmtree(new, ignore_errors=True)  # from a crash
    _make_directory(client)
    for name, path in sources:
        copy = f"{new}/{name}"
        _make_directory(os.path.dirname(copy))
        shutil.copyfile(path, copy)
        # The mount is read-only, so that the container's Python could not store the compiled modules. It trusts them
        # without a look at the source, as both have been written together.
        compiled = py_compile.compile(
            copy,
            dfile=f"{INSIDE_CLIENT}/{version}/{name}",
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
        os.chmod(copy, _FILE_MODE)
        os.chmod(str(compiled), _FILE_MODE)
    for folder, _, _ in os.walk(new):
        os.chmod(folder, _FOLDER_MODE)
    os.rename(new, f"{client}/{version}")


def _write_launcher(folder: str, script: str) -> None:
    target = f"{folder}/sm"
    with suppress(OSError), open(target, encoding="utf-8") as file:
        if file.read(len(script) + 1) == script and os.access(target, os.X_OK):
            return  # so that a daemon can start on a full disk
    _make_directory(folder)
    with open(target + _NEW, "w", encoding="utf-8") as file:
        file.write(script)
    os.chmod(target + _NEW, _FOLDER_MODE)
    os.rename(target + _NEW, target)


def _make_directory(path: str) -> None:
    os.makedirs(path, exist_ok=True)
    os.chmod(path, _FOLDER_MODE)


def _remove_old(client: str, version: str) -> None:
    others = [entry.path for entry in os.scandir(client) if entry.name not in ("bin", version)]
    versions = sorted((path for path in others if not path.endswith(_NEW)), key=os.path.getmtime)
    for path in {*others} - {*versions[1 - _KEPT :]}:
        shutil.rmtree(path, ignore_errors=True)

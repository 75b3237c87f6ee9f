"""The copy of the client for containers."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sm import __version__
from sm.daemon import client_files
from sm.daemon.client_files import write_client
from sm.paths import INSIDE_CLIENT, InstancePaths


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A client, which the tests must not change."""
    state = tmp_path_factory.mktemp("state")
    write_client(InstancePaths("", str(state)))
    return state / "client"


def version_of(client: Path) -> str:
    (version,) = (entry.name for entry in client.iterdir() if entry.name != "bin")
    return version


def test_client_is_readable_for_every_user_and_writable_only_for_its_owner(written: Path) -> None:
    for folder, folders, files in os.walk(written):
        for name in folders:
            assert stat.S_IMODE(os.stat(f"{folder}/{name}").st_mode) == 0o755
        for name in files:
            mode = 0o755 if folder.endswith("/bin") else 0o644
            assert stat.S_IMODE(os.stat(f"{folder}/{name}").st_mode) == mode
    assert stat.S_IMODE(written.stat().st_mode) == 0o755


def test_client_has_no_compiled_module_of_one_platform(written: Path) -> None:
    endings = {path.suffix for path in written.rglob("*") if path.is_file()}
    assert endings == {"", ".py", ".pyc"}


def test_launcher_names_the_directory_of_its_version_in_the_container(written: Path) -> None:
    assert f"'{INSIDE_CLIENT}/{version_of(written)}'" in (written / "bin" / "sm").read_text()


@pytest.mark.processes
def test_client_imports_every_command_without_other_packages(written: Path) -> None:
    code = (
        f"import sys; sys.path.append({str(written / version_of(written))!r})\n"
        "import importlib, pkgutil, sm.cli.commands as commands, sm.cli.display.terminal\n"
        "for module in pkgutil.iter_modules(commands.__path__):\n"
        "    importlib.import_module('sm.cli.commands.' + module.name)\n"
        "print(sm.__version__)"
    )
    done = subprocess.run([sys.executable, "-IS", "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{__version__}\n", "")


@pytest.mark.processes
def test_command_that_needs_the_host_says_so_in_a_sandbox(written: Path) -> None:
    code = f"import sys; sys.path.append({str(written / version_of(written))!r})\nfrom sm.cli import main; main()"
    argv = [sys.executable, "-IS", "-c", code, "config", "--check"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        5,
        "sm: this command does not run in a sandbox\nhint: run it on the host\n",
    )


def test_client_is_not_written_again_when_nothing_changed(tmp_path: Path) -> None:
    paths = InstancePaths("", str(tmp_path))
    first = write_client(paths)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "client").rglob("*")}
    assert write_client(paths) == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "client").rglob("*")} == before


def test_changed_client_gets_a_directory_of_its_own_and_the_previous_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = InstancePaths("", str(tmp_path))
    monkeypatch.setattr(client_files, "_PARTS", ("__init__.py", "paths.py"))
    monkeypatch.setattr(client_files, "_LIBRARIES", ())
    versions = [write_client(paths)]
    (tmp_path / "client" / "broken.new").mkdir()
    for part in ("wire.py", "errors.py"):
        monkeypatch.setattr(client_files, "_PARTS", (*client_files._PARTS, part))
        versions.append(write_client(paths))
    assert len(set(versions)) == 3
    assert {entry.name for entry in (tmp_path / "client").iterdir()} == {"bin", *versions[1:]}
    assert versions[-1] in (tmp_path / "client" / "bin" / "sm").read_text()


def test_client_after_a_crash_between_the_modules_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = InstancePaths("", str(tmp_path))
    monkeypatch.setattr(client_files, "_PARTS", ("__init__.py", "paths.py"))
    monkeypatch.setattr(client_files, "_LIBRARIES", ())
    with monkeypatch.context() as crash:
        crash.setattr(os, "rename", lambda *_: (_ for _ in ()).throw(OSError("crash")))
        with pytest.raises(OSError, match="crash"):
            write_client(paths)
    assert not (tmp_path / "client" / "bin").exists()
    version = write_client(paths)
    assert sorted(os.listdir(tmp_path / "client" / version / "sm")) == [
        "__init__.py",
        "__pycache__",
        "paths.py",
    ]

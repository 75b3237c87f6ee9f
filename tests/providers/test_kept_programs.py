"""Versions of agent CLIs that sm keeps, installed by a program that stands in for npm."""

import os
import subprocess
from pathlib import Path

import pytest

from sm.errors import ExternalError, NotFound, UsageError
from sm.providers.checks import ProgramPackage
from sm.providers.kept_programs import KeptPrograms

pytestmark = pytest.mark.processes

PACKAGE = ProgramPackage("@maker/agent", "agent", "finish.cjs", {"STAYS": "as it is"})
NPM = """\
#!/bin/sh
echo "$@" >> "$NPM_LOG"
[ "$1" = view ] && { echo 2.1.9; exit; }
for last; do :; done
version=${last##*@}
[ "$version" = 2.9.9 ] && { echo "npm error code ETARGET" >&2; exit 1; }
mkdir -p node_modules/.bin node_modules/@maker/agent
[ "$version" = 2.8.8 ] && version=1.0.0
printf '#!/bin/sh\\ncase $1 in --version) echo %s;; *) echo "$STAYS $*";; esac\\n' "$version" \\
    > node_modules/@maker/agent/agent
ln -s ../@maker/agent/agent node_modules/.bin/agent
"""
NODE = """\
#!/bin/sh
[ "$1" = finish.cjs ] && chmod 755 agent
"""


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeptPrograms:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in {"npm": NPM, "node": NODE}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("NPM_LOG", str(tmp_path / "npm.log"))
    return KeptPrograms(PACKAGE, str(tmp_path / "programs"), str(tmp_path / "bin"))


def calls_of_npm(tmp_path: Path) -> list[str]:
    return (tmp_path / "npm.log").read_text().splitlines()


def test_version_is_installed_once_and_found_before_all_others(kept: KeptPrograms, tmp_path: Path) -> None:
    for version in ("2.1.10", "2.1.9", "2.1.10"):
        kept.install(version)
    assert kept.versions() == ["2.1.9", "2.1.10"]
    assert len(calls_of_npm(tmp_path)) == 2
    assert all("--ignore-scripts" in call for call in calls_of_npm(tmp_path))
    assert kept.current() is None
    kept.use("2.1.9")
    assert kept.current() == "2.1.9"
    launcher = tmp_path / "bin" / "agent"
    said = subprocess.run([launcher, "a b"], capture_output=True, text=True, check=True).stdout
    assert said == "as it is a b\n"
    kept.use("2.1.10")
    assert kept.current() == "2.1.10"
    kept.use(None)
    assert kept.current() is None
    assert not launcher.exists()
    kept.use(None)


@pytest.mark.parametrize("version", ["2.9.9", "2.8.8"], ids=["unknown to npm", "another version"])
def test_version_that_cannot_be_had_leaves_nothing(kept: KeptPrograms, tmp_path: Path, version: str) -> None:
    with pytest.raises(ExternalError, match="ETARGET" if version == "2.9.9" else r"it says: 1\.0\.0"):
        kept.install(version)
    assert kept.versions() == []
    assert list((tmp_path / "programs" / "agent").iterdir()) == []


@pytest.mark.parametrize("version", ["", "latest", "2.1", "../../2.1.9", "2.1.9 --global", "-h"])
def test_only_versions_reach_npm(kept: KeptPrograms, tmp_path: Path, version: str) -> None:
    with pytest.raises(UsageError, match="is not a version"):
        kept.install(version)
    assert not (tmp_path / "npm.log").exists()


def test_state_directory_that_an_installation_makes_is_private(kept: KeptPrograms, tmp_path: Path) -> None:
    state = tmp_path / "new" / "state"
    KeptPrograms(PACKAGE, str(state / "programs"), str(state / "bin")).install("2.1.9")
    assert state.stat().st_mode & 0o777 == 0o700


def test_newest_version_is_that_of_npm(kept: KeptPrograms) -> None:
    assert kept.newest() == "2.1.9"


def test_machine_without_npm_is_told_so(
    kept: KeptPrograms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFound, match="npm is not installed"):
        kept.install("2.1.9")
    with pytest.raises(NotFound, match="npm is not installed"):
        kept.newest()


def test_used_version_is_not_removed(kept: KeptPrograms) -> None:
    for version in ("2.1.9", "2.1.10"):
        kept.install(version)
    kept.use("2.1.10")
    with pytest.raises(UsageError, match=r"agents use agent 2\.1\.10"):
        kept.remove("2.1.10")
    kept.remove("2.1.9")
    with pytest.raises(NotFound, match="is not kept"):
        kept.remove("2.1.9")
    assert kept.versions() == ["2.1.10"]


def test_launcher_of_somebody_else_is_no_kept_version(kept: KeptPrograms, tmp_path: Path) -> None:
    kept.install("2.1.9")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "agent").write_text("#!/bin/sh\nexec other\n")
    assert kept.current() is None

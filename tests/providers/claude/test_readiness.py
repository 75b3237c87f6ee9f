"""First-start dialogs of claude that `require_ready` finds in claude's files."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sm.capabilities.worktrees.rules import project_of
from sm.errors import BypassNotAccepted, DirectoryNotTrusted, ProgramMissing, SetupRequired
from sm.providers.claude.readiness import require_ready

KEY = "sk-ant-api03-none-of-any-account-0123456789"
BYPASS = ("claude", "--permission-mode", "bypassPermissions")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home in which claude opens no dialog for `tmp_path/shop`."""
    (tmp_path / "shop" / "src").mkdir(parents=True)
    write_state(tmp_path)
    write_settings(tmp_path, skipDangerousModePermissionPrompt=True)
    (tmp_path / ".claude" / ".credentials.json").touch()
    return tmp_path


def write_state(home: Path, **changes: Any) -> None:
    state = {
        "hasCompletedOnboarding": True,
        "projects": {str(home / "shop"): {"hasTrustDialogAccepted": True}},
    }
    (home / ".claude.json").write_text(json.dumps(state | changes))


def write_settings(home: Path, **settings: Any) -> None:
    (home / ".claude").mkdir(exist_ok=True)
    (home / ".claude" / "settings.json").write_text(json.dumps(settings))


def check(home: Path, *argv: str, directory: str = "shop", **variables: str) -> None:
    require_ready({"HOME": str(home), **variables}, argv or ("claude",), str(home / directory), project_of)


def test_claude_is_ready_when_its_files_answer_every_dialog(home: Path) -> None:
    check(home)
    check(home, *BYPASS, directory="shop/src")


def test_setup_is_required_when_claude_was_never_started(home: Path) -> None:
    (home / ".claude.json").unlink()
    (home / "bin").mkdir()
    (home / "bin" / "claude").touch(0o700)
    with pytest.raises(SetupRequired, match="never been started") as caught:
        check(home, PATH=str(home / "bin"))
    assert caught.value.hint == "run claude once in a terminal"


@pytest.mark.parametrize("program", ["claude", "/opt/none/claude"])
def test_program_is_missing_when_claude_was_never_started_nor_installed(home: Path, program: str) -> None:
    (home / ".claude.json").unlink()
    with pytest.raises(ProgramMissing) as caught:
        check(home, program, PATH=str(home / "bin"))
    assert caught.value.message == f"claude is not installed: there is no {program} on your PATH"
    assert caught.value.hint == (
        "npm install -g --prefix ~/.local @anthropic-ai/claude-code, then run claude once in a terminal and log in"
    )


def test_setup_is_required_when_onboarding_is_unfinished(home: Path) -> None:
    write_state(home, hasCompletedOnboarding=None)
    with pytest.raises(SetupRequired, match="first-time setup"):
        check(home)


def test_untrusted_directory_is_named_with_the_command_that_trusts_it(home: Path) -> None:
    directory = home / "my proj"
    directory.mkdir()
    (home / "shop" / "link").symlink_to(directory)
    with pytest.raises(DirectoryNotTrusted) as caught:
        check(home, directory="shop/link")
    assert caught.value.directory == str(directory)
    assert caught.value.hint == f"sm trust '{directory}'"


def test_untrusted_worktree_is_named_by_the_repository_that_outlives_it(home: Path) -> None:
    (home / "proj" / ".sm" / "worktrees" / "login" / "docs").mkdir(parents=True)
    with pytest.raises(DirectoryNotTrusted) as caught:
        check(home, directory="proj/.sm/worktrees/login/docs")
    assert caught.value.directory == str(home / "proj")
    assert caught.value.hint == f"sm trust {home / 'proj'}"


def install(home: Path, version: str) -> str:
    """Install a claude of this version as npm does; return the PATH to it."""
    package = home / "lib" / "@anthropic-ai" / "claude-code"
    (package / "bin").mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"version": version}))
    (package / "bin" / "claude.exe").touch(0o700)
    (home / "bin").mkdir()
    (home / "bin" / "claude").symlink_to(package / "bin" / "claude.exe")
    return str(home / "bin")


@pytest.mark.parametrize(
    ("version", "asks"), [("2.1.197", False), ("2.1.231", False), ("2.1.232", True), ("2.1.332", True)]
)
def test_repository_needs_its_own_trust_since_a_version(home: Path, version: str, asks: bool) -> None:
    path = install(home, version)
    (home / "shop" / "nested" / ".git").mkdir(parents=True)
    (home / "shop" / "nested" / "src").mkdir()
    check(home, PATH=path)
    if not asks:
        check(home, directory="shop/nested/src", PATH=path)
        return
    with pytest.raises(DirectoryNotTrusted) as caught:
        check(home, directory="shop/nested/src", PATH=path)
    assert caught.value.directory == str(home / "shop" / "nested" / "src")
    for trusted in ("shop/nested", "shop/nested/src"):
        write_state(home, projects={str(home / trusted): {"hasTrustDialogAccepted": True}})
        check(home, directory="shop/nested/src", PATH=path)


def test_repository_needs_its_own_trust_when_the_version_is_unknown(home: Path) -> None:
    (home / "shop" / "nested" / ".git").mkdir(parents=True)
    with pytest.raises(DirectoryNotTrusted):
        check(home, directory="shop/nested")


def test_trust_in_a_repository_covers_its_linked_worktrees(home: Path) -> None:
    own = home / "shop" / ".git" / "worktrees" / "elsewhere"
    for directory in (own, home / "shop" / ".git" / "objects", home / "shop" / ".git" / "refs"):
        directory.mkdir(parents=True)
    for directory in (own, home / "shop" / ".git"):
        (directory / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "commondir").write_text("../..\n")
    (home / "elsewhere").mkdir()
    (home / "elsewhere" / ".git").write_text(f"gitdir: {own}\n")
    check(home, directory="elsewhere")
    write_state(home, projects={str(home): {"hasTrustDialogAccepted": True}})
    with pytest.raises(DirectoryNotTrusted):
        check(home, directory="elsewhere")


def test_untrusted_directory_is_accepted_when_claude_runs_in_its_own_sandbox(home: Path) -> None:
    check(home, directory=".", CLAUDE_CODE_SANDBOXED="1")


@pytest.mark.parametrize("answer", ["approved", "rejected"])
def test_api_key_needs_an_answer_once(home: Path, answer: str) -> None:
    with pytest.raises(SetupRequired, match="ANTHROPIC_API_KEY"):
        check(home, ANTHROPIC_API_KEY=KEY)
    write_state(home, customApiKeyResponses={answer: [KEY[-20:]]})
    check(home, ANTHROPIC_API_KEY=KEY)


def test_bypass_must_be_accepted_before_an_agent_bypasses_permissions(home: Path) -> None:
    write_settings(home)
    check(home)
    with pytest.raises(BypassNotAccepted) as caught:
        check(home, *BYPASS)
    assert caught.value.hint == "sm trust --bypass"
    check(home, *BYPASS, "--settings", '{"skipDangerousModePermissionPrompt": true}')
    write_state(home, bypassPermissionsModeAccepted=True)
    check(home, *BYPASS)


def test_setup_is_required_when_no_login_is_found(home: Path) -> None:
    (home / ".claude" / ".credentials.json").unlink()
    with pytest.raises(SetupRequired, match="no login") as caught:
        check(home)
    assert caught.value.hint and "--skip-checks" in caught.value.hint
    check(home, CLAUDE_CODE_USE_BEDROCK="1")
    write_settings(home, env={"ANTHROPIC_AUTH_TOKEN": "x"})
    check(home)
    write_settings(home, apiKeyHelper="/usr/bin/key")
    check(home)


def test_other_program_is_not_checked(home: Path) -> None:
    (home / ".claude.json").unlink()
    check(home, "/usr/bin/npx", "claude")


@pytest.mark.parametrize("content", ["{", "[]", None])
def test_unreadable_state_is_no_obstacle(home: Path, content: str | None) -> None:
    path = home / ".claude.json"
    path.unlink()
    if content is None:
        os.mkdir(path)
    else:
        path.write_text(content)
    check(home)

"""The files of claude in the home directory of a container, and the check of its login."""

import json
from pathlib import Path

import pytest

from sm.errors import SetupRequired
from sm.providers.claude.container import home_files, read_object, require_login
from sm.providers.claude.section import ClaudeSection
from sm.providers.claude.setup import ClaudeSetup
from sm.sandboxes.home import ContainerHome

INSIDE = {"HOME": "/home/sandbox", "CLAUDE_CODE_SANDBOXED": "1"}
KEY = "sk-ant-" + "x" * 40 + "the-end"


@pytest.fixture
def home(tmp_path: Path) -> ContainerHome:
    return ContainerHome(str(tmp_path / "home"))


def prepared(home: ContainerHome, **variables: str) -> None:
    """Write the files for claude with these variables."""
    for inside, content in home_files({**INSIDE, **variables}).items():
        path = home.host_path(inside)
        assert path is not None
        home.add_file(path, content.encode(), None)


def check(home: ContainerHome, *argv: str, **variables: str) -> None:
    require_login({**INSIDE, **variables}, argv or ("claude",), home, "shop")


def log_in(home: ContainerHome) -> None:
    prepared(home)
    Path(home.directory, ".claude/.credentials.json").write_text("{}")


def test_files_answer_the_questions_of_the_first_start() -> None:
    assert {path: json.loads(text) for path, text in home_files(INSIDE).items()} == {
        "/home/sandbox/.claude.json": {"hasCompletedOnboarding": True},
        "/home/sandbox/.claude/settings.json": {"skipDangerousModePermissionPrompt": True},
    }


def test_files_approve_the_key_and_follow_the_configured_directory() -> None:
    files = home_files({**INSIDE, "ANTHROPIC_API_KEY": KEY, "CLAUDE_CONFIG_DIR": "/home/sandbox/c"})
    state = json.loads(files["/home/sandbox/c/.claude.json"])
    assert state["customApiKeyResponses"] == {"approved": [KEY[-20:]], "rejected": []}
    assert files.keys() == {"/home/sandbox/c/.claude.json", "/home/sandbox/c/settings.json"}


@pytest.mark.parametrize("with_files", [False, True])
def test_start_without_a_login_is_refused_with_both_remedies(
    home: ContainerHome, *, with_files: bool
) -> None:
    if with_files:
        prepared(home)
    with pytest.raises(SetupRequired, match="claude has no login in its container") as refusal:
        check(home)
    assert refusal.value.exit_code == 9
    assert "sm sandbox login shop claude" in str(refusal.value.hint)
    assert "pass_env: [ANTHROPIC_API_KEY]" in str(refusal.value.hint)


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"])
def test_start_with_a_login_in_the_environment_is_allowed(home: ContainerHome, name: str) -> None:
    check(home, **{name: KEY})
    prepared(home, **{name: KEY})
    check(home, **{name: KEY})


def test_start_with_a_login_in_the_container_is_allowed(home: ContainerHome) -> None:
    log_in(home)
    check(home)


def test_credentials_must_be_a_file_of_the_container(home: ContainerHome, tmp_path: Path) -> None:
    prepared(home)
    (tmp_path / "credentials").write_text("{}")
    Path(home.directory, ".claude/.credentials.json").symlink_to(tmp_path / "credentials")
    with pytest.raises(SetupRequired):
        check(home)


def test_key_that_claude_would_ask_about_is_refused(home: ContainerHome) -> None:
    prepared(home, ANTHROPIC_API_KEY=KEY)
    with pytest.raises(
        SetupRequired, match="not been allowed to use ANTHROPIC_API_KEY in its container"
    ) as refusal:
        check(home, ANTHROPIC_API_KEY="another key")
    assert "sm sandbox shell shop, then: ANTHROPIC_API_KEY=KEY claude" in str(refusal.value.hint)


def test_interrupted_setup_in_the_container_is_refused(home: ContainerHome) -> None:
    log_in(home)
    Path(home.directory, ".claude.json").write_text("{}")
    with pytest.raises(SetupRequired, match="first-time setup") as refusal:
        check(home)
    assert "sm sandbox shell shop" in str(refusal.value.hint)


def test_program_that_is_not_claude_is_not_checked(home: ContainerHome) -> None:
    check(home, "npx", "claude")


@pytest.mark.parametrize("content", ["", "[]", "{", "[" * 100_000, "\x00"])
def test_broken_file_of_a_container_is_ignored(home: ContainerHome, content: str) -> None:
    log_in(home)
    Path(home.directory, ".claude.json").write_text(content)
    assert read_object(home, "/home/sandbox/.claude.json") is None
    check(home)


def test_hooks_that_are_off_in_the_container_are_told(home: ContainerHome, tmp_path: Path) -> None:
    setup = ClaudeSetup(ClaudeSection(), (), ())
    (tmp_path / "outside.json").write_text('{"disableAllHooks": true}')
    settings = Path(home.directory, ".claude/settings.json")
    settings.parent.mkdir(parents=True)
    settings.write_text('{"disableAllHooks": true}')
    (warning,) = setup.session_warnings(INSIDE, "/scratch/1a2b3c4d", home)
    assert "/home/sandbox/.claude/settings.json" in warning
    settings.unlink()
    settings.symlink_to(tmp_path / "outside.json")
    assert setup.session_warnings(INSIDE, "/scratch/1a2b3c4d", home) == ()

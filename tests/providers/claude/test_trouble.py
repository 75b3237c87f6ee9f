# ruff: noqa: RUF001  (claude's pointer looks like a greater-than sign, and is not one)
"""Reasons why claude does not start, and the hints about them."""

import json
from pathlib import Path

import pytest

from sm.core.observation import Activity
from sm.providers.claude.screen import Obstacle
from sm.providers.claude.terminal import ClaudeScreenReader
from sm.providers.claude.trouble import Trouble, explain

DATA = Path(__file__).parents[2] / "data/screens"
CAPTURES = {
    path.stem: path for folder in ("claude", "claude-sizes") for path in sorted((DATA / folder).glob("*.txt"))
}
DIR = "/home/me/my project"


def trouble(lines: list[str], *, exited: bool) -> Trouble:
    found = explain(lines, working_dir=DIR, exited=exited)
    assert found is not None
    return found


def capture(name: str) -> list[str]:
    return CAPTURES[name].read_text(encoding="utf-8").split("\n")


@pytest.mark.parametrize(
    ("name", "kind", "message", "hint"),
    [
        ("trust-dialog-01", Obstacle.TRUST, "trusted", "sm trust '/home/me/my project'"),
        ("trust-50", Obstacle.TRUST, "trusted", "sm trust '/home/me/my project'"),
        ("virgin-80", Obstacle.ONBOARDING, "first-time setup", "run claude once yourself, in a terminal"),
        ("virgin-50", Obstacle.ONBOARDING, "first-time setup", "run claude once yourself, in a terminal"),
        ("nologin-80", Obstacle.LOGIN, "not logged in", "/login"),
        ("apikey-or-idle-01", Obstacle.API_KEY, "API key", "ANTHROPIC_AUTH_TOKEN"),
        ("apikey-332-01", Obstacle.API_KEY, "API key", "ANTHROPIC_AUTH_TOKEN"),
        ("settings-error-332-01", Obstacle.SETTINGS, "settings file", "correct the file that it names"),
        ("bypass-warning-01", Obstacle.BYPASS_WARNING, "bypass", "sm trust --bypass"),
    ],
)
def test_explain_describes_a_first_start_dialog(name: str, kind: Obstacle, message: str, hint: str) -> None:
    found = trouble(capture(name), exited=False)
    assert found.kind is kind
    assert message in found.message
    assert hint in found.hint


@pytest.mark.parametrize("exited", [True, False])
@pytest.mark.parametrize(
    ("name", "kind", "named", "hint"),
    [
        ("bypass-root-refused-01", Obstacle.BYPASS_AS_ROOT, "root", "another permission mode"),
        ("opt-50", Obstacle.UNKNOWN_OPTION, "--no-such-option", "remove --no-such-option"),
        ("opt-80", Obstacle.UNKNOWN_OPTION, "--no-such-option", "claude --help"),
        ("flag-bad-permission-mode-01", Obstacle.BAD_CHOICE, "--permission-mode yolo", "values of --permission-mode"),
        ("flag-bad-session-id-01", Obstacle.BAD_SESSION_ID, "UUID", "UUID"),
        ("session-id-in-use-01", Obstacle.SESSION_ID_IN_USE, "7c0fb31f-", "claude --resume 7c0fb31f-"),
        ("flag-resume-unknown-01", Obstacle.NO_CONVERSATION, "11111111-1111-4", "'/home/me/my project'"),
        ("resume-80", Obstacle.NO_CONVERSATION, "11111111-1111-4111-8111-111111111111", "directory"),
        ("flag-bad-settings-json-01", Obstacle.NO_FILE, "{bad", "JSON"),
        ("mcpjson-50", Obstacle.NO_FILE, "/nope.json", "path"),
        ("firstrun-theme-01", Obstacle.NO_CONNECTION, "reach", "api.anthropic.com"),
        ("firstrun-A2-01", Obstacle.TRUST, "trusted", "sm trust '/home/me/my project'"),
    ],
)  # fmt: skip
def test_explain_describes_an_end_with_a_known_reason(
    name: str, kind: Obstacle, named: str, hint: str, exited: bool
) -> None:
    found = trouble(capture(name), exited=exited)
    assert found.kind is kind
    assert found.message.startswith("claude has ended: ")
    assert named in found.message
    assert hint in found.hint


def test_hint_for_bypassing_as_root_requires_a_sandbox() -> None:
    hint = trouble(capture("bypass-root-refused-01"), exited=True).hint
    assert "only if this machine is a sandbox" in hint and "IS_SANDBOX" in hint and "claude.env" in hint


@pytest.mark.parametrize("columns", [30, 33, 50, 57])
@pytest.mark.parametrize("name", ["bypass-root-refused-01", "flag-resume-unknown-01", "session-id-in-use-01"])
def test_explain_reads_a_reason_that_the_terminal_wrapped(name: str, columns: int) -> None:
    line = capture(name)[0]
    assert len(line) > columns
    cut = [line[at : at + columns].rstrip() for at in range(0, len(line), columns)]
    expected = trouble(capture(name), exited=True)
    assert trouble(cut, exited=True) == expected
    assert trouble([*cut, "", "Pane is dead (status 1, Sat Nov 21 16:28:21 2026)"], exited=False) == expected


def test_explain_finds_the_reason_above_blank_lines() -> None:
    history = [
        "error: unknown option '--plan'",
        *[""] * 24,
        "Pane is dead (status 1, Sat Nov 21 16:28:21 2026)",
    ]
    assert trouble(history, exited=True).kind is Obstacle.UNKNOWN_OPTION


def test_explain_quotes_the_last_line_when_the_reason_is_unknown() -> None:
    found = trouble(["first", "illegal instruction", "", "Pane is dead (signal 4, Sat Nov 21)"], exited=True)
    assert found.kind is None
    assert found.message.endswith("its last line of output: illegal instruction")
    assert found.hint == "cd '/home/me/my project' && claude"
    assert trouble([""] * 24, exited=True).message == "claude exited during its start and printed nothing"


@pytest.mark.parametrize("name", ["opt-50", "flag-bad-permission-mode-01", "firstrun-theme-01"])
def test_start_problem_is_none_while_claude_is_exiting(name: str) -> None:
    assert ClaudeScreenReader().start_problem(capture(name), DIR) is None
    assert trouble(capture(name), exited=True) is not None


def test_screen_without_a_login_is_blocked_and_has_a_hint() -> None:
    observation = ClaudeScreenReader().screen(capture("nologin-80"), 1.0)
    assert observation is not None
    assert (observation.activity, "not logged in; hint: " in observation.reason) == (Activity.BLOCKED, True)
    assert observation.reason.endswith("/login")


def test_explain_describes_an_unknown_model_although_claude_accepts_prompts() -> None:
    error = "● There's an issue with the selected model (nope). It may not exist or you may not have access to it."
    rule = "─" * 120
    found = trouble(
        ["❯ hi", "", error, "", "✻ Cooked for 0s", "", rule, "❯ ", rule, "  ? for shortcuts"], exited=False
    )
    assert (found.kind, "nope" in found.message, "/model" in found.hint) == (Obstacle.BAD_MODEL, True, True)
    assert not found.ended


def test_explain_returns_none_when_claude_has_started() -> None:
    for name, path in CAPTURES.items():
        facts = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        if facts["state"] not in ("blocked", "exited"):
            assert explain(capture(name), working_dir=DIR, exited=False) is None, name


@pytest.mark.parametrize(
    "name", ["exited-ctrl-c-01", "exited-sigTERM-01", "exited-slash-exit-01", "sigterm-80"]
)
@pytest.mark.parametrize("exited", [True, False])
def test_explain_returns_none_when_claude_ended_normally(name: str, exited: bool) -> None:
    assert explain(capture(name), working_dir=DIR, exited=exited) is None


@pytest.mark.parametrize("exited", [True, False])
def test_explain_writes_message_and_hint_on_one_line(exited: bool) -> None:
    for name in CAPTURES:
        found = explain(capture(name), working_dir=DIR, exited=exited)
        if found is not None:
            assert found.message and found.hint, name
            assert "\n" not in found.message + found.hint, name

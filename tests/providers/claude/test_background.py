"""The background work of claude at the end of a turn, and the prompts that it starts."""

import pytest

from sm.providers.claude.background import BackgroundWork, background_work, is_entered, is_notification


def task(kind: object, status: str = "running") -> dict[str, object]:
    return {"type": kind, "status": status}


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ([], BackgroundWork(0, 0, "")),
        (
            [task("shell"), task("subagent"), task("workflow"), task("subagent")],
            BackgroundWork(
                3,
                1,
                "sub-agents in the background: 2, workflows in the background: 1, shells in the background: 1",
            ),
        ),
        (
            [task("MCP task"), task("monitor"), task("dream"), task(None), task("shell", "completed")],
            BackgroundWork(
                0,
                4,
                "monitors in the background: 1, MCP tasks in the background: 1, other tasks in the background: 2",
            ),
        ),
        (None, BackgroundWork(0, 0, "")),
        ([7, "subagent"], BackgroundWork(0, 0, "")),
    ],
)
def test_background_work_counts_what_runs_by_kind(tasks: object, expected: BackgroundWork) -> None:
    assert background_work({"background_tasks": tasks}) == expected


def test_background_work_includes_scheduled_wake_ups() -> None:
    crons = [{"id": "466a2ad7", "schedule": "*/1 * * * *", "recurring": False, "prompt": "look"}]
    work = background_work({"background_tasks": [task("shell")], "session_crons": crons})
    assert work == BackgroundWork(0, 2, "shells in the background: 1, scheduled wake-ups: 1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<task-notification>\n<task-id>a</task-id>", True),
        ("<system-reminder>\n<task-notification>", True),
        ("<system-reminder>\n[SYSTEM NOTIFICATION - NOT USER INPUT]\n<task-notification>", True),
        ("what does <task-notification> mean?", False),
        ("<system-reminder>\nbe brief", False),
        ("", False),
    ],
)
def test_notification_is_known_by_its_beginning(text: str, expected: bool) -> None:
    assert is_notification(text) is expected
    assert is_entered({"prompt": text}) is not expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [("user", True), ("sdk", True), (None, True), ("later", True), ("system", False), ("loop_wakeup", False)],
)
def test_prompt_of_the_system_is_not_entered(source: object, expected: bool) -> None:
    assert is_entered({"prompt": "go on", "source": source}) is expected

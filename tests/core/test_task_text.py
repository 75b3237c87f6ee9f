"""The task in a prompt."""

import pytest

from sm.core.task_text import TASK_MAX, task_of
from sm.core.text import render_line, render_message


@pytest.mark.parametrize(
    ("prompt", "task"),
    [
        ("Fix #1042", "Fix #1042"),
        ("push it", "push it"),
        ("Yes, and also update the docs", "Yes, and also update the docs"),
        (render_message("operator", 7, "Run the linter too"), "Run the linter too"),
        (render_message("lead (aaaa1111)", 7, "Warum ist das langsam?"), "Warum ist das langsam?"),
        (render_line("lead (aaaa1111)", 7, "Run the linter too"), "Run the linter too"),
    ],
)
def test_task_is_the_prompt_without_the_header_of_its_message(prompt: str, task: str) -> None:
    assert task_of(prompt) == task


@pytest.mark.parametrize(
    "prompt",
    [
        "", "continue", "Yes, go ahead.", "ok", "2", "sqlite", "mach weiter", "sí, adelante", "/compact", "!ls",
        "<task-notification>the build of the app has ended</task-notification>",
        render_message("sm", 7, "child worker (aaaa2222) completed: Done."),
        render_message("operator", 7, "continue please"),
    ],
)  # fmt: skip
def test_prompt_that_lets_the_agent_go_on_gives_no_task(prompt: str) -> None:
    assert task_of(prompt) is None


def test_long_task_keeps_its_begin_and_its_end() -> None:
    task = task_of(f"Read this log.\n{'x ' * 40_000}\nWhy does it fail?")
    assert task is not None
    assert task.startswith("Read this log.")
    assert task.endswith("Why does it fail?")
    assert len(task) <= TASK_MAX

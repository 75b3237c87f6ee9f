"""The layout of a session's progress."""

from datetime import UTC

import pytest

from sm.cli.display.progress_block import progress_block
from tests.cli.samples import AT, ago, progress


def test_progress_block_matches_seed_003() -> None:
    shown = progress(
        tokens_used=2450,
        tokens_remaining_estimate=7550,
        completion_percentage=24,
        tools_used={"Read": 5, "Write": 3, "Bash": 2, "Edit": 1},
        last_tool={"name": "Write", "args": {"file_path": "tests/api.test.ts"}, "timestamp": ago(seconds=10)},
        current_activity="Writing unit tests for API endpoint",
        checkpoints=[
            {"timestamp": "2026-01-27T15:10:00Z", "message": "Started: Implement feature X", "metadata": {}},
            {
                "timestamp": "2026-01-27T15:12:00Z",
                "message": "Completed data model (3/5 tasks)",
                "metadata": {},
            },
        ],
    )
    assert progress_block(shown, AT, UTC) == [
        "engineer-task1043 (1a2b3c4d) | working | 3min elapsed",
        "Tokens: 2,450 / ~10,000 est (24%)",
        "Tools: Read(5) Write(3) Bash(2) Edit(1)",
        "Status: Writing unit tests for API endpoint",
        "Last tool: Write → tests/api.test.ts (10s ago)",
        "",
        "Checkpoints:",
        "  [15:10] Started: Implement feature X",
        "  [15:12] Completed data model (3/5 tasks)",
    ]


def test_progress_block_shows_cost_context_and_todo_list_when_known() -> None:
    shown = progress(
        tokens_used=2450,
        subagents={"tokens": {"input": 50, "output": 1200, "cache_read": 9000, "cache_write": 1}},
        cost_usd=1234.567,
        context_percent=38,
        context_tokens=76_000,
        context_window=200_000,
        todo=[
            {"status": "completed", "text": "model"},
            {"status": "in_progress", "text": "tests"},
            {"status": "pending", "text": "docs"},
            {"status": "odd", "text": "more\x1b[2J"},
        ],
        checkpoints=[{"timestamp": "2026-01-27T15:10:00Z", "message": "Started", "metadata": {}}],
    )
    assert progress_block(shown, AT, UTC)[1:] == [
        "Tokens: 2,450, 1,250 of them by sub-agents",
        "Cost: $1,234.57",
        "Context: 38% of 200,000 tokens",
        "",
        "Todo: 1 of 4 done",
        "  [x] model",
        "  [>] tests",
        "  [ ] docs",
        "  [ ] more [2J",
        "",
        "Checkpoints:",
        "  [15:10] Started",
    ]


@pytest.mark.parametrize(
    ("done", "first", "last"), [(0, 0, 11), (2, 0, 11), (20, 18, 29), (38, 28, 39), (40, 28, 39)]
)
def test_progress_block_shows_the_current_part_of_a_long_todo_list(done: int, first: int, last: int) -> None:
    todo = [{"status": "completed" if n < done else "pending", "text": f"task {n}"} for n in range(40)]
    head, *shown, rest = progress_block(progress(todo=todo), AT, UTC)[2:]
    assert head == f"Todo: {done} of 40 done"
    assert [text[6:] for text in shown] == [f"task {n}" for n in range(first, last + 1)]
    assert rest == "  (28 more)"


def test_progress_block_shows_zero_cost_and_omits_idle_sub_agents() -> None:
    none = {"tokens": {"input": 0, "output": 0, "cache_read": 0, "cache_write": 0}}
    shown = progress(tokens_used=0, subagents=none, cost_usd=0.0, context_percent=0, context_window=200_000)
    assert progress_block(shown, AT, UTC)[1:] == ["Tokens: 0", "Cost: $0.00", "Context: 0% of 200,000 tokens"]


def test_progress_block_omits_unknown_values_of_a_program() -> None:
    shown = progress(completion_percentage=60, last_output=[f"line {n}" for n in range(50)])
    block = progress_block(shown, AT, UTC)
    assert block[:2] == ["engineer-task1043 (1a2b3c4d) | working | 3min elapsed", "Done: 60%"]
    assert block[-1] == "  line 49"
    assert not [text for text in block if "Tokens" in text or "Tools" in text or "None" in text]


def test_progress_block_of_a_paused_session_says_so() -> None:
    pause: dict[str, object] = {
        "at": ago(seconds=10),
        "by": "operator",
        "reason": "too dear",
        "until": None,
        "spends": [],
    }
    frozen = progress(paused={**pause, "state": "paused", "held": "frozen"})
    assert progress_block(frozen, AT, UTC)[:2] == [
        "engineer-task1043 (1a2b3c4d) | paused (working) | 3min elapsed",
        "Paused: 10s ago by operator: too dear; its processes are frozen until sm resume",
    ]
    spending = progress(paused={**pause, "state": "pausing", "held": None, "spends": ["3 background agents"]})
    assert progress_block(spending, AT, UTC, watched=True)[:2] == [
        "engineer-task1043 (1a2b3c4d) | pausing (running) | 3min elapsed",
        "Paused: 10s ago by operator: too dear; 3 background agents still spend",
    ]

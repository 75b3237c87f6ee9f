"""The layout of `sm ls`."""

from typing import Any

import pytest

from sm.cli.display.listing import listing, ordered
from sm.cli.display.text_table import fit, table_lines
from sm.core.columns import columns
from tests.cli.samples import AT, EVIL, ago, overview_row


def tree(*rows: dict[str, Any]) -> list[str]:
    return [f"{group} {indent}{shown['session_id']}" for group, indent, shown in ordered(rows)]


def test_sessions_that_need_a_word_come_first_then_working_then_idle_ones() -> None:
    rows = [
        overview_row("00000001", attention="idle"),
        overview_row("00000002", attention="ended"),
        overview_row("00000003", attention="working"),
        overview_row("00000004", attention="waiting"),
        overview_row("00000005", attention="waiting"),
    ]
    assert tree(*rows) == [
        "waiting 00000004",
        "waiting 00000005",
        "working 00000003",
        "idle 00000001",
        "ended 00000002",
    ]


def test_tree_stays_together_in_the_group_of_its_most_urgent_member() -> None:
    rows = [
        overview_row("00000001", attention="working"),
        overview_row("00000002", attention="idle"),
        overview_row("00000003", attention="idle", parent_session_id="00000002"),
        overview_row("00000004", attention="idle", parent_session_id="00000002"),
        overview_row("00000005", attention="waiting", parent_session_id="00000004"),
        overview_row("00000006", attention="working", parent_session_id="00000004"),
        overview_row("00000007", attention="working", parent_session_id="00000003"),
        overview_row("00000008", attention="idle", parent_session_id="gone0000"),
    ]
    assert tree(*rows) == [
        "waiting 00000002",
        "waiting ├─ 00000004",
        "waiting │  ├─ 00000005",
        "waiting │  └─ 00000006",
        "waiting └─ 00000003",
        "waiting    └─ 00000007",
        "working 00000001",
        "idle 00000008",
    ]


def test_listing_draws_the_members_of_a_cycle_of_parents() -> None:
    rows = [
        overview_row("00000001", parent_session_id="00000002"),
        overview_row("00000002", parent_session_id="00000001", attention="waiting"),
    ]
    assert tree(*rows) == ["waiting 00000001", "waiting └─ 00000002"]


def test_listing_shows_status_age_model_context_cost_and_task() -> None:
    rows = [
        overview_row(
            friendly_name="engineer-login",
            status_at=ago(minutes=12),
            model="claude-opus-4-8-20260101",
            context_percent=42,
            cost_usd=1234.5,
            task="Bash: npm test",
            task_kind="activity",
        ),
        overview_row("99999999", status="idle", attention="idle", task="All done.", task_kind="answer"),
    ]
    assert table_lines(listing(rows, AT)) == [
        "NAME               STATUS   AGE  MODEL     CTX  COST       TASK",
        "engineer-login     running  12m  opus-4-8  42%  $1,234.50  Bash: npm test",
        'engineer-99999999  idle     5m   -         -    -          "All done."',
    ]


def test_listing_shows_the_labels_of_the_daemon() -> None:
    shared = {"friendly_name": "engineer-x", "label": "engineer-x (00000001)"}
    rows = [
        overview_row("00000001", **shared, attention="ended"),
        overview_row("00000002", **shared | {"label": "engineer-x (00000002)"}),
        overview_row("00000003", friendly_name="engineer-y"),
    ]
    names = [line.partition("  ")[0] for line in table_lines(listing(rows, AT))[1:]]
    assert names == ["engineer-x (00000002)", "engineer-y", "engineer-x (00000001)"]


def test_listing_contains_no_control_characters() -> None:
    rows = [overview_row(friendly_name=EVIL, label=EVIL, model=EVIL, status=EVIL, task=EVIL, provider="x")]
    text = "".join(table_lines(listing(rows, AT)))
    assert text.isprintable()


@pytest.mark.parametrize(
    ("width", "header"),
    [
        (120, ["NAME", "STATUS", "AGE", "MODEL", "CTX", "COST", "TASK"]),
        (95, ["NAME", "STATUS", "AGE", "CTX", "COST", "TASK"]),
        (80, ["NAME", "STATUS", "AGE", "CTX", "TASK"]),
        (50, ["NAME", "STATUS", "AGE", "TASK"]),
    ],
)
def test_listing_omits_columns_until_the_task_has_room(width: int, header: list[str]) -> None:
    row = overview_row(
        friendly_name="general-purpose-flaky",
        status="waiting_input",
        model="claude-sonnet-4-5",
        task="w" * 200,
    )
    table = listing([row], AT)
    widths = fit(table, width)
    assert widths is not None
    assert [table.rows[0][n] for n in widths] == header
    assert sum(widths.values()) + 2 * (len(widths) - 1) <= width


@pytest.mark.parametrize("task", ["w" * 200, "r3 asks: Which test?"])
def test_listing_keeps_names_whole_at_80_columns(task: str) -> None:
    row = overview_row(friendly_name="general-purpose-flaky", status="waiting_input", task=task)
    widths = fit(listing([row], AT), 80)
    assert widths is not None and widths[0] == columns("general-purpose-flaky")


FAILED = {"status": "error", "attention": "failed", "status_at": ago(minutes=2)}
DONE = {"status": "completed", "attention": "done", "status_at": ago(minutes=1)}


def test_unseen_ends_have_groups_with_the_commands_for_them() -> None:
    rows = [
        overview_row("00000001"),
        overview_row("00000002", **DONE, task="All done.", task_kind="result"),
        overview_row("00000003", **FAILED, task='exit code 3: "KeyError"'),
        overview_row("00000004", attention="waiting"),
    ]
    assert listing(rows, AT).headings == {
        1: "Needs you (failed: sm restore NAME or sm archive NAME)",
        3: "Done, not seen yet (sm output NAME, sm send NAME TEXT or sm seen NAME)",
        4: "Working",
    }
    rows.append(overview_row("00000005", attention="waiting", requests=["r1"]))
    first, second, *_ = (headings := listing(rows, AT).headings)
    assert headings[first] == "Needs you (waiting: sm requests; failed: sm restore NAME or sm archive NAME)"
    assert len(headings[first]) <= 80 and (first, second) == (1, 4)


def test_unseen_end_leaves_the_tree_of_a_live_parent_in_its_group() -> None:
    rows = [
        overview_row("00000001"),
        overview_row("00000002", parent_session_id="00000001", **FAILED),
        overview_row("00000003", parent_session_id="00000002", **DONE),
    ]
    assert tree(*rows) == ["failed 00000002", "failed └─ 00000003", "working 00000001"]


def test_row_of_a_parent_counts_its_ended_children() -> None:
    rows = [overview_row(children_failed=2, children_done=3, task="Bash: make", task_kind="activity")]
    assert table_lines(listing(rows, AT))[1].endswith("  2 failed, 3 done; Bash: make")


def test_last_line_counts_the_sessions_that_the_list_leaves_out() -> None:
    rest = {"failed": 5, "completed": 10, "killed": 0, "older": 0, "lost": 0}
    assert table_lines(listing([overview_row()], AT, "", rest))[-1] == (
        "15 more: 5 failed, 10 completed (sm ls -a)"
    )
    assert table_lines(listing([], AT, "", rest | {"failed": 0, "older": 4})) == [
        "10 more: 10 completed (sm ls -a); 4 older not seen (sm seen --all)"
    ]


def test_first_line_after_a_loss_is_the_command_that_restarts_the_agents() -> None:
    lines = table_lines(listing([overview_row("00000003", **FAILED)], AT, "", {"lost": 38}))
    assert lines[0].startswith("sm restore --all  # restarts 38 sessions ")


def test_listing_shows_workspaces_if_a_session_has_one() -> None:
    rows = [overview_row("00000001", workspace="shop"), overview_row("00000002")]
    header, first, second = (line.split() for line in table_lines(listing(rows, AT)))
    assert header[-2:] == ["WORKSPACE", "TASK"]
    assert [first[6], second[6]] == ["shop", "-"]

"""The layout of the overview and of log lines."""

from datetime import UTC, datetime
from typing import Any

from sm.cli.display.overview import log_line, overview

EMPTY: dict[str, Any] = {
    "daemon": {"pid": 7, "version": "0.1.0", "uptime_s": 1},
    "sessions": {},
    **dict.fromkeys(("orphans", "dead_letters", "requests_open", "inbox"), 0),
    "inbox_lines": [],
    "parked": [],
    "trouble": [],
}
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def test_overview_shows_counts_inbox_and_trouble() -> None:
    status = {
        "daemon": {"pid": 7, "version": "0.1.0", "uptime_s": 7300.5},
        "sessions": {"running": 3, "error": 1, "idle": 0},
        "not_seen": {"failed": 1, "done": 2},
        "orphans": 2,
        "orphan_processes": [
            {
                "session_id": "1a2b3c4d",
                "label": "engineer-a",
                "pid": 4711,
                "command": "node server.js",
                "age_s": 300.0,
                "memory_bytes": 125_829_120,
            }
        ],
        "dead_letters": 1,
        "requests_open": 3,
        "inbox": 2,
        "inbox_lines": ["child engineer-a (1a2b3c4d) completed", "child engineer-b (5e6f7a8b) failed"],
        "parked": [
            {
                "name": "claude-1a2b3c4d",
                "waiting": 1,
                "parks": [
                    {"reason": "not logged in", "until": None, "model": None},
                    {"reason": "Opus limit", "until": None, "model": "opus"},
                ],
            }
        ],
        "trouble": ["tmux does not answer"],
    }
    assert overview(status, NOW) == [
        "Inbox:        2 messages (sm inbox --take)",
        "              child engineer-a (1a2b3c4d) completed",
        "              child engineer-b (5e6f7a8b) failed",
        "Daemon:       running, pid 7, version 0.1.0, up 2h",
        "Sessions:     3 running, 1 error",
        "Not seen:     1 failed, 2 done (sm ls)",
        "Orphans:      2 sessions, 1 process (sm kill --orphans)",
        "              pid 4711 of engineer-a, 5min, 120 MiB: node server.js",
        "Requests:     3 open (sm requests)",
        "Dead letters: 1",
        "Parked:       claude-1a2b3c4d not logged in; Opus limit (opus), 1 session waits",
        "Problem:      tmux does not answer",
    ]


def test_overview_suggests_no_command_when_empty() -> None:
    assert overview(EMPTY, NOW) == [
        "Inbox:        0",
        "Daemon:       running, pid 7, version 0.1.0, up 1s",
        "Sessions:     none",
        "Orphans:      0",
        "Requests:     0 open",
        "Dead letters: 0",
    ]


def test_overview_prevents_forged_lines_in_inbox_text() -> None:
    forged = [
        "x\nDaemon:       running, pid 1",
        "Problem:      none\r",
        "\u2028Requests:     0 open",
        "[sm] from operator",
        "",
    ]
    shown = overview(EMPTY | {"inbox_lines": forged}, NOW)
    assert shown[1:5] == [
        "              x Daemon:       running, pid 1",
        "              Problem:      none",
        "              Requests:     0 open",
        "              > [sm] from operator",
    ]
    assert len("\n".join(shown).splitlines()) == len(shown) == 10


def test_log_line_shows_a_record_with_its_context() -> None:
    record = {
        "time": "2026-01-27T15:10:00.123Z",
        "level": "info",
        "logger": "sm.sessions.manager",
        "message": "moved",
        "sm_session": "1a2b3c4d",
        "sm_from": None,
    }
    assert log_line(record, UTC) == "2026-01-27 15:10:00 info sm.sessions.manager: moved sm_session=1a2b3c4d"

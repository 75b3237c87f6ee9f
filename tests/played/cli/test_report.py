"""checkpoint, note and complete: reports of a session with and without a daemon."""

import json
import os
import stat
from pathlib import Path

import pytest

from tests.cli.conftest import SESSION
from tests.cli.peer import HANG_UP, Answer, answer, error
from tests.cli.samples import session
from tests.played.cli.command import Sm
from tests.played.cli.peer import Peer

CHECKPOINT = {"timestamp": "2026-01-27T15:10:00Z", "message": "x", "metadata": {}}
REPORTS = [
    (["checkpoint", "Half (1/2)"], "checkpoints", {"message": "Half (1/2)", "metadata": {}}),
    (["note", "Writing"], "note", {"text": "Writing"}),
    (["complete", "Done"], "complete", {"message": "Done", "status": "completed"}),
]


@pytest.fixture
def agent(run: Sm, state: Path) -> Sm:
    """`sm` in the environment of an agent, which has SM_SOCKET instead of SM_HOME."""
    token = state / "token"
    token.write_text("s3cret\n")
    run.environ |= run.as_session(state) | {"SM_TOKEN_FILE": str(token)}
    del run.environ["SM_HOME"]
    return run


def spooled(state: Path) -> list[Path]:
    return sorted((state / "spool" / SESSION).glob("*")) if (state / "spool" / SESSION).exists() else []


def test_checkpoint_is_recorded_with_its_metadata(agent: Sm, peer: Peer) -> None:
    peer.script("POST /v1/sessions/me/checkpoints", answer(CHECKPOINT))
    assert agent("checkpoint", "Half", "--metadata", "coverage=0", "b=x=y", "--metadata", "c=").out == (
        "Checkpoint recorded\n"
    )
    assert peer.received[0].json == {"message": "Half", "metadata": {"coverage": "0", "b": "x=y", "c": ""}}


def test_words_without_quotes_are_one_text(agent: Sm, peer: Peer) -> None:
    peer.script("POST /v1/sessions/me/checkpoints", answer(CHECKPOINT))
    agent("checkpoint", "half", "done", "now")
    assert peer.received[0].json == {"message": "half done now", "metadata": {}}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a", "--metadata", "novalue"], "'novalue' is not KEY=VALUE"),
        (["a", "--metadata", "=1"], "'=1' is not KEY=VALUE"),
        (["two words", "more"], "sm checkpoint 'two words more'"),
    ],
)
def test_checkpoint_refuses_invalid_arguments(agent: Sm, peer: Peer, words: list[str], expected: str) -> None:
    assert expected in agent("checkpoint", *words, code=2).err
    assert peer.received == []


def test_note_is_recorded(agent: Sm, peer: Peer) -> None:
    peer.script("POST /v1/sessions/me/note", answer(session()))
    assert agent("note", "Writing").out == "Note recorded\n"


@pytest.mark.parametrize(
    ("words", "status", "parent", "expected"),
    [
        ([], "completed", "99999999", "Session marked complete. Notifying parent.\n"),
        (["ok"], "completed", None, "Session marked complete.\n"),
        (["no", "--status", "error"], "error", "99999999", "Session marked as error. Notifying parent.\n"),
        (["no", "--status", "abandoned"], "abandoned", None, "Session marked as abandoned.\n"),
        (["ok"], "running", "99999999", "Completion proposed; waiting for approval.\n"),
    ],
)
def test_complete_prints_the_resulting_status(
    agent: Sm, peer: Peer, words: list[str], status: str, parent: str | None, expected: str
) -> None:
    done = session(status=status, parent_session_id=parent, warnings=["1 child is still live"])
    peer.script("POST /v1/sessions/me/complete", answer(done))
    ended = agent("complete", *words)
    assert ended.out == expected
    assert ended.err == "warning: 1 child is still live\n"


@pytest.mark.parametrize(("words", "path", "body"), REPORTS)
@pytest.mark.parametrize("known", [True, False])
def test_report_is_a_usage_error_when_caller_is_not_a_session(
    run: Sm, peer: Peer, state: Path, words: list[str], path: str, body: object, known: bool
) -> None:
    peer.script(
        f"POST /v1/sessions/me/{path}", error("not_found", "you are the operator", 404) if known else HANG_UP
    )
    done = run(*words, code=2)
    assert f"only an agent can run sm {words[0]}" in done.err
    assert spooled(state) == []


def test_report_exits_3_when_daemon_does_not_know_the_session(agent: Sm, peer: Peer) -> None:
    peer.script("POST /v1/sessions/me/note", error("not_found", "session 1a2b3c4d is not known", 404))
    assert agent("note", "x", code=3).err == "sm: session 1a2b3c4d is not known\n"


@pytest.mark.parametrize(("words", "path", "body"), REPORTS)
def test_report_is_spooled_when_daemon_is_away(
    agent: Sm, state: Path, words: list[str], path: str, body: object
) -> None:
    (state / "stopped").touch()
    assert agent(*words).out == "recorded; the daemon is not available\n"
    (file,) = spooled(state)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    kept = json.loads(file.read_text())
    assert kept.pop("emitted_at").endswith("Z")
    assert len(kept.pop("key")) == 32
    assert kept == {"token": "s3cret", "action": words[0], "body": body}


def test_reports_are_spooled_in_order(agent: Sm, state: Path) -> None:
    (state / "stopped").touch()
    for number in range(3):
        agent("checkpoint", str(number))
    kept = [json.loads(file.read_text()) for file in spooled(state)]
    assert [report["body"]["message"] for report in kept] == ["0", "1", "2"]
    assert sorted(kept, key=lambda report: report["emitted_at"]) == kept


@pytest.mark.parametrize(("words", "path", "body"), REPORTS)
@pytest.mark.parametrize("breaks", [1, 3])
def test_report_is_retried_with_the_same_key_when_connection_breaks(
    agent: Sm, peer: Peer, state: Path, words: list[str], path: str, body: object, breaks: int
) -> None:
    spooled_keys: list[str] = []

    def look(_: object) -> bytes:
        spooled_keys.extend(json.loads(file.read_text())["key"] for file in spooled(state))
        return answer(session())

    answers: list[Answer] = [HANG_UP] * breaks + [look]
    peer.script(f"POST /v1/sessions/me/{path}", *answers)
    assert "recorded;" not in agent(*words).out
    keys = {received.key for received in peer.received}
    assert len(peer.received) == breaks + 1
    assert keys == set(spooled_keys), "the report must be spooled under the same key before the retry"
    assert spooled(state) == []
    assert all(received.json == body for received in peer.received)


def test_report_is_removed_from_the_spool_when_retry_is_refused(agent: Sm, peer: Peer, state: Path) -> None:
    refusal = error("illegal_transition", "session 1a2b3c4d has already ended", 409)
    peer.script("POST /v1/sessions/me/complete", HANG_UP, refusal)
    assert "has already ended" in agent("complete", code=4).err
    assert spooled(state) == []


def test_report_is_refused_when_spool_is_full(agent: Sm, state: Path) -> None:
    (state / "stopped").touch()
    directory = state / "spool" / SESSION
    directory.mkdir(parents=True)
    (directory / "1-aa.json").write_bytes(b"x" * ((1 << 20) - 100))
    done = agent("checkpoint", "one more", code=6)
    assert "is full" in done.err
    assert [file.name for file in spooled(state)] == ["1-aa.json"]


@pytest.mark.parametrize(
    "words",
    [["checkpoint", "x" * 50_001], ["note", "x" * 201], ["note", "two\nlines"], ["complete", "a\x1b[31m"]],
)
def test_report_is_spooled_whatever_its_form_for_the_daemon_normalizes_it(
    agent: Sm, state: Path, words: list[str]
) -> None:
    (state / "stopped").touch()
    agent(*words)
    (report,) = spooled(state)
    assert words[1] in json.loads(report.read_text())["body"].values()


def test_report_is_not_spooled_when_token_is_missing(agent: Sm, state: Path) -> None:
    (state / "stopped").touch()
    (state / "token").unlink()
    assert "SM_TOKEN_FILE" in agent("checkpoint", "x", code=7).err
    assert spooled(state) == []


@pytest.mark.parametrize("identity", ["../../etc", "1A2B3C4D", "1a2b3c4", ""])
def test_report_writes_nothing_when_session_id_is_invalid(agent: Sm, state: Path, identity: str) -> None:
    (state / "stopped").touch()
    agent("checkpoint", "x", code=None, environ={"SM_SESSION_ID": identity})
    assert not (state / "spool").exists() or os.listdir(state / "spool") == []


def test_report_is_spooled_in_the_home_directory_inside_a_container(run: Sm, home: Path, state: Path) -> None:
    (state / "token").write_text("ab" * 32)
    environ = {
        "SM_SESSION_ID": SESSION,
        "SM_SOCKET": f"{state}/run/w/0123456789abcdef/s",
        "SM_TOKEN_FILE": f"{state}/token",
        "XDG_STATE_HOME": f"{home}/elsewhere",
    }
    assert "recorded" in run("complete", "Done", environ=environ).out
    (path,) = spooled(home / ".local/state/sm")
    report = json.loads(path.read_bytes())
    assert (report["action"], report["body"]["message"]) == ("complete", "Done")
    assert spooled(state) == []

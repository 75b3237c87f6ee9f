"""Commands whose process is the subject: pipes, Ctrl-C, a full disk, exit codes, the encoding of the environment."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Sm
from tests.cli.peer import SILENCE, Peer, answer
from tests.cli.samples import progress, session


def test_usage_error_ends_the_process_with_2(run: Sm) -> None:
    done = run("spwan", code=2)
    assert (done.out, done.err.splitlines()[1]) == ("", "hint: sm --help")


def test_process_ends_with_the_code_of_the_daemon_error(run: Sm, peer: Peer) -> None:
    done = run("status", "x", code=3)
    assert (done.out, done.err) == ("", "sm: nothing is scripted for this request\n")


def test_spawn_reads_prompt_from_stdin(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/sessions", answer(session(warnings=[])))
    run("spawn", "Engineer", "-", stdin="fünf\nZeilen\n".encode())
    run("spawn", "Engineer", "-", stdin="😀".encode() * 10_000)
    assert [received.json["prompt"] for received in peer.received] == ["fünf\nZeilen", "😀" * 10_000]


def test_spawn_omits_environment_variables_that_are_not_utf8(run: Sm, peer: Peer) -> None:
    peer.script("POST /v1/sessions", answer(session(warnings=[])))
    environ = {os.fsencode(name): os.fsencode(value) for name, value in run.environ.items()}
    subprocess.run(
        run.argv("spawn", "Engineer", "x"), env=environ | {b"LATIN": b"\xe4"}, check=True, capture_output=True
    )
    assert "LATIN" not in peer.received[0].json["environment"]
    assert "HOME" in peer.received[0].json["environment"]


def test_command_exits_130_silently_when_interrupted_by_ctrl_c(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/status", SILENCE)
    with run.start("status") as process:
        peer.wait_received(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out, err) == (130, "", "")


def test_command_ends_silently_when_output_pipe_closes(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/sessions", answer([session(f"{n:08x}", note="x" * 400) for n in range(500)]))
    run.unread("all")


def test_command_exits_6_when_stdout_is_on_a_full_disk(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/sessions", answer([session()]))
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            run.argv("all"), stdout=full, stderr=subprocess.PIPE, text=True, env=run.environ, check=False
        )
    assert done.returncode == 6
    assert done.stderr == "sm: the disk is full\n"


def test_command_prints_question_marks_when_output_is_not_unicode(run: Sm, peer: Peer) -> None:
    child = session("00000002")
    peer.script("GET /v1/sessions/-/children", answer([session(children=[child])]))
    out = run("children", "--recursive", environ={"PYTHONIOENCODING": "latin-1"}).out
    assert "  ?? engineer-00000002" in out


def test_completion_prints_a_script_for_bash(run: Sm) -> None:
    assert "_SM_COMPLETE" in run("completion", "bash").out


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_command_succeeds_when_its_output_is_closed(run: Sm, peer: Peer, state: Path, closed: str) -> None:
    peer.script("GET /v1/sessions/x/progress", answer(progress(is_complete=True)))
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *run.argv("progress", "x", "--watch")],
        env=run.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, b"internal error" in done.stderr) == (0, False), done.stderr
    assert list((state / "log").glob("bug-*")) == []

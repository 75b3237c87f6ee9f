"""`notify.command` with real programs: their input, exit codes, time limits and children."""

import asyncio
import os
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from sm.config import Config
from sm.core.models import Process
from sm.linux.processes import identify, is_alive
from sm.notifiers.base import NotifyFailed
from sm.notifiers.command import CommandNotifier
from tests.terminals.world import until

pytestmark = pytest.mark.processes

BODY: dict[str, Any] = {"type": "error", "text": 'it said "grüß dich"', "occasion": "1a2b3c4d/ending:1"}
LARGE = {**BODY, "text": "x" * 300_000}
"""A body larger than the buffer of a pipe."""


def sh(script: str, *arguments: object) -> tuple[str, ...]:
    return ("sh", "-c", script, "sh", *map(str, arguments))


async def send_failure(
    command: tuple[str, ...], within_s: float = 20.0, body: dict[str, Any] = BODY
) -> NotifyFailed:
    with pytest.raises(NotifyFailed) as caught:
        await CommandNotifier(command, within_s).send(None, body)
    assert not caught.value.retryable  # the program may have done its work
    return caught.value


async def processes(path: Path, count: int) -> list[Process]:
    """Wait until `path` has `count` process ids, one per line; return the processes."""
    await until(lambda: path.read_text().count("\n") == count)
    found = [identify(int(line)) for line in path.read_text().split()]
    assert None not in found
    return [process for process in found if process is not None]


async def test_command_notifier_writes_one_line_of_JSON_to_the_program(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for body in (BODY, LARGE):
        await CommandNotifier(sh('cat > "$1"', out)).send(None, body)
        text = out.read_bytes()
        assert orjson.loads(text) == body
        assert text.endswith(b"}\n") and text.count(b"\n") == 1


async def test_command_notifier_passes_arguments_without_a_shell(tmp_path: Path) -> None:
    out = tmp_path / "out"
    await CommandNotifier(sh('printf "%s\\n" "$@" > "$1"', out, "$HOME `id` *; exit 3")).send(None, BODY)
    assert out.read_text() == f"{out}\n$HOME `id` *; exit 3\n"


@pytest.mark.parametrize("code", [1, 3, 127, 255])
async def test_command_notifier_fails_without_retry_on_an_exit_code(tmp_path: Path, code: int) -> None:
    out = tmp_path / "out"
    error = await send_failure(sh('echo ran >> "$1"; exit $2', out, code))
    assert error.message == f"notify.command ended with exit code {code}"
    assert out.read_text() == "ran\n"


async def test_command_notifier_fails_when_the_program_is_killed() -> None:
    assert "exit code -9" in (await send_failure(sh("kill -9 $$"))).message


async def test_command_notifier_ends_a_hanging_program_and_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = 'trap "" TERM HUP INT; echo $$ >> "$1"; sh -c \'echo $$ >> "$1"; sleep 1000\' sh "$1" & wait'
    within_s = 5.0
    notification = asyncio.create_task(send_failure(sh(script, pids), within_s=within_s))
    found = await processes(pids, 2)
    assert not notification.done()
    assert f"did not end within {within_s:g} s" in (await notification).message
    await until(lambda: not any(map(is_alive, found)))


async def test_command_notifier_ends_the_program_and_its_children_when_cancelled(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = 'echo $$ >> "$1"; sh -c \'echo $$ >> "$1"; sleep 1000\' sh "$1" & wait'
    notification = asyncio.create_task(CommandNotifier(sh(script, pids)).send(None, BODY))
    found = await processes(pids, 2)
    notification.cancel()
    with pytest.raises(asyncio.CancelledError):
        await notification
    await until(lambda: not any(map(is_alive, found)))


@pytest.mark.parametrize("body", [BODY, LARGE], ids=["small", "large"])
async def test_command_notifier_accepts_a_program_that_does_not_read_stdin(body: dict[str, Any]) -> None:
    await CommandNotifier(("true",)).send(None, body)
    assert "exit code 1" in (await send_failure(("false",), body=body)).message


async def test_command_notifier_waits_for_a_program_that_closed_its_stdin(tmp_path: Path) -> None:
    out, gate = tmp_path / "out", tmp_path / "gate"
    script = 'exec <&-; echo closed > "$1"; while [ ! -e "$2" ]; do sleep 0.02; done; echo done > "$1"'
    notification = asyncio.create_task(CommandNotifier(sh(script, out, gate)).send(None, LARGE))
    await until(lambda: out.read_text() == "closed\n")
    assert not notification.done()
    gate.touch()
    await notification
    assert out.read_text() == "done\n"


async def test_command_notifier_ends_a_program_that_never_reads_stdin() -> None:
    assert "did not end within 0.5 s" in (await send_failure(("sleep", "1000"), 0.5, LARGE)).message


async def test_command_notifier_does_not_block_a_program_with_long_output() -> None:
    await CommandNotifier(
        sh("cat > /dev/null; head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2")
    ).send(None, BODY)


async def test_command_notifier_runs_the_program_in_its_own_kernel_session(tmp_path: Path) -> None:
    out = tmp_path / "out"
    await CommandNotifier(sh('echo $$ $(cut -d" " -f5,6,7 /proc/$$/stat) $(pwd) > "$1"', out)).send(
        None, BODY
    )
    pid, group, session, tty, directory = out.read_text().split()
    assert (group, session, tty, directory) == (pid, pid, "0", "/")
    assert os.getsid(0) != int(session)


@pytest.mark.parametrize("defect", ["missing", "not executable", "a directory", "bad interpreter"])
async def test_command_notifier_fails_when_the_program_cannot_run(tmp_path: Path, defect: str) -> None:
    program = tmp_path / "program"
    match defect:
        case "not executable":
            program.write_text("#!/bin/sh\n")
            program.chmod(0o600)
        case "a directory":
            program.mkdir()
        case "bad interpreter":
            program.write_text("#!/no/such/interpreter\n")
            program.chmod(0o700)
        case _:
            pass
    reason = "No such file" if defect in ("missing", "bad interpreter") else "Permission denied"
    error = await send_failure((str(program),))
    assert error.message.startswith(f"cannot run notify.command: {reason}")


async def test_command_notifier_fails_without_retry_when_no_command_is_configured() -> None:
    with pytest.raises(NotifyFailed, match="no longer configured") as caught:
        await CommandNotifier(None).send(None, BODY)
    assert not caught.value.retryable


@pytest.mark.parametrize("command", [(), ("",), ("-c",)])
def test_config_refuses_a_notify_command_without_a_program(command: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError, match="must begin with the name or path of a program"):
        Config.model_validate({"notify": {"command": command}})

"""`notify.command` with real programs: what they get, and that none of them outlives its time."""

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
from tests.load import scaled
from tests.terminals.world import until

pytestmark = pytest.mark.processes

BODY: dict[str, Any] = {"type": "error", "text": 'it said "grüß dich"', "occasion": "1a2b3c4d/ending:1"}
LARGE = {**BODY, "text": "x" * 300_000}
"""More than a pipe holds."""


def sh(script: str, *arguments: object) -> tuple[str, ...]:
    return ("sh", "-c", script, "sh", *map(str, arguments))


async def refusal(
    command: tuple[str, ...], within_s: float = 20.0, body: dict[str, Any] = BODY
) -> NotifyFailed:
    with pytest.raises(NotifyFailed) as caught:
        await CommandNotifier(command, within_s).tell(None, body)
    assert not caught.value.again  # it may have done what it was for
    return caught.value


async def processes(path: Path, count: int) -> list[Process]:
    """Those whose ids a program has written, one a line, when all of them are there."""
    await until(lambda: path.read_text().count("\n") == count)
    found = [identify(int(line)) for line in path.read_text().split()]
    assert None not in found
    return [each for each in found if each is not None]


async def test_the_program_reads_one_line_of_JSON(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for body in (BODY, LARGE):
        await CommandNotifier(sh('cat > "$1"', out)).tell(None, body)
        text = out.read_bytes()
        assert orjson.loads(text) == body
        assert text.endswith(b"}\n") and text.count(b"\n") == 1


async def test_its_arguments_are_no_shells(tmp_path: Path) -> None:
    out = tmp_path / "out"
    await CommandNotifier(sh('printf "%s\\n" "$@" > "$1"', out, "$HOME `id` *; exit 3")).tell(None, BODY)
    assert out.read_text() == f"{out}\n$HOME `id` *; exit 3\n"


@pytest.mark.parametrize("code", [1, 3, 127, 255])
async def test_another_exit_code_than_0_is_not_told_and_not_repeated(tmp_path: Path, code: int) -> None:
    out = tmp_path / "out"
    error = await refusal(sh('echo ran >> "$1"; exit $2', out, code))
    assert error.message == f"notify.command ended with exit code {code}"
    assert out.read_text() == "ran\n"


async def test_a_program_that_is_killed_is_not_told() -> None:
    assert "exit code -9" in (await refusal(sh("kill -9 $$"))).message


async def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = 'trap "" TERM HUP INT; echo $$ >> "$1"; sh -c \'echo $$ >> "$1"; sleep 1000\' sh "$1" & wait'
    within_s = scaled(3.0)
    telling = asyncio.create_task(refusal(sh(script, pids), within_s=within_s))
    found = await processes(pids, 2)
    assert not telling.done()
    assert f"did not end within {within_s:g} s" in (await telling).message
    await until(lambda: not any(map(is_alive, found)))


async def test_a_program_is_ended_with_its_children_when_the_daemon_ends(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = 'echo $$ >> "$1"; sh -c \'echo $$ >> "$1"; sleep 1000\' sh "$1" & wait'
    telling = asyncio.create_task(CommandNotifier(sh(script, pids)).tell(None, BODY))
    found = await processes(pids, 2)
    telling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await telling
    await until(lambda: not any(map(is_alive, found)))


@pytest.mark.parametrize("body", [BODY, LARGE], ids=["small", "large"])
async def test_a_program_need_not_read_its_stdin(body: dict[str, Any]) -> None:
    await CommandNotifier(("true",)).tell(None, body)
    assert "exit code 1" in (await refusal(("false",), body=body)).message


async def test_a_program_that_closes_its_stdin_may_go_on_working(tmp_path: Path) -> None:
    out, gate = tmp_path / "out", tmp_path / "gate"
    script = 'exec <&-; echo closed > "$1"; while [ ! -e "$2" ]; do sleep 0.02; done; echo done > "$1"'
    telling = asyncio.create_task(CommandNotifier(sh(script, out, gate)).tell(None, LARGE))
    await until(lambda: out.read_text() == "closed\n")
    assert not telling.done()
    gate.touch()
    await telling
    assert out.read_text() == "done\n"


async def test_a_program_that_reads_nothing_and_stays_is_ended() -> None:
    assert "did not end within 0.5 s" in (await refusal(("sleep", "1000"), 0.5, LARGE)).message


async def test_a_program_that_says_more_than_a_pipe_holds_is_not_held_up() -> None:
    await CommandNotifier(
        sh("cat > /dev/null; head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2")
    ).tell(None, BODY)


async def test_a_program_runs_in_a_kernel_session_of_its_own_with_no_terminal(tmp_path: Path) -> None:
    out = tmp_path / "out"
    await CommandNotifier(sh('echo $$ $(cut -d" " -f5,6,7 /proc/$$/stat) $(pwd) > "$1"', out)).tell(
        None, BODY
    )
    pid, group, session, tty, directory = out.read_text().split()
    assert (group, session, tty, directory) == (pid, pid, "0", "/")
    assert os.getsid(0) != int(session)


@pytest.mark.parametrize("defect", ["missing", "not executable", "a directory", "bad interpreter"])
async def test_a_program_that_cannot_be_run_is_given_up_with_its_reason(tmp_path: Path, defect: str) -> None:
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
    error = await refusal((str(program),))
    assert error.message.startswith(f"notify.command cannot be run: {reason}")


async def test_a_program_that_is_configured_no_more_is_given_up() -> None:
    with pytest.raises(NotifyFailed, match="configured no more") as caught:
        await CommandNotifier(None).tell(None, BODY)
    assert not caught.value.again


@pytest.mark.parametrize("command", [(), ("",), ("-c",)])
def test_a_command_without_a_program_is_refused_in_the_configuration(command: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError, match="must begin with a program"):
        Config.model_validate({"notify": {"command": command}})

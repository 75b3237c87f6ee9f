"""Programs on a pseudo-terminal of their own."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping

import pytest

from sm.core.models import Process
from sm.linux.processes import identify, is_alive
from sm.linux.pty_process import PtyProcess, pty_process
from tests.waits import until_async

pytestmark = pytest.mark.processes

ENVIRONMENT = {"PATH": os.environ["PATH"], "TERM": "dumb"}
SIZE = (80, 24)


async def output_until(terminal: PtyProcess, text: str) -> str:
    output = ""
    while text not in output:
        piece = await terminal.read()
        assert piece, f"the terminal is closed after {output!r}"
        output += piece.decode()
    return output


async def process_of(terminal: PtyProcess) -> Process:
    """The shell that prints its pid."""
    output = await output_until(terminal, "\n")
    process = identify(int(output.partition("\n")[0]))
    assert process is not None
    return process


async def test_program_gets_its_environment_size_and_input() -> None:
    script = "env | sort | tr '\\n' ' '; stty size; read line; echo got $line"
    async with pty_process(["sh", "-c", script], ENVIRONMENT, 91, 17) as terminal:
        output = await output_until(terminal, "17 91")
        names = {word.partition("=")[0] for word in output.split() if "=" in word}
        assert names - {"PWD", "SHLVL", "OLDPWD", "_"} == ENVIRONMENT.keys()
        await terminal.write(b"typed\r")
        await output_until(terminal, "got typed")
        assert [await terminal.read(), await terminal.read()] in ([b"", b""], [b"\r\n", b""])


async def test_program_is_told_of_another_size() -> None:
    script = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.1; done"
    async with pty_process(["sh", "-c", script], ENVIRONMENT, *SIZE) as terminal:
        await output_until(terminal, "ready")
        terminal.resize(100, 30)
        await output_until(terminal, "30 100")


async def test_program_is_hung_up_when_the_terminal_closes() -> None:
    async with pty_process(["sh", "-c", "echo $$; read line"], ENVIRONMENT, *SIZE) as terminal:
        process = await process_of(terminal)
    assert not is_alive(process)


async def test_program_that_ignores_the_hang_up_is_killed() -> None:
    script = "trap '' HUP; echo $$; while :; do sleep 0.1; done"
    async with pty_process(["sh", "-c", script], ENVIRONMENT, *SIZE) as terminal:
        process = await process_of(terminal)
    assert not is_alive(process)


async def test_nothing_is_read_ahead_of_the_reader() -> None:
    """A program that nobody reads blocks in its terminal."""
    script = "import sys\nfor n in range(10**9): sys.stdout.write('x' * 100); sys.stderr.flush()"
    async with pty_process(
        [sys.executable, "-c", f"import os\nprint(os.getpid())\n{script}"], ENVIRONMENT, *SIZE
    ) as terminal:
        process = await process_of(terminal)

        async def sleeps() -> bool:
            with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
                return file.read().rpartition(") ")[2][0] == "S"

        await until_async(sleeps, "the program blocks")
        assert await terminal.read()


async def test_input_waits_while_the_program_does_not_read() -> None:
    script = "stty raw -echo; echo ready; read line; cat >/dev/null"
    async with pty_process(["sh", "-c", script], ENVIRONMENT, *SIZE) as terminal:
        await output_until(terminal, "ready")
        await terminal.write(b"\n" + b"x" * 1_000_000)


async def test_input_for_an_ended_program_is_dropped() -> None:
    async with pty_process(["true"], ENVIRONMENT, *SIZE) as terminal:
        assert await terminal.read() == b""
        await terminal.write(b"late")


async def test_program_that_cannot_be_run_leaves_nothing() -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        async with pty_process(["/nonexistent"], ENVIRONMENT, *SIZE):
            pass
    assert len(os.listdir("/proc/self/fd")) == len(before)


async def test_program_ends_when_its_owner_is_killed(tmp_path: object) -> None:
    owner = (
        "import asyncio, os, signal\nfrom sm.linux.pty_process import pty_process\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"  # as below nohup
        "async def main():\n"
        " async with pty_process(['sh', '-c', 'echo $$; sleep 1000'], os.environ, 80, 24) as terminal:\n"
        "  print((await terminal.read()).decode(), flush=True)\n"
        "  await asyncio.sleep(1000)\n"
        "asyncio.run(main())"
    )
    environment: Mapping[str, str] = {**os.environ}
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-c", owner, env=environment, stdout=asyncio.subprocess.PIPE
    )
    assert running.stdout is not None
    process = identify(int(await running.stdout.readline()))
    assert process is not None
    running.send_signal(signal.SIGKILL)
    await running.wait()

    async def is_gone() -> bool:
        return not is_alive(process)

    await until_async(is_gone, "the program has ended")

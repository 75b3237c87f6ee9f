"""Types into terminals: pastes a text, types a line, presses a key. Shows lines to the people at a terminal."""

import asyncio
import contextlib
import functools
import math
import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, ParamSpec

from sm.errors import NoTerminal, TerminalBusy, TerminalUnreachable
from sm.linux.processes import read_stat
from sm.linux.ttys import has_unread_input
from sm.terminals.base import Busy, Pane
from sm.terminals.tmux import panes
from sm.terminals.tmux.control import Command, Refused
from sm.terminals.tmux.lookup import Finder, process_ended, translate_refusal
from sm.terminals.tmux.tmux_server import TmuxServer

SETTLE_S: Final = 0.02
"""The pause between a paste and Enter: without it a program may treat Enter as part of the paste."""
_SETTLE_S_PER_CHARACTER: Final = 1 / 100_000
_COMMAND_MAX_BYTES: Final = 4096
_SHOWN_MS: Final = 10_000
"""How long a line is shown if the person presses no key."""


Arguments = ParamSpec("Arguments")


def _busy_as_answer(
    typing: Callable[Arguments, Awaitable[None]],
) -> Callable[Arguments, Awaitable[Busy | None]]:
    """Return the error of a busy terminal, which ends all steps of the method, as its answer."""

    @functools.wraps(typing)
    async def typed(*arguments: Arguments.args, **options: Arguments.kwargs) -> Busy | None:
        try:
            await typing(*arguments, **options)
        except TerminalBusy as error:
            return Busy(error.message)
        return None

    return typed


class TmuxKeyboard:
    """Types into live terminals, as in `Keyboard`. `scratch` is a directory for texts too long for a command."""

    def __init__(self, server: TmuxServer, finder: Finder, scratch: str | None) -> None:
        self._server = server
        self._finder = finder
        self._scratch = scratch

    @_busy_as_answer
    async def paste(self, name: str, *texts: str) -> None:
        pane = await self._running(name)
        with translate_refusal(name):
            await self._paste(pane, *texts)

    async def running(self, name: str) -> Pane | Busy:
        try:
            return await self._running(name)
        except TerminalBusy as error:
            return Busy(error.message)

    async def _running(self, name: str) -> Pane:
        with _nothing_typed(name):
            return await self._finder.find_running(name)

    @_busy_as_answer
    async def type_line(self, name: str, text: str, pane: Pane | None = None) -> None:
        pane = pane or await self._running(name)
        if text:
            with translate_refusal(name):
                await self._paste(pane, text)
        await self._settle(text)
        try:
            # A separate line: sent together with the paste, Enter would be text.
            await self._press(pane, "Enter")
        except (NoTerminal, TerminalBusy) as error:
            if not text:
                raise
            raise TerminalUnreachable(f"{error.message}, after the text was pasted") from None

    async def _settle(self, text: str) -> None:
        await asyncio.sleep(SETTLE_S + len(text) * _SETTLE_S_PER_CHARACTER)

    async def _type(self, pane: Pane, *commands: Command, before: Sequence[Command] = ()) -> None:
        """Run `before`, and then `commands` if the pane still runs the same process.

        First leave copy mode or another mode, in which a key is a command. Raises NoTerminal, Refused; TerminalBusy
        when another program than the agent has the terminal of an adopted pane.
        """
        if pane.foreign and not _has_terminal(pane.agent_pid):
            raise _other_program(pane.name)
        leave = ("copy-mode", "-q", "-t", pane.pane_id)
        *_, printed = await self._server.ask(leave, *before, panes.unless_gone(pane, *commands))
        if printed == [panes.GONE]:
            raise _other_program(pane.name) if pane.foreign else process_ended(pane.name)

    async def _press(self, pane: Pane, key: str) -> None:
        with translate_refusal(pane.name):
            await self._type(pane, ("send-keys", "-t", pane.pane_id, key))

    async def _paste(self, pane: Pane, *texts: str) -> None:
        """Paste bracketed (-p) and unchanged (-r), from buffers that tmux then deletes (-d)."""
        name = f"sm-{secrets.token_hex(6)}"
        buffers = {f"{name}-{number}": text for number, text in enumerate(texts)}
        pastes = [("paste-buffer", "-p", "-r", "-d", "-b", buffer, "-t", pane.pane_id) for buffer in buffers]
        try:
            with contextlib.ExitStack() as files:
                fill = [self._fill(buffer, text, files) for buffer, text in buffers.items()]
                await self._type(pane, *pastes, before=fill)
        except (Refused, NoTerminal, TerminalBusy):
            for buffer in buffers:
                self._server.send_nowait(("delete-buffer", "-b", buffer))
            raise

    def _fill(self, buffer: str, text: str, files: contextlib.ExitStack) -> Command:
        """The command that fills a buffer, for a long text from a file that lives as long as `files`."""
        if len(text.encode()) <= _COMMAND_MAX_BYTES:
            return ("set-buffer", "-b", buffer, "--", text)
        scratch = tempfile.NamedTemporaryFile("wb", prefix="sm-paste-", dir=self._scratch)  # noqa: SIM115 - closed by `files`; 0600
        file = files.enter_context(scratch)
        file.write(text.encode())
        file.flush()
        return ("load-buffer", "-b", buffer, file.name)

    async def enter_if_unsent(self, name: str, text: str) -> bool:
        pane = await self._finder.find_running(name)
        to = ("-t", pane.pane_id)
        with translate_refusal(name):
            _, (cursor,) = await self._server.ask(
                ("copy-mode", "-q", *to), ("display-message", "-p", *to, "#{cursor_y}")
            )
            # Include history, because a long line may have scrolled; join lines, because it may be wrapped.
            shown = ("capture-pane", "-p", "-J", *to, "-S", "-100", "-E", cursor)
            lines = await self._server.ask_for_text(shown)
        if not text or not lines or not lines[-1].rstrip().endswith(text.rstrip()):
            return False
        await self._press(pane, "Enter")
        return True

    @_busy_as_answer
    async def press(self, name: str, key: str) -> None:
        await self._press(await self._running(name), panes.word(key))

    async def key_pause_s(self, name: str) -> float:
        pane = await self._finder.find_running(name)
        # tmux counts only the keys of attached clients as activity of the session, in whole seconds.
        receives_keys = "#{&&:#{session_attached},#{&&:#{window_active},#{pane_active}}}"
        format = f"#{{?{receives_keys},#{{session_activity}},}}"
        with translate_refusal(name):
            ((activity,),) = await self._server.ask(("display-message", "-p", "-t", pane.pane_id, format))
        return time.time() - (int(activity) + 1) if activity.isdecimal() else math.inf

    async def show_line(self, name: str, text: str) -> None:
        pane = await self._finder.find_running(name)
        # tmux expands the line: formats, also `#(command)`, and times.
        line = text.replace("#", "##").replace("%", "%%")
        with translate_refusal(name):
            clients = await self._server.ask_for_text(
                ("list-clients", "-t", pane.pane_id, "-F", "#{client_control_mode} #{client_name}")
            )
            for client in clients:
                is_control, _, client_name = client.partition(" ")
                if is_control == "0":
                    self._server.send_nowait(
                        ("display-message", "-c", client_name, "-d", str(_SHOWN_MS), "--", line)
                    )

    async def has_unread_input(self, name: str) -> bool:
        pane = await self._finder.find_running(name)
        return await asyncio.to_thread(has_unread_input, pane.tty)


def _has_terminal(agent_pid: int | None) -> bool:
    """False when an agent has ended, or is in the background of its shell. True when nothing is known."""
    if agent_pid is None:
        return True
    stat = read_stat(agent_pid)
    return stat is not None and not stat.gone and stat.group == stat.foreground_group


def _other_program(name: str) -> TerminalBusy:
    return TerminalBusy(f"another program than the agent has terminal {name}")


@contextlib.contextmanager
def _nothing_typed(name: str) -> Iterator[None]:
    """Raise TerminalBusy when tmux does not answer, for the steps before anything is typed."""
    try:
        with translate_refusal(name):
            yield
    except TerminalUnreachable as error:
        raise TerminalBusy(f"terminal {name} does not respond: {error.message}") from None

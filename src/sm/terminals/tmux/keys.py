"""Types into terminals: pastes a text, types a line, presses a key."""

import asyncio
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sm.errors import TerminalBusy, TerminalUnreachable
from sm.terminals.base import Pane
from sm.terminals.tmux import panes
from sm.terminals.tmux.control import Refused
from sm.terminals.tmux.lookup import Finder, expected
from sm.terminals.tmux.server import TmuxServer

SETTLE_S: Final = 0.02
"""Between a paste and Enter, which a program could else take for a part of the paste; longer for a longer text."""
_SETTLE_S_PER_CHARACTER: Final = 1 / 100_000
_COMMAND_MAX_BYTES: Final = 4096


class TmuxKeyboard:
    """Types into the living terminals that `Finder` finds; each method is as in `Keyboard`.

    `scratch` is a directory for texts that are too long for a command.
    """

    def __init__(self, server: TmuxServer, finder: Finder, scratch: str | None) -> None:
        self._server = server
        self._finder = finder
        self._scratch = scratch

    async def paste(self, name: str, text: str) -> None:
        pane = await self._awake(name)
        with expected(name):
            await self._paste(pane, text)

    async def type_line(self, name: str, text: str) -> None:
        pane = await self._awake(name)
        with expected(name):
            if text:
                await self._paste(pane, text)
            await asyncio.sleep(SETTLE_S + len(text) * _SETTLE_S_PER_CHARACTER)
            # A line of its own: written in one go with the paste, Enter would be text.
            await self._server.ask(
                ("copy-mode", "-q", "-t", pane.pane_id), ("send-keys", "-t", pane.pane_id, "Enter")
            )

    async def _awake(self, name: str) -> Pane:
        """The pane, out of copy mode and any other: there a key is a command."""
        with _untyped(name):
            pane = await self._finder.living(name)
            await self._server.ask(("copy-mode", "-q", "-t", pane.pane_id))
        return pane

    async def _paste(self, pane: Pane, text: str) -> None:
        """As a bracketed paste (-p) of the text as it is (-r), from a buffer of our own that goes with it (-d)."""
        buffer = f"sm-{secrets.token_hex(6)}"
        paste = ("paste-buffer", "-p", "-r", "-d", "-b", buffer, "-t", pane.pane_id)
        try:
            if len(text.encode()) <= _COMMAND_MAX_BYTES:
                await self._server.ask(("set-buffer", "-b", buffer, "--", text), paste)
                return
            with tempfile.NamedTemporaryFile("wb", prefix="sm-paste-", dir=self._scratch) as file:  # 0600
                file.write(text.encode())
                file.flush()
                await self._server.ask(("load-buffer", "-b", buffer, file.name), paste)
        except Refused:
            self._server.tell(("delete-buffer", "-b", buffer))
            raise

    async def enter_if_unsent(self, name: str, text: str) -> bool:
        pane = await self._finder.living(name)
        to = ("-t", pane.pane_id)
        with expected(name):
            _, (cursor,) = await self._server.ask(
                ("copy-mode", "-q", *to), ("display-message", "-p", *to, "#{cursor_y}")
            )
            # From the history on, because a long line may have scrolled; joined, because it may be wrapped.
            shown = ("capture-pane", "-p", "-J", *to, "-S", "-100", "-E", cursor)
            lines = await self._server.ask_for_text(shown)
            if not text or not lines or not lines[-1].rstrip().endswith(text.rstrip()):
                return False
            await self._server.ask(("send-keys", *to, "Enter"))
        return True

    async def press(self, name: str, key: str) -> None:
        with _untyped(name):
            pane = await self._finder.living(name)
        to = ("-t", pane.pane_id)
        with expected(name):
            await self._server.ask(("copy-mode", "-q", *to), ("send-keys", *to, panes.word(key)))


@contextmanager
def _untyped(name: str) -> Iterator[None]:
    """Raise TerminalBusy where tmux does not answer: nothing was typed by then."""
    try:
        with expected(name):
            yield
    except TerminalUnreachable as error:
        raise TerminalBusy(f"terminal {name} does not answer: {error.message}") from None

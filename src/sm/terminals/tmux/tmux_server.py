"""Connects to one tmux server, starts it when needed, keeps a session in it, and runs commands."""

import asyncio
import contextlib
import logging
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from sm.errors import NoServer, TerminalError, TerminalUnreachable
from sm.terminals.tmux import panes
from sm.terminals.tmux.control import Command, Control, Refused, output_of

log = logging.getLogger(__name__)

OLDEST: Final = (3, 2)
"""The first tmux with -N, client flags, subscriptions, filters and `new-window -b`."""
INSTALL_HINT: Final = "sudo apt-get install tmux"
START_TIMEOUT_S: Final = 15.0
"""A starting server first runs the user's tmux.conf with all its commands."""
GLOBAL_WINDOW_SIZE: Final = ("show-options", "-gwv", "window-size")
_SUBSCRIPTION = "sm"


class TmuxServer:
    """The server with this socket name, or the user's default server.

    The connection is attached to a keeper session, so that it outlives every agent's session. The first call
    connects; after a lost connection the next call reconnects.
    """

    def __init__(
        self,
        instance: str,
        socket_name: str | None,
        environment: Mapping[str, str],
        timeout_s: float,
        umask: int = -1,
        before_exec: Callable[[], None] | None = None,
    ) -> None:
        self._pid = 0
        self._session = ""
        self._pane = ""
        self.instance = instance
        self._keeper = f"sm-{instance[:8]}"
        self._label = socket_name or "default"
        self._tmux = ("tmux", "-L", self._label)
        self._umask = umask
        self._before_exec = before_exec
        # With TMUX set, a client connects to the server named there.
        self._environment = {k: v for k, v in environment.items() if k not in ("TMUX", "TMUX_PANE")}
        self._timeout_s = timeout_s
        self._connecting = asyncio.Lock()
        self._control: Control | None = None
        self._tmux_checked = False
        self._crashes_on_manual = False
        self.trouble: str | None = None
        """The reason why tmux did not answer the last command; None when it answered or does not run."""
        self._subscription: tuple[str, Callable[[str], None]] | None = None

    async def ask(self, *commands: Command, start: bool = False) -> list[list[str]]:
        """Run the commands as one line and return the output lines of each command.

        Starts a server only with `start`. Raises NoServer; Refused; TerminalUnreachable; TerminalError when the
        keeper's name is taken.
        """
        # With `start` retry once: the effects of the line are gone with a server that has ended.
        with self._tracked():
            for _ in range(2 if start else 1):
                control = await self._connected(start=start)
                try:
                    return await control.ask(*commands)
                except Refused:
                    raise
                except TerminalUnreachable:
                    if not await self._is_gone():
                        raise
            raise NoServer("the tmux server has ended")

    async def ask_for_text(self, command: Command) -> list[str]:
        """As `ask` for one command that prints text of an agent (see `control.Replies`)."""
        with self._tracked():
            control = await self._connected(start=False)
            try:
                return await control.ask_for_text(command)
            except Refused:
                raise
            except TerminalUnreachable:
                if await self._is_gone():
                    raise NoServer("the tmux server has ended") from None
                raise

    @contextlib.contextmanager
    def _tracked(self) -> Iterator[None]:
        """Keep the reason in `trouble` while tmux does not answer."""
        try:
            yield
        except (Refused, NoServer):
            self.trouble = None
            raise
        except TerminalUnreachable as error:
            self.trouble = error.message
            raise
        self.trouble = None

    @property
    def connection(self) -> Control | None:
        """The living connection. While it is the same one, so is the server, and `ask` uses it."""
        return self._control if self._control is not None and self._control.alive else None

    @property
    def known_pid(self) -> int | None:
        """The pid of the server, without asking; None without a connection."""
        return self._pid or None if self.connection is not None else None

    async def pid(self) -> int:
        """Raises NoServer, TerminalUnreachable."""
        await self._connected(start=False)
        return self._pid

    async def kill(self, command: str, target: str) -> None:
        """Run `kill-session` or `kill-pane` on an id; ignore an id that is gone. Raises as `ask`."""
        with contextlib.suppress(Refused):  # tmux refuses an id only when it is gone
            await self.ask((command, "-t", target))

    def send_nowait(self, *commands: Command) -> None:
        """Send the commands as one line and ignore the result. Does nothing without a connection."""
        if self._control is not None and self._control.alive:
            self._control.send_nowait(*commands)

    def subscribe(self, format: str, listener: Callable[[str], None]) -> None:
        """Call `listener` with the value of `format` when it changes; tmux checks about once a second.

        After a lost connection the subscription resumes with the next command.
        """
        self._subscription = (format, listener)
        self.send_nowait(self._subscribe_command(format))

    def _subscribe_command(self, format: str) -> Command:
        # On the keeper's pane, although the format covers all sessions: when a client that subscribed to its session
        # ends, tmux 3.3a may evaluate the subscription once more without a session, and crashes.
        return ("refresh-client", "-B", f"{_SUBSCRIPTION}:{self._pane}:{format}")

    async def aclose(self) -> None:
        """End the client; nothing in tmux changes. A later call reconnects."""
        async with self._connecting:
            control, self._control = self._control, None
            if control is not None:
                control.drop("the connection was closed")
                await control.wait_ended()

    async def remove_spare(self) -> None:
        """Remove every spare session of this instance. Raises NoServer, TerminalUnreachable."""
        await self._remove_idle(await self._connected(start=False), self._session)

    async def retire(self) -> None:
        """Remove the keeper session, and with it the client. A server without another session then ends."""
        try:
            control = await self._connected(start=False)
            await control.ask(("kill-session", "-t", self._session))
        except NoServer:
            return
        except TerminalUnreachable:
            if self._control is not None and self._control.alive:
                raise
        await self.aclose()

    def socket_path(self) -> str:
        """The path of the server's socket (tmux(1), -L and ENVIRONMENT). Ignores a TMUX_TMPDIR that does not exist."""
        base = self._environment.get("TMUX_TMPDIR", "")
        base = os.path.realpath(base if base and os.path.exists(base) else "/tmp")
        return f"{base}/tmux-{os.getuid()}/{self._label}"

    def is_listening(self) -> bool:
        """Return False only when the kernel reports that no server listens. Raises TerminalUnreachable."""
        path = self.socket_path()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect(path)
            except (FileNotFoundError, ConnectionRefusedError):
                return False
            except BlockingIOError:
                pass  # the queue is full: the server exists, and is busy or stopped
            except OSError as error:
                raise TerminalUnreachable(f"cannot use the tmux socket {path}: {error}") from None
        return True

    async def _is_gone(self) -> bool:
        """Return whether the server has ended. Checks for 0.2 s: a server disconnects its clients before it ends."""
        for _ in range(20):
            if not self.is_listening():
                return True
            await asyncio.sleep(0.01)
        return False

    async def _connected(self, *, start: bool) -> Control:
        if self._control is not None and self._control.alive:
            return self._control
        async with self._connecting:
            if self._control is not None:
                if self._control.alive:
                    return self._control
                await self._control.wait_ended()
                self._control = None
            if not start and not self.is_listening():
                raise NoServer("no tmux server is running")
            await self._check_tmux()
            # The answer also shows that the server has removed the previous client. A notification to a client that
            # is still connecting crashes tmux 3.3a.
            self.refuse_manual(await self._run(*GLOBAL_WINDOW_SIZE))
            self._control = await self._connect(start=start)
            return self._control

    async def _connect(self, *, start: bool) -> Control:
        # A start directly after kill-server can fail: the old server still holds its socket.
        pauses_s = [0.02, 0.05, 0.1, 0.2, 0.4] if start else []
        while True:
            try:
                return await self._attach(start=start)
            except TerminalUnreachable as error:
                if not start and await self._is_gone():
                    raise NoServer("the tmux server has ended") from None
                if not pauses_s or self.is_listening():
                    raise
                log.debug("could not start a tmux server yet: %s", error)
                await asyncio.sleep(pauses_s.pop(0))

    async def _attach(self, *, start: bool) -> Control:
        client = (*self._tmux, "-u", *(() if start else ("-N",)), "-C")
        keeper = ("/bin/sh", "-c", "exec sleep 2147483647", "sm-keeper", self.instance)
        attach = ("new-session", "-A", "-s", self._keeper, "-x", "80", "-y", "24", "-c", "/")
        flags = ("-f", "no-output,ignore-size")
        argv = (*client, *attach, *flags, "--", *keeper)
        control = await Control.start(
            argv, self._environment, self._notified, self._timeout_s, self._umask, self._before_exec
        )
        try:
            session = await control.wait_attached(START_TIMEOUT_S if start else self._timeout_s)
            await self._set_up_keeper(control, session, " ".join(keeper[-2:]))
        except BaseException:
            control.drop("the connection could not be set up")
            await control.wait_ended()
            raise
        return control

    async def _set_up_keeper(self, control: Control, session: str, keeper: str) -> None:
        """Check that the attached session is the keeper, and set its options.

        Uses the session's id: a hook may have renamed the session.
        """
        # All panes of the session, because a hook may have opened others.
        show = "#{pid} #{pane_id} x#{@sm_instance} #{pane_start_command}"
        (lines,) = await control.ask(("list-panes", "-s", "-t", session, "-F", show))
        pid, pane, owner, _ = lines[0].split(" ", 3)
        if owner != f"x{self.instance}" and not (owner == "x" and any(p.endswith(keeper) for p in lines)):
            raise TerminalError(
                f"a tmux session named {self._keeper} exists, and sm did not create it",
                f"tmux -S {self.socket_path()} rename-session -t ={self._keeper} something-else",
            )
        await control.ask(
            ("set-option", "-t", session, "@sm_instance", self.instance),
            ("set-option", "-t", session, "destroy-unattached", "off"),
            # Else tmux moves the client into a session of the user when the keeper is killed.
            ("set-option", "-t", session, "detach-on-destroy", "on"),
        )
        await self._remove_idle(control, session)
        (left,) = await control.ask(panes.dead_with_input(self.instance))
        for pane_id in left:
            control.send_nowait(panes.input_off(pane_id))
        self._pid = int(pid)
        self._session = session
        self._pane = pane
        if self._subscription is not None:
            control.send_nowait(self._subscribe_command(self._subscription[0]))
        log.debug("connected to the tmux server %s", pid)

    async def _remove_idle(self, control: Control, keeper: str) -> None:
        """Remove this instance's sessions without an agent, except `keeper`, the attached session.

        A keeper that a hook renamed is not found by its name, so each connection makes another one. A killed daemon
        leaves its spare session.
        """
        own = f"#{{==:#{{@sm_instance}},{self.instance}}}"
        show = "#{session_id} #{?@sm_session_id,agent,idle}"
        (lines,) = await control.ask(("list-sessions", "-f", own, "-F", show))
        for line in lines:
            session, _, use = line.partition(" ")
            if use == "idle" and session != keeper:
                control.send_nowait(("kill-session", "-t", session))

    def _notified(self, line: str) -> None:
        if self._subscription is not None and line.startswith(f"%subscription-changed {_SUBSCRIPTION} "):
            # From the event loop: an exception in the listener must not end the connection.
            asyncio.get_running_loop().call_soon(self._subscription[1], line.partition(" : ")[2])

    def refuse_manual(self, window_size: str) -> None:
        """Raise TerminalError when a new window would crash the server and with it all sessions of the user.

        `window_size` is the output of GLOBAL_WINDOW_SIZE.
        """
        if window_size == "manual" and self._crashes_on_manual:
            raise TerminalError(
                "tmux before 3.4 crashes on a new window while the global window-size is manual",
                f"tmux -S {self.socket_path()} set-option -gw window-size latest",
            )

    async def _check_tmux(self) -> None:
        if self._tmux_checked:
            return
        version = await self._run("-V")
        if older(version, OLDEST):
            needed = ".".join(str(part) for part in OLDEST)
            raise TerminalError(f"{version} is too old, sm needs tmux {needed} or newer", INSTALL_HINT)
        self._crashes_on_manual = older(version, (3, 4))
        self._tmux_checked = True

    async def _run(self, *command: str) -> str:
        """The output of a separate client; empty when it fails. Starts no server."""
        try:
            return await output_of((*self._tmux, "-N", *command), self._environment, self._timeout_s)
        except (FileNotFoundError, PermissionError):
            raise TerminalError("tmux is not installed", INSTALL_HINT) from None


def older(version: str, release: tuple[int, int]) -> bool:
    """Compare the output of `tmux -V` with `release`. A version without a number (`tmux master`) is new."""
    number = re.search(r"(\d+)\.(\d+)", version)
    return number is not None and (int(number[1]), int(number[2])) < release

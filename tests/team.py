"""Sandboxed sessions of two workspaces, which call their workspace's socket with the token of their process.

They run without containers: they start as direct sessions, their rows change while no daemon runs, and the daemon takes
every process of this host for one in a container.
"""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sm.paths import InstancePaths
from tests.instance import Instance
from tests.raw_http import Connect, connected, exchange, parse_response, request

CONFIG = "limits: {spawn_interval_s: 0}"


@dataclass(frozen=True)
class AgentClient:
    """A caller on one socket. `connect`: opens its connections, which are played in a simulation."""

    socket: str
    token: str | None
    connect: Connect = connected

    def ask(self, method: str, path: str, body: object = None, *headers: str) -> tuple[int, Any]:
        """The HTTP status and the JSON of the response."""
        authorization = [] if self.token is None else [f"Authorization: Bearer {self.token}"]
        content = b"" if body is None else json.dumps(body).encode()
        return parse_response(
            exchange(
                self.socket,
                request(f"{method} {path} HTTP/1.1", *authorization, *headers, body=content),
                connect=self.connect,
            )
        )

    def get(self, path: str) -> Any:
        status, answer = self.ask("GET", path)
        assert status == 200, (path, answer)
        return answer

    def refused(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        """The HTTP status and the code of an error."""
        status, answer = self.ask(method, path, body)
        assert status >= 400, (path, answer)
        return status, answer["error"]["code"]


class SandboxedTeam:
    """Workspace `shop` has a parent with a child, a sibling and a direct session; `bank` has one session.

    One more sandboxed session has no workspace. The subclass gives the instance, a daemon that runs, and `start`.
    """

    instance: Any
    connect: Connect

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}

    def start(self) -> None:
        """Start the daemon again."""
        raise NotImplementedError

    def begin(self) -> None:
        for slug in ("shop", "bank"):
            directory = self.instance.home / slug
            directory.mkdir()
            self.instance.sm("workspace", "create", slug, "--working-dir", str(directory))
        for name, workspace, parent in (
            ("parent", "shop", None),
            ("child", "shop", "parent"),
            ("sibling", "shop", None),
            ("direct", "shop", None),
            ("banker", "bank", None),
            ("loner", None, None),
        ):
            options = ["--workspace", workspace] if workspace and not parent else []
            options += ["--parent", self.ids[parent]] if parent else []
            self.ids[name] = self.instance.spawn("Sleeper", "x", "--name", name, *options)["session_id"]
        self.sandbox(*(name for name in self.ids if name != "direct"))

    def sandbox(self, *names: str) -> None:
        """Make these sessions sandboxed, and restart the daemon."""
        self.instance.sm("daemon", "stop")
        with closing(sqlite3.connect(self.instance.state / "sm.db")) as db, db:
            for name in names:
                done = db.execute(
                    "UPDATE sessions SET trust_level = 'sandboxed', effective_mode = 'sandboxed' WHERE id = ?",
                    (self.ids[name],),
                )
                assert done.rowcount == 1
        (self.instance.state / "stopped").unlink()
        self.start()

    def socket(self, workspace: str | None) -> str:
        return InstancePaths("", str(self.instance.state)).agent_socket(workspace)

    def token(self, name: str) -> str:
        return Path(self.token_file(name)).read_text().strip()

    def token_file(self, name: str) -> str:
        return str(self.instance.state / "launch" / f"{self.ids[name]}.token")

    def client(self, name: str, workspace: str | None = "shop") -> AgentClient:
        return self.caller(self.socket(workspace), self.token(name))

    def caller(self, path: str, token: str | None) -> AgentClient:
        return AgentClient(path, token, self.connect)

    def environment(self, name: str, workspace: str | None = "shop") -> dict[str, str]:
        """The environment variables of a command of that session."""
        return {
            "SM_SESSION_ID": self.ids[name],
            "SM_SOCKET": self.socket(workspace),
            "SM_TOKEN_FILE": self.token_file(name),
        }

    def log(self) -> str:
        return Path(self.instance.state, "log", "daemon.log").read_text()

    def exchange(self, path: str, sent: bytes, *, silence_s: float | None = None) -> bytes:
        return exchange(path, sent, silence_s=silence_s, connect=self.connect)

    # The same requests on both kinds of sockets

    def path_of(self, where: str) -> str:
        """The path of the daemon's socket for `sm.sock`, else of the agent socket of `shop`."""
        return str(self.instance.socket) if where == "sm.sock" else self.socket("shop")

    def credentials(self, where: str, name: str = "parent") -> list[str]:
        return [] if where == "sm.sock" else [f"Authorization: Bearer {self.token(name)}"]

    def check_other_callers(self) -> None:
        """Check that other callers get answers on each socket."""
        for path, headers in (
            (str(self.instance.socket), []),
            (self.socket("shop"), self.credentials("agent", "sibling")),
            (self.socket("bank"), self.credentials("agent", "banker")),
        ):
            status, _ = parse_response(self.exchange(path, request("GET /v1/health HTTP/1.1", *headers)))
            assert status == 200, path

    def check_log(self) -> None:
        log = self.log()
        assert "raceback" not in log, log[-5000:]
        assert "sm_bug" not in log

    def end(self) -> None:
        self.instance.end()


class Team(SandboxedTeam):
    """A team of real processes."""

    starts_processes = True

    def __init__(self, start: Callable[[Instance], object] = Instance.start_daemon) -> None:
        super().__init__()
        self.instance: Instance = Instance(CONFIG, contains_host=True)
        self.connect = connected
        self._start = start
        try:
            self.instance.start_daemon()
            self.begin()
        except BaseException:
            self.instance.end()
            raise

    def start(self) -> None:
        self._start(self.instance)

"""An instance whose claude is a sleeping script. The test plays the hooks of its agents."""

import subprocess
from datetime import UTC, datetime
from typing import Any

from tests.instance import SM, Instance
from tests.integration.hook_caller import HookCaller
from tests.played_agent import BOX, CONFIG, Agent, Dialog

__all__ = ["BOX", "CONFIG", "Agent", "Dialog", "Stage"]


class Stage(Instance):
    """An instance whose claude is a sleeping script. `draws`: a shell command that draws its screen."""

    def __init__(self, more: str = "", draws: str = "") -> None:
        super().__init__(config="{}")
        claude = self.home / "stand-in"
        # In line mode, it would count as suspended.
        claude.write_text(f"#!/bin/sh\nstty raw -echo\n{draws}exec sleep 1000\n")
        claude.chmod(0o755)
        self.config.write_text(CONFIG.format(claude=claude) + more)
        self.start_daemon()
        self._agents: list[Agent] = []

    def agent(self, kind: str = "Plain", *arguments: str, **options: Any) -> Agent:
        agent = Agent(self, self.spawn(kind, "work", *arguments, **options)["session_id"])
        self._agents.append(agent)
        return agent

    def start_command(self, *arguments: str, env: dict[str, str] | None = None) -> "subprocess.Popen[str]":
        """Start `sm` with these arguments and return the running process."""
        return subprocess.Popen(
            [SM, *arguments],
            env={**self.env, **self.with_token(env or {})},
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def hook_of(self, session_id: str) -> HookCaller:
        return HookCaller(self, session_id)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def restart(self) -> None:
        self.kill_daemon()
        self.run("daemon", "start")  # a waiting command may have started a daemon already

    def messages(self, agent: Agent) -> list[str]:
        return [message["text"] for message in self.json("log", agent.id)]

    def end(self) -> None:
        for agent in self._agents:
            agent.end()
        super().end()

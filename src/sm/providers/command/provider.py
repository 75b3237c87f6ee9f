"""Runs any program as an agent: the types under `commands:` in the configuration."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from sm.config import AgentConfig, Command
from sm.core.models import Exit, Session, Signal, SpawnRequest
from sm.core.states import SignalKind
from sm.core.usage import Usage
from sm.errors import UsageError
from sm.providers.base import AgentPlan, InputMethod, PlanContext, Provider


class CommandProvider(Provider):
    """Starts a program with the prompt as configured. Exit code 0 means completed."""

    name = "command"
    has_turns = False
    interrupt_key = "C-c"

    def __init__(self, commands: Mapping[str, Command]) -> None:
        self._commands = commands

    @property
    def agent_types(self) -> tuple[str, ...]:
        return tuple(self._commands)

    def agent_config(self, agent_type: str) -> AgentConfig | None:
        command = self._commands.get(agent_type)
        if command is None:
            return None
        return AgentConfig.of_command(command)

    def capability_sources(self, environment: Mapping[str, str], around: Sequence[str]) -> None:
        return None

    def plan(self, request: SpawnRequest, start: PlanContext) -> AgentPlan:
        given = {
            "--model": request.model,
            "--preset": request.preset,
            "--as-command": request.as_command or None,
        }
        for option, value in given.items():
            if value is not None:
                raise UsageError(
                    f"{option} is not supported by agent type {request.agent_type}, which runs a command"
                )
        command = self._commands[request.agent_type]
        argv = (*command.command, *request.extra_args)
        match command.prompt:
            case "argv":
                return AgentPlan(argv if request.prompt is None else (*argv, request.prompt), command.env)
            case "file":
                return AgentPlan(argv, command.env, prompt_file=request.prompt or "")
            case "tty":
                if request.prompt is not None and "\n" in request.prompt:
                    raise UsageError(
                        f"agent type {request.agent_type} accepts only one line as its prompt",
                        "set prompt: argv or prompt: file for the agent type in config.yaml",
                    )
                return AgentPlan(argv, command.env, typed_prompt=request.prompt)

    def begin_again(
        self, start: PlanContext, flags: Sequence[str], conversation: str, prompt: str
    ) -> NoReturn:
        self.resume(start, flags, conversation, fork=False)

    def resume(self, start: PlanContext, flags: Sequence[str], conversation: str, *, fork: bool) -> NoReturn:
        raise UsageError(
            f"agent type {start.session.agent_type} runs a command, which has no conversation to resume"
        )

    def fork_in(self, argv: Sequence[str]) -> None:
        return None

    def read_exit(
        self, exit: Exit, emitted_at: str, *, screen: Sequence[str] = (), session: Session
    ) -> Signal:
        ended_well = exit.code == 0
        return Signal(
            SignalKind.EXITED if ended_well else SignalKind.CRASHED,
            source="process",
            reason="the process exited with code 0" if ended_well else f"the process ended with {exit}",
            emitted_at=emitted_at,
            exit=exit,
        )

    def adopts(self, argv: Sequence[str]) -> bool:
        return False  # any program may be an agent, so none can be recognized

    def flags_of(self, argv: Sequence[str]) -> tuple[str, ...]:
        return tuple(argv)

    def cost_usd(self, usages: Sequence[Usage]) -> None:
        return None

    def context_window(self, model: str, version: str = "") -> None:
        return None

    def input_of(self, agent_type: str) -> InputMethod:
        command = self._commands.get(agent_type)
        return InputMethod.INBOX if command is None else InputMethod(command.input)

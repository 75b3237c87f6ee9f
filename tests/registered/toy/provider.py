"""`Provider` for `toy`, whose hooks say `woke`, `hears`, `done`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sm.config import AgentConfig
from sm.config.section import ProviderSection
from sm.core.models import Exit, Session, Signal, SpawnRequest
from sm.core.observation import Activity, Observation, Source
from sm.core.requests import Request
from sm.core.states import SignalKind
from sm.core.usage import Usage
from sm.providers.base import (
    AgentPlan,
    Finding,
    InputMethod,
    Login,
    PlanContext,
    ProgramFacts,
    Provider,
    Setup,
    TranscriptRetention,
    TrustEntry,
)
from sm.providers.readers import Dialog, HookEvent, HookReader, Readers, SetupQuestion
from sm.sandboxes.home import ContainerHome

_ACTIVITIES = {"woke": Activity.IDLE, "hears": Activity.BUSY, "done": Activity.IDLE}


class ToyHooks(HookReader):
    ending_event = "leaves"

    def event(self, payload: Mapping[str, Any], at: float, *, expects_turn: bool) -> HookEvent:
        name = str(payload.get("happened"))
        if name not in _ACTIVITIES:
            return HookEvent(name)
        is_done, woke = name == "done", name == "woke"
        observation = Observation(
            Source.HOOK,
            _ACTIVITIES[name],
            at,
            f"toy {name}",
            opens=name == "hears",
            final=is_done,
            finished=is_done,
            answer=payload.get("said"),
        )
        return HookEvent(
            name,
            observation,
            conversation=payload.get("talk"),
            ready=woke,
            started=woke,
            turn_finished=is_done,
        )

    def dialog(self, payload: Mapping[str, Any], *, cut: bool) -> Dialog | None:
        return None

    def plan(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        return None

    def decision(self, request: Request, by: str) -> str | None:
        return None


class ToySetup(Setup):
    def session_warnings(
        self, environment: Mapping[str, str], working_dir: str, home: ContainerHome | None
    ) -> tuple[str, ...]:
        return ()

    def runs_hooks(
        self, environment: Mapping[str, str], working_dir: str, home: ContainerHome | None
    ) -> bool:
        return True

    def retention(
        self, environment: Mapping[str, str], working_dir: str, home: ContainerHome | None
    ) -> TranscriptRetention:
        return TranscriptRetention(30)

    def checks(self, environ: Mapping[str, str], current_dir: str) -> Iterable[Finding]:
        yield Finding(ok=True, what="toy is wound up")

    def project_effects(self, directory: str) -> Iterable[str]:
        return ()

    async def program(self, environment: Mapping[str, str], home: ContainerHome | None) -> ProgramFacts:
        return ProgramFacts("toy 7.0.0")

    def installed(self, environment: Mapping[str, str]) -> None:
        return None

    def login(self, environment: Mapping[str, str], home: ContainerHome | None) -> Login:
        return Login("/toys", "key")

    def trust(self, environ: Mapping[str, str], directory: str) -> TrustEntry:
        return TrustEntry("/toys/trusted", directory, changed=True)

    def accept_bypass(self, environ: Mapping[str, str]) -> TrustEntry:
        return TrustEntry("/toys/trusted", "", changed=True)

    def approve(self, environment: Mapping[str, str], question: SetupQuestion, directory: str) -> None:
        raise AssertionError("toy asks nothing")

    def require_ready(
        self,
        environment: Mapping[str, str],
        argv: Sequence[str],
        directory: str,
        project_of: Callable[[str], str],
    ) -> None:
        return None

    def require_login(
        self, environment: Mapping[str, str], argv: Sequence[str], home: ContainerHome, container: str
    ) -> None:
        return None


class ToyProvider(Provider):
    name = "toy"
    has_turns = True
    interrupt_key = "C-c"
    readers = Readers(hooks=ToyHooks())
    setup = ToySetup()

    def __init__(self, section: ProviderSection, agents: Sequence[str]) -> None:
        self._section = section
        self._agents = tuple(agents)

    @property
    def agent_types(self) -> tuple[str, ...]:
        return self._agents

    def agent_config(self, agent_type: str) -> AgentConfig | None:
        return self._section.agent_configs.get(agent_type)

    def capability_sources(self, environment: Mapping[str, str], around: Sequence[str]) -> None:
        return None

    def home_files(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        return {f"{environment['HOME']}/.toy/wound": "yes"}

    def plan(self, request: SpawnRequest, start: PlanContext) -> AgentPlan:
        talk = f"talk-{start.session.id}"
        return AgentPlan(
            ("toy", "--talk", talk, request.prompt or ""),
            self._section.env,
            flags=("toy",),
            conversation=talk,
        )

    def begin_again(
        self, start: PlanContext, flags: Sequence[str], conversation: str, prompt: str
    ) -> AgentPlan:
        return AgentPlan((*flags, "--talk", conversation, prompt), self._section.env, flags=tuple(flags))

    def resume(self, start: PlanContext, flags: Sequence[str], conversation: str, *, fork: bool) -> AgentPlan:
        argv = (*flags, "--again", conversation)
        return AgentPlan(argv, self._section.env, flags=tuple(flags), conversation=conversation)

    def fork_in(self, argv: Sequence[str]) -> None:
        return None

    def read_exit(
        self, exit: Exit, emitted_at: str, *, screen: Sequence[str] = (), session: Session
    ) -> Signal:
        kind = SignalKind.EXITED if exit.code == 0 else SignalKind.CRASHED
        return Signal(kind, source="process", reason=f"toy: {exit}", emitted_at=emitted_at, exit=exit)

    def adopts(self, argv: Sequence[str]) -> bool:
        return False

    def flags_of(self, argv: Sequence[str]) -> tuple[str, ...]:
        return tuple(argv)

    def cost_usd(self, usages: Sequence[Usage]) -> None:
        return None

    def context_window(self, model: str, version: str = "") -> None:
        return None

    def input_of(self, agent_type: str) -> InputMethod:
        return InputMethod.INBOX

"""`Provider` for `linked`: its agents have a link, a title and a screen, and no hooks."""

from collections.abc import Mapping, Sequence

from sm.config import AgentConfig
from sm.config.section import ProviderSection
from sm.core.models import Exit, Session, Signal, SpawnRequest
from sm.core.observation import Activity, Observation, Source
from sm.core.states import SignalKind
from sm.core.usage import Usage
from sm.providers.base import AgentPlan, InputMethod, PlanContext, Provider
from sm.providers.readers import Readers, ScreenReader
from tests.registered.linked.links import PlayedOpener

_TITLES = {"+": Activity.BUSY, "-": Activity.IDLE}


class LinkedScreen(ScreenReader):
    def title(self, glyph: str, at: float) -> Observation | None:
        activity = _TITLES.get(glyph)
        return (
            None if activity is None else Observation(Source.TITLE, activity, at, f"its title shows {glyph}")
        )

    def screen(self, lines: Sequence[str], at: float) -> None:
        return None

    def output(self, lines: Sequence[str]) -> Sequence[str]:
        return lines

    def start_problem(self, lines: Sequence[str], working_dir: str) -> None:
        return None

    def limit_dialog(self, lines: Sequence[str]) -> bool:
        return False

    def setup_dialog(self, lines: Sequence[str], directory: str) -> None:
        return None


class LinkedProvider(Provider):
    name = "linked"
    has_turns = True
    interrupt_key = "C-c"
    link = PlayedOpener()
    readers = Readers(screen=LinkedScreen())

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

    def plan(self, request: SpawnRequest, start: PlanContext) -> AgentPlan:
        return AgentPlan(("linked", request.prompt or ""), flags=("linked",))

    def begin_again(
        self, start: PlanContext, flags: Sequence[str], conversation: str, prompt: str
    ) -> AgentPlan:
        return AgentPlan((*flags, prompt), flags=tuple(flags))

    def resume(self, start: PlanContext, flags: Sequence[str], conversation: str, *, fork: bool) -> AgentPlan:
        return AgentPlan((*flags, "--again"), flags=tuple(flags), conversation=conversation)

    def fork_in(self, argv: Sequence[str]) -> None:
        return None

    def read_exit(
        self, exit: Exit, emitted_at: str, *, screen: Sequence[str] = (), session: Session
    ) -> Signal:
        kind = SignalKind.EXITED if exit.code == 0 else SignalKind.CRASHED
        return Signal(kind, source="process", reason=f"linked: {exit}", emitted_at=emitted_at, exit=exit)

    def adopts(self, argv: Sequence[str]) -> bool:
        return False

    def flags_of(self, argv: Sequence[str]) -> tuple[str, ...]:
        return tuple(argv)

    def cost_usd(self, usages: Sequence[Usage]) -> None:
        return None

    def context_window(self, model: str, version: str = "") -> None:
        return None

    def input_of(self, agent_type: str) -> InputMethod:
        return InputMethod.LINK

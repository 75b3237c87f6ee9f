"""The provider for the agent CLI `toy`."""

TYPE_CHECKING = False  # as in sm.wire
if TYPE_CHECKING:
    from sm.config import Config
    from sm.providers.base import Provider


def make_provider(config: "Config") -> "Provider":
    from tests.registered.toy.provider import ToyProvider
    from tests.registered.toy.section import ToySection

    sections = config.provider_sections()
    section = sections.get("toy", ToySection())
    return ToyProvider(section, config.agent_types_of(section))

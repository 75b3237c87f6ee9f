"""The provider for the agent CLI `linked`, whose agents report and take messages over a link."""

TYPE_CHECKING = False  # as in sm.wire
if TYPE_CHECKING:
    from sm.config import Config
    from sm.providers.base import Provider


def make_provider(config: "Config") -> "Provider":
    from tests.registered.linked.provider import LinkedProvider
    from tests.registered.linked.section import LinkedSection

    sections = config.provider_sections()
    section = sections.get("linked", LinkedSection())
    return LinkedProvider(section, config.agent_types_of(section))

"""The section `linked` of config.yaml."""

from typing import Annotated

from sm.config.agents import AgentConfig
from sm.config.fields import NOTHING, AgentType, Text, Variable
from sm.config.section import ProviderSection


class LinkedSection(ProviderSection):
    """A made-up agent CLI with a link."""

    env: dict[Variable, Text] = {}  # noqa: RUF012  # a model, as in sm.config.model
    """Variables of its agents."""
    agent_configs: Annotated[dict[AgentType, AgentConfig], NOTHING] = {  # noqa: RUF012
        "Linked": AgentConfig(),
        "Ruled": AgentConfig(auto_allow=("run(make *)",)),
    }
    """Its agent types."""


SECTION = LinkedSection

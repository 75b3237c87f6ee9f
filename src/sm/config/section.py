"""The base of the sections of providers."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from sm.section import Section

if TYPE_CHECKING:
    from sm.config.agents import AgentConfig


class ProviderSection(Section):
    """The section of a provider, by the name of the provider. Its docstring describes it in the example.

    It has the keys `agent_configs` (its agent types by name) and `env` (variables of its agents).
    """

    beside: ClassVar[Mapping[str, str]] = {}
    """Keys that name a file, with the path of the file that null means, relative to config.yaml: if it is there."""
    examples: ClassVar[Mapping[str, tuple[str, Section]]] = {}
    """Commented examples for keys that hold sections with user-defined names, empty by default."""

    if TYPE_CHECKING:  # else each would come before the other keys of the section
        agent_configs: dict[str, AgentConfig]
        env: dict[str, str]

    def files(self) -> Iterator[tuple[str, str, Callable[[str], object]]]:
        """Each key that names a file that must be valid: its name, the path, and the function that reads the file.

        The function raises ConfigError.
        """
        yield from ()

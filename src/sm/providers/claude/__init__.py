"""The provider for Claude Code. "Measured" in this package means: with claude 2.1.197, unless it says otherwise.

Hooks load this package, so it imports its modules on construction.
"""

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from sm.config import Config
    from sm.providers.base import Provider
    from sm.providers.checks import ProgramCheck


def make_provider(config: "Config") -> "Provider":
    """Make the provider for this configuration, and put the operator's dialect to use in this process.

    Raises ConfigError when the configured briefing is unreadable, and for a mistake in the dialect.
    """
    import os

    from sm.providers.claude.briefing import TEMPLATE
    from sm.providers.claude.dialect import use
    from sm.providers.claude.plan import ClaudeProvider
    from sm.providers.claude.section import ClaudeSection, read_briefing

    section = config.section(ClaudeSection)
    path = section.briefing
    use(section.dialect)
    return ClaudeProvider(
        section,
        config.agent_types_of(section),
        is_root=os.geteuid() == 0,
        inherited=config.sessions.inherit_environment_vars,
        template=TEMPLATE if path is None else read_briefing(path),
    )


def make_check() -> "ProgramCheck":
    """Make the contracts with the program."""
    from sm.providers.claude.check.contracts import ClaudeCheck

    return ClaudeCheck()

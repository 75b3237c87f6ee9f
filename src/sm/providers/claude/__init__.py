"""The provider for Claude Code. "Measured" in this package means: with claude 2.1.197, unless it says otherwise."""

import os

from sm.config import Config, read_briefing
from sm.providers.claude.briefing import TEMPLATE
from sm.providers.claude.dialect import use as use_dialect
from sm.providers.claude.plan import ClaudeProvider

__all__ = ["ClaudeProvider", "make_provider"]


def make_provider(config: Config) -> ClaudeProvider:
    """Make the provider for this configuration, and put the operator's dialect to use in this process.

    Raises ConfigError when the configured briefing is unreadable, and for a mistake in the dialect.
    """
    path = config.claude.briefing
    use_dialect(config.claude.dialect)
    return ClaudeProvider(
        config.claude,
        config.claude_agents,
        is_root=os.geteuid() == 0,
        inherited=config.sessions.inherit_environment_vars,
        template=TEMPLATE if path is None else read_briefing(path),
    )

"""Claude Code as an agent (CC: measured with 2.1.197)."""

import os
from dataclasses import replace

from sm.config import Config, read_briefing
from sm.config.model import ConfiguredPrices
from sm.providers.claude.briefing import TEMPLATE
from sm.providers.claude.plan import ClaudeProvider
from sm.providers.claude.pricing import ModelPrices

__all__ = ["ClaudeProvider", "configured"]


def configured(config: Config) -> ClaudeProvider:
    """The provider for this configuration. Raises ConfigError when the configured briefing cannot be read any more."""
    path = config.claude.briefing
    return ClaudeProvider(
        config.claude,
        config.claude_agents,
        is_root=os.geteuid() == 0,
        inherited=config.sessions.inherit_environment_vars,
        prices={name: _prices(prices) for name, prices in config.claude.prices.items()},
        template=TEMPLATE if path is None else read_briefing(path),
    )


def _prices(configured: ConfiguredPrices) -> ModelPrices:
    usual = ModelPrices.usual(configured.input, configured.output)
    write = configured.cache_write
    return replace(
        usual,
        cache_read=usual.cache_read if configured.cache_read is None else configured.cache_read,
        cache_write=usual.cache_write if write is None else write,
        cache_write_1h=usual.cache_write_1h if write is None else write,
    )

"""Every kind of agent CLI that sm can start."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from sm.config import Config, read_briefing
from sm.config.model import ConfiguredPrices
from sm.providers.base import Provider
from sm.providers.claude import ClaudeProvider
from sm.providers.claude.briefing import TEMPLATE
from sm.providers.claude.pricing import Prices
from sm.providers.command import CommandProvider


def _claude(config: Config) -> Provider:
    """Raises ConfigError when the configured briefing cannot be read any more."""
    path = config.claude.briefing
    return ClaudeProvider(
        config.claude,
        config.claude_agents,
        is_root=os.geteuid() == 0,
        prices={name: _prices(prices) for name, prices in config.claude.prices.items()},
        template=TEMPLATE if path is None else read_briefing(path),
    )


def _prices(said: ConfiguredPrices) -> Prices:
    usual = Prices.usual(said.input, said.output)
    write = said.cache_write
    return replace(
        usual,
        cache_read=usual.cache_read if said.cache_read is None else said.cache_read,
        cache_write=usual.cache_write if write is None else write,
        cache_write_1h=usual.cache_write_1h if write is None else write,
    )


PROVIDERS: Mapping[str, Callable[[Config], Provider]] = {
    "claude": _claude,
    "command": lambda config: CommandProvider(config.commands),
}

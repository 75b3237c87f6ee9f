"""Loads and validates config.yaml and rules.yaml, and reports all mistakes at once with line and column.

Only the daemon and the commands that show or check the configuration import this room: pydantic takes 100 ms.
"""

from sm.config.agents import AgentConfig, ModelArgs, ModelPrices, SummarizerSettings
from sm.config.changes import NEEDS_RESTART, ConfigChanges, take_over
from sm.config.definitions import (
    DEFINITION_KEYS,
    DEFINITION_MAX_BYTES,
    Definition,
    read_definition,
    settings_length,
)
from sm.config.example import example
from sm.config.fields import is_agent_type, is_model
from sm.config.loading import LoadedConfig, Stamp, read_text, stamp_of
from sm.config.model import Cleanup, Command, Config, Limits, Naming, Webhook
from sm.config.rules_file import add_rule, load, read_rules, remove_newest_rule, rules_path
from sm.config.sandbox import SandboxOptions, SandboxSection, bytes_of, split_mount
from sm.config.settings import sandbox_for, sandbox_settings
from sm.config.telegram import TelegramSection, read_token

__all__ = [
    "DEFINITION_KEYS",
    "DEFINITION_MAX_BYTES",
    "NEEDS_RESTART",
    "AgentConfig",
    "Cleanup",
    "Command",
    "Config",
    "ConfigChanges",
    "Definition",
    "Limits",
    "LoadedConfig",
    "ModelArgs",
    "ModelPrices",
    "Naming",
    "SandboxOptions",
    "SandboxSection",
    "Stamp",
    "SummarizerSettings",
    "TelegramSection",
    "Webhook",
    "add_rule",
    "bytes_of",
    "example",
    "is_agent_type",
    "is_model",
    "load",
    "read_definition",
    "read_rules",
    "read_text",
    "read_token",
    "remove_newest_rule",
    "rules_path",
    "sandbox_for",
    "sandbox_settings",
    "settings_length",
    "split_mount",
    "stamp_of",
    "take_over",
]

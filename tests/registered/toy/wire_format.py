"""The forms of messages of `toy`."""

from sm.registry import HookFormat

TOOL_USE_META = "toy/use"
HOOK = HookFormat("happened", "asks", {"happened": 100, "talk": 100, "said": 10})

"""Claude Code as an agent (CC: measured with 2.1.197)."""

from sm.providers.claude.plan import ClaudeProvider

__all__ = ["ClaudeProvider"]

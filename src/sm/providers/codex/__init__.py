"""Codex: its program in images and as an MCP client. It has no provider yet, so no agent type starts it."""

"""Carries the messages of an MCP client to the daemon and back, for `sm mcp`."""

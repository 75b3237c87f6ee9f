"""Agent types, MCP servers and skills that a session may use."""

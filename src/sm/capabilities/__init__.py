"""What a session can use: agent types, MCP servers, skills."""

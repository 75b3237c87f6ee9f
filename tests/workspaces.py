"""Makes workspaces and their projects, for tests of real and of played instances."""

import json
from pathlib import Path
from typing import Any


def create(instance: Any, slug: str, *options: str) -> Path:
    """Create a workspace with a directory of its name, and return the directory."""
    directory = Path(instance.home, slug)
    directory.mkdir(exist_ok=True)
    instance.sm("workspace", "create", slug, "--working-dir", str(directory), *options)
    return directory


def write_servers(directory: Path, **servers: str) -> None:
    """Write a `.mcp.json` with a server for each program."""
    blocks = {name: {"command": program} for name, program in servers.items()}
    (directory / ".mcp.json").write_text(json.dumps({"mcpServers": blocks}))

"""Leaves out the MCP servers of users and projects that have the name of the server of sm."""

from collections.abc import Iterator, Sequence

from sm.core.mcp import OWN_SERVER
from sm.core.text import folded
from sm.equipment.mcp_servers import Servers


class ReservedName:
    """The name of the server of sm, which no other server of a session has if `is_reserved`."""

    def __init__(self, is_reserved: bool) -> None:
        self._is_reserved = is_reserved
        self._paths: dict[str, None] = {}

    def without(self, servers: Servers, path: str) -> Servers:
        """The servers of a file that have another name."""
        kept = self.names(tuple(servers), path)
        return servers if len(kept) == len(servers) else {name: servers[name] for name in kept}

    def names(self, names: Sequence[str], path: str) -> tuple[str, ...]:
        """The names of servers in a file, without the reserved one."""
        if self._is_reserved and OWN_SERVER in names:
            self._paths[path] = None
            return tuple(name for name in names if name != OWN_SERVER)
        return tuple(names)

    def warnings(self) -> Iterator[str]:
        """A warning for each file that had a server of the name."""
        for path in self._paths:
            yield (
                f"MCP server {OWN_SERVER} of {folded(path, 400)} is left out: sm gives its agents a server of this name"
            )

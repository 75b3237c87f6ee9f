"""An agent that starts `sm mcp` for each connection to the socket `pump` in its directory.

The connection is the stdin and stdout of the process. A test can so be the MCP client of this session.
"""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path


async def main() -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("pump.new")
        listener.listen(128)
        listener.setblocking(False)
        Path("pump.new").rename("pump")  # the path exists only once the socket listens
        pumps: list[subprocess.Popen[bytes]] = []
        while True:
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            connection.setblocking(True)
            with connection:
                end = connection.fileno()
                pumps.append(subprocess.Popen(["sm", "mcp", *sys.argv[1:2]], stdin=end, stdout=end))
            pumps = [pump for pump in pumps if pump.poll() is None]


if __name__ == "__main__":
    asyncio.run(main())

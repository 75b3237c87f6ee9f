"""An agent that forwards connections to the socket `proxy` in its directory to $SM_SOCKET.

The daemon identifies its peer by the kernel: this process. A test can so send requests as this session.
"""

import asyncio
import os
from pathlib import Path

SOCKET = os.environ["SM_SOCKET"]


async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    daemon_reader, daemon_writer = await asyncio.open_unix_connection(SOCKET)
    async with asyncio.TaskGroup() as group:
        group.create_task(forward(reader, daemon_writer))
        group.create_task(forward(daemon_reader, writer))


async def main() -> None:
    server = await asyncio.start_unix_server(handle, "proxy.new")
    Path("proxy.new").rename("proxy")  # the path exists only once the server listens
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())

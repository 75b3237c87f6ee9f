"""An agent through which a test speaks as a session: whoever connects to `door` in its directory reaches $SM_SOCKET.

The daemon asks the kernel who its peer is, and that is this process.
"""

import asyncio
import os
from pathlib import Path

SOCKET = os.environ["SM_SOCKET"]


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until either side has no more to say."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    theirs, ours = await asyncio.open_unix_connection(SOCKET)
    async with asyncio.TaskGroup() as group:
        group.create_task(pass_on(reader, ours))
        group.create_task(pass_on(theirs, writer))


async def main() -> None:
    server = await asyncio.start_unix_server(answer, "opening")
    Path("opening").rename("door")  # there is a door only where somebody listens
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())

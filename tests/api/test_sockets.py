"""A site on a socket of this machine."""

import os
from pathlib import Path

from aiohttp import web

from sm.api.context import RequestContext
from sm.api.sockets import SOCKET_LIMITS, Listener, Site, listen


async def _nobody(listener: Listener, request: web.Request) -> RequestContext:
    raise NotImplementedError


async def test_stop_of_a_site_keeps_the_file_of_its_socket(home_path: Path) -> None:
    path = str(home_path / "s")
    runner = web.AppRunner(web.Application())
    await runner.setup()
    await Site(runner, Listener("s", SOCKET_LIMITS, _nobody), listen(path)).start()
    await runner.cleanup()
    assert os.path.exists(path)

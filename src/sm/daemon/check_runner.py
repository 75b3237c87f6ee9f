"""Runs `sm check` in the background for the daemon."""

import asyncio
import logging
import os
import signal
import sys
from contextlib import suppress

from sm.linux.parent_death import die_with_parent
from sm.linux.programs import wait_or_kill

log = logging.getLogger(__name__)

_WITHIN_S = 1800.0
"""Longer than the limit of the command itself."""
_ENDS_WITHIN_S = 30.0
"""For the clean-up of its private instance after SIGTERM."""
_NICENESS = 19
_LAST_WORDS_MAX = 500


async def run_check(provider: str, path: str) -> None:
    """Check a program with the lowest priority. Its outcome is kept by the command; a failure is logged."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "sm.cli", "check", provider, "--program", path, "--patient", "--json"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        cwd="/",
        env=dict(os.environ),
        start_new_session=True,
        preexec_fn=die_with_parent(signal.SIGTERM),  # the command removes its private instance
    )
    with suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
    try:
        async with asyncio.timeout(_WITHIN_S):
            _, errors = await process.communicate()
    except TimeoutError:
        log.warning("sm check %s did not end within %.0f s", provider, _WITHIN_S)
        return
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            await wait_or_kill(process, _ENDS_WITHIN_S)
    if errors:
        log.warning("sm check %s: %s", provider, errors.decode("utf-8", "replace")[-_LAST_WORDS_MAX:].strip())

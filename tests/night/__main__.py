"""Plays the night: `python -m tests.night DIRECTORY SEED KILLS TICKS`. Prints the kills and the ticks as JSON.

Each life of the daemon is a fork of this process, which has imported everything and has no threads. A life ends by
SIGKILL at one of KILLS random ticks of the TICKS of a night without kills, and behind the first commit of
each act and of each kind of timers. The last life ends in the morning.
"""

import asyncio
import json
import os
import random
import signal
import sys
import traceback
from pathlib import Path

from tests.night.life import Life, World
from tests.night.script import script


def main(directory: Path, seed: int, kills: int, ticks: int) -> int:
    world, entries, killed = World(), script(seed), 0
    moments = sorted(random.Random(seed).sample(range(1, ticks), kills)) if kills else []
    while True:
        while moments and moments[0] <= world.ticks:
            moments.pop(0)  # that moment has killed the last life
        kill_at = moments[0] if moments else None
        child = os.fork()
        if child == 0:
            code = 1
            try:
                life = Life(directory, world, entries, kill_at, cut_off=kills > 0)
                asyncio.run(life.run())
                code = 0
            finally:
                if code:
                    traceback.print_exc()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            killed += 1
            continue
        sys.stdout.write(json.dumps({"kills": killed, "ticks": world.ticks}))
        return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    place, *numbers = sys.argv[1:]
    sys.exit(main(Path(place), *map(int, numbers)))

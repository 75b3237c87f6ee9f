"""Instances that notify a played program and played receivers of webhooks."""

from pathlib import Path
from typing import Any

import orjson

from tests.sim.network import played_sockets
from tests.sim.outside import Outside, OutsideProgram, played_programs
from tests.sim.receiver import PlayedReceiver
from tests.sim.stage import Instance

SECRET = "the operator's key"


def instance_with(
    program: OutsideProgram | None,
    *receivers: PlayedReceiver,
    paths: tuple[str, ...] = (),
    events: str | None = None,
) -> Instance:
    """An instance that notifies a program and webhooks. `paths`: those of the first receiver."""
    instance = Instance()
    secret = instance.home / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    lines = [instance.config.read_text(), "notify:"]
    if program is not None:
        lines.append(f"  command: [tell, {instance.home}]")
        instance.enter(played_programs(instance.world.kernel, {"tell": program}))
    instance.enter(played_sockets(instance.world.board, instance.loop))
    urls = [receiver.url(path) for receiver in receivers for path in paths or ("/hook",)]
    if urls:
        only = f", events: [{events}]" if events else ""
        lines.append("  webhooks:")
        lines += [f'    - {{url: "{url}", secret_file: "{secret}"{only}}}' for url in urls]
    instance.config.write_text("\n".join(lines) + "\n")
    return instance


def home_of(outside: Outside) -> Path:
    return Path(outside.process.argv[1])


async def keep(outside: Outside) -> int:
    """Keep the notification in the file `told`."""
    with (home_of(outside) / "told").open("ab") as file:
        file.write(outside.text)
    return 0


def inputs(instance: Instance) -> list[dict[str, Any]]:
    """The notifications that the program received, in order."""
    path = instance.home / "told"
    return [orjson.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []

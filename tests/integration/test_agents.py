"""Definitions of agents that take long to read."""

import json
from concurrent.futures import ThreadPoolExecutor

from tests.instance import Instance
from tests.played.test_agents import write_definition


def test_spawn_is_not_delayed_when_another_workspace_has_200_definitions(instance: Instance) -> None:
    """Parsing these definitions once took 60 s of CPU each time, in threads that other requests share.

    A listing of them ends within the time limit of the daemon: on a loaded machine that may be a refusal.
    """
    flood = instance.home / "flood"
    settings = f"---\nx: [{'a,' * 4000}]\n---\n"
    paths = [
        write_definition(flood / place / "agents", f"agent{n:03}", settings)
        for place in (".sm", ".claude")
        for n in range(100)
    ]
    instance.sm("workspace", "create", "flood", "--working-dir", str(flood))
    instance.sm("workspace", "agree", "flood", "--yes")
    with ThreadPoolExecutor(8) as pool:
        for _ in range(2):
            for path in paths:
                path.touch()
            listings = [
                pool.submit(instance.run, "agents", "--workspace", "flood", "--json") for _ in range(8)
            ]
            instance.spawn("Sleeper", "--workspace", "-")  # within the limit of a command
            for listing in listings:
                ended = listing.result()
                answer = json.loads(ended.stdout or ended.stderr)
                if ended.returncode == 9:
                    assert "did not respond" in answer["error"]["message"]
                else:
                    agents = [t for t in answer["agents"] if t["origin"].startswith(str(flood))]
                    assert sum(not t["problem"] for t in agents) == 16
    instance.sm("workspace", "delete", "flood")

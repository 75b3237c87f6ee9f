"""Real cgroups of a made-up instance, in cgroup v2 and in the freezer of v1."""

import contextlib
import os
import uuid
from collections.abc import Iterator

import pytest

from sm.linux.cgroups import hierarchies
from sm.linux.session_cgroups import SessionCgroups, probe
from tests.linux.child_process import Start
from tests.waits import until


def cgroups_in(version: int) -> SessionCgroups:
    """Make a place for cgroups of this version. Skips the test if this machine allows none."""
    instance = uuid.uuid4().hex
    found = probe(instance)
    if found.cgroups is not None and found.cgroups.version == version:
        return found.cgroups
    if found.cgroups is not None:
        os.rmdir(found.cgroups.base)
    with open("/proc/self/mountinfo") as file:
        mount = hierarchies(file.read()).get("" if version == 2 else "freezer")
    if mount is None or not os.access(mount[0] + "/cgroup.procs", os.W_OK):
        pytest.skip(f"no cgroup of version {version} can be made here: {found.reason}")
    base = f"{mount[0]}/sm-{instance[:8]}"
    os.mkdir(base)
    return SessionCgroups(base, version)


@pytest.fixture(params=[1, 2])
def cgroups(request: pytest.FixtureRequest, start: Start) -> Iterator[SessionCgroups]:
    """Torn down before the processes of `start`, whose end needs them thawed."""
    found = cgroups_in(request.param)
    yield found
    for cgroup in found.all().values():
        until(lambda cgroup=cgroup: not cgroup._kill_once(()), "an empty cgroup")  # type: ignore[misc]
        cgroup.remove()
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(found.base)

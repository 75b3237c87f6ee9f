"""Sessions with a process that has left the process tree of its agent, in each of the known ways."""

import os
import re
import secrets
import shutil
import sys
from pathlib import Path

import pytest

from sm.core.models import Process
from sm.linux.processes import identify
from tests.instance import Instance, until

leave_tree_file = str(Path(__file__).with_name("leave_tree.py"))

WAYS = re.findall(r"^def by_(\w+)", Path(leave_tree_file).read_text(), re.MULTILINE)
NEEDED = {"script": "script", "pid_namespace": "unshare", "mount_namespace": "unshare"}
AS_ROOT = {"other_user", "pid_namespace", "mount_namespace"}


class Leaver:
    """A session, and a process that has left the process tree of its agent."""

    def __init__(
        self, instance: Instance, way: str, *, drops_environment: bool = True, in_cgroup: bool = True
    ) -> None:
        if (program := NEEDED.get(way)) is not None and shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
        if way in AS_ROOT and os.getuid():
            pytest.skip("only root can do that")
        self.out = instance.work / f"{way}-{secrets.token_hex(4)}"
        # The agent leaves the tree once its cgroup is known to hold it.
        gate = f"{self.out}.gate"
        os.mkfifo(gate)
        environment = "env -i PATH=$PATH " if drops_environment else ""
        leave = f"{environment}{sys.executable} {leave_tree_file} {way} {self.out}"
        self.session = instance.spawn("Sh", f"read -r go <{gate}; {leave}; exec sleep 1000000")
        self.session_id: str = self.session["session_id"]
        if in_cgroup:
            until(
                lambda: f"/{self.session_id}" in Path(f"/proc/{self.session['pid']}/cgroup").read_text(),
                "cgroup",
            )
        Path(gate).write_text("go\n")
        pid = until(lambda: int(self.out.read_text() or 0), "the process that is left")
        self.process: Process = until(lambda: identify(pid), "the process that is left")

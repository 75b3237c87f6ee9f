"""What the process of a session has left behind when it is gone."""

import os
from collections.abc import Mapping

from sm.core.models import Process, Session
from sm.linux import processes as hostos


def left_behind(session_id: str, process: Process, sessions: Mapping[str, Session]) -> list[Process]:
    """What runs on with this session's mark since its `process` began, also out of its tree (setsid(2)). Blocks.

    Neither this daemon nor anything that an agent of another session is below: a terminal server, for one.
    """
    boot, _, began = process.started.partition("/")
    if boot != hostos.boot_id():
        return []
    living = [s.process.pid for s in sessions.values() if s.process is not None and s.exit is None]
    spared = {above for pid in (os.getpid(), *living) for above in hostos.ancestry(pid)}
    everything = hostos.process_tree(Process(0, f"{boot}/0"))  # 0: the parent of those that have none
    return [
        each
        for each in everything
        if int(each.started.partition("/")[2]) >= int(began)
        and each.pid not in spared
        and hostos.environ_value(each.pid, "SM_SESSION_ID") == session_id
    ]

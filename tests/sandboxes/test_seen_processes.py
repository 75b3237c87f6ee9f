"""The memory of the processes that were seen in the trees of sessions."""

import os
import signal
from pathlib import Path

import pytest

from sm.core.models import Process
from sm.linux import processes
from sm.sandboxes import seen_processes
from sm.sandboxes.seen_processes import SeenProcesses
from tests.linux.child_process import Start, start
from tests.waits import until

__all__ = ["start"]

pytestmark = pytest.mark.processes

ID = "1a2b3c4d"
TWO = "env -i setsid sleep 1000 & echo $!; env -i setsid sleep 1000 & echo $!; wait"


def children(agent_pid: int) -> list[Process]:
    found = map(processes.identify, sorted(processes.descendants([agent_pid])))
    return [process for process in found if process is not None]


def end(*ended: Process) -> None:
    for process in ended:
        processes.signal_process(process, signal.SIGKILL)
        until(lambda process=process: not processes.is_alive(process), "its end")  # type: ignore[misc]


def test_next_daemon_knows_what_was_seen_at_two_looks(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "seen"
    agent = start("sh", "-c", TWO)
    until(lambda: len(children(agent.pid)) == 2, "both children")
    both = children(agent.pid)
    seen = SeenProcesses(str(file))
    seen.look({ID: agent.process})
    assert not file.exists()
    seen.look({ID: agent.process})
    assert file.stat().st_mode & 0o777 == 0o600
    written = file.stat().st_mtime_ns
    seen.look({ID: agent.process})
    assert file.stat().st_mtime_ns == written  # nothing new
    end(agent.process)
    assert set(SeenProcesses(str(file)).of(ID)) == set(both)
    later = SeenProcesses(str(file))
    end(both[0])
    later.look({})
    assert later.all() == {ID: [both[1]]}
    end(both[1])
    later.look({})
    assert later.all() == {}
    assert file.read_text() == "{}"


def test_another_process_with_the_same_pid_is_not_taken_for_a_seen_one(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "seen"
    child = start("sh", "-c", "echo ready; read -r line")
    file.write_text(f'{{"{ID}": [[{child.pid}, "{child.process.started}1"], [{child.pid}, "other/1"]]}}')
    seen = SeenProcesses(str(file))
    assert seen.all() == {ID: []}
    seen.look({})
    assert seen.all() == {}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"1a2b3c4d": 7}', '{"1a2b3c4d": [["x", "y"]]}', "\0"])
def test_damaged_file_is_taken_for_an_empty_one(tmp_path: Path, content: str) -> None:
    (tmp_path / "seen").write_text(content)
    assert SeenProcesses(str(tmp_path / "seen")).all() == {}


def test_number_of_seen_processes_is_bounded_and_the_earlier_ones_stay(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen_processes, "MAX_PER_SESSION", 1)
    agent = start("sh", "-c", TWO)
    until(lambda: len(children(agent.pid)) == 2, "both children")
    both = children(agent.pid)
    seen = SeenProcesses(str(tmp_path / "seen"))
    seen.look({ID: agent.process})
    (first,) = seen.of(ID)
    seen.look({ID: agent.process})
    assert seen.of(ID) == [first]
    end(*both)


def test_file_that_cannot_be_written_loses_nothing_in_memory(start: Start, tmp_path: Path) -> None:
    agent = start("sh", "-c", TWO)
    until(lambda: len(children(agent.pid)) == 2, "both children")
    both = children(agent.pid)
    seen = SeenProcesses(str(tmp_path / "no directory" / "seen"))
    for _ in range(3):
        seen.look({ID: agent.process})
    assert set(seen.of(ID)) == set(both)
    os.mkdir(tmp_path / "no directory")
    seen.look({ID: agent.process})
    assert (tmp_path / "no directory" / "seen").exists()
    end(*both)

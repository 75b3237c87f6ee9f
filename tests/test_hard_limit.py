"""The hard limit of a test: the names of its waits are shown, and a test that does not end is ended."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hard_limit import FULL_S, LIMIT_S, SHARED_S, hard_limit

REPOSITORY = Path(__file__).parents[1]
CONFTEST = "from tests.hard_limit import pytest_exception_interact, pytest_timeout_set_timer\n"
HANGS = """
import signal
import pytest
from tests.waits import explained, until, waiting

@pytest.mark.timeout(1000)
def test_hangs():
    with explained(lambda: "the directory: " + "empty"), waiting(lambda: "a file; the screen is empty"):
        until(lambda: signal.raise_signal(signal.SIGALRM), "the file is there")

def test_after_it():
    pass
"""
HANGS_AT_ITS_END = """
import pytest
from tests.waits import until

@pytest.fixture
def stuck():
    yield
    until(lambda: False, "the end of a process")

@pytest.mark.timeout(1)
def test_fails(stuck):
    assert False
"""
NEVER_ENDS = """
import pytest, signal

@pytest.mark.timeout(1000)
def test_never_ends():
    while True:
        try:
            signal.raise_signal(signal.SIGALRM)
        except BaseException:
            pass
"""


def _run(directory: Path, test: str) -> subprocess.CompletedProcess[str]:
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "test_hang.py").write_text(test)
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        os.devnull,
        "--rootdir",
        directory,
        directory,
    ]
    path = {**os.environ, "PYTHONPATH": f"{REPOSITORY}/src:{REPOSITORY}"}
    return subprocess.run(command, cwd=directory, env=path, capture_output=True, text=True, check=False)


@pytest.mark.processes
def test_hanging_test_fails_with_the_names_of_its_waits(tmp_path: Path) -> None:
    ended = _run(tmp_path, HANGS)
    assert "it waits for: a file; the screen is empty; the file is there" in ended.stdout
    assert "the directory: empty" in ended.stdout
    assert "1 failed, 1 passed" in ended.stdout


@pytest.mark.processes
def test_limit_holds_for_the_end_of_a_test_that_has_failed(tmp_path: Path) -> None:
    ended = _run(tmp_path, HANGS_AT_ITS_END)
    assert "it waits for: the end of a process" in ended.stdout
    assert "1 failed, 1 error" in ended.stdout


@pytest.mark.processes
def test_process_ends_when_a_test_does_not_end(tmp_path: Path) -> None:
    ended = _run(tmp_path, NEVER_ENDS)
    assert ended.returncode == 1
    assert "test_never_ends does not end" in ended.stderr
    assert "in test_never_ends" in ended.stderr


@pytest.mark.parametrize(
    ("marks", "group", "limit_s"),
    [
        ([], None, LIMIT_S),
        ([], "containers", SHARED_S),
        ([pytest.mark.simulation], None, SHARED_S),
        ([pytest.mark.full], "claude", FULL_S),
    ],
)
def test_limit_follows_the_marks_of_a_test(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    marks: list[pytest.MarkDecorator],
    group: str | None,
    limit_s: float,
) -> None:
    monkeypatch.delenv("SM_LONG", raising=False)
    item = pytest.Function.from_parent(request.node.parent, name="test_other", callobj=lambda: None)
    for mark in marks:
        item.add_marker(mark)
    found = hard_limit(item, group)
    assert found is not None
    assert found.args == (limit_s,)
    monkeypatch.setenv("SM_LONG", "1")
    of_long_run = hard_limit(item, group)
    assert of_long_run is not None
    assert of_long_run.args == (FULL_S,)


def test_limit_of_a_test_that_has_its_own_stays(request: pytest.FixtureRequest) -> None:
    item = pytest.Function.from_parent(request.node.parent, name="test_other", callobj=lambda: None)
    item.add_marker(pytest.mark.timeout(5))
    assert hard_limit(item, "claude") is None

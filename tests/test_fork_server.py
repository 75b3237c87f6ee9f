"""A forked command does what a new process does."""

from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.instance import Instance

instance = context_fixture("module", Instance)


def both(instance: Instance, *arguments: str, **options: Any) -> list[tuple[int, str, str]]:
    """The exit code, output and errors of a forked command, and of a new process."""
    runs = []
    for instance._forked in (False, True):
        ended = instance.run(*arguments, **options)
        runs.append((ended.returncode, ended.stdout, ended.stderr))
    return runs


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("version", 0), ("daemon start", 0), ("all --json", 0), ("nonsense", 2),
        ("spawn Nobody x", 2),
        ("status none", 3), ("help spawn", 0), ("config --check", 0),
    ],
)  # fmt: skip
def test_output_errors_and_exit_code_are_those_of_a_new_process(
    instance: Instance, words: str, code: int
) -> None:
    if not instance.socket.exists():
        instance.start_daemon()
    new, forked = both(instance, *words.split())
    assert forked == new
    assert forked[0] == code and any(forked[1:])


def test_input_and_directory_are_those_of_the_call(instance: Instance, tmp_path: Path) -> None:
    session = instance.spawn("Sh", "sleep 1000", cwd=tmp_path)
    assert instance.session(session["session_id"])["working_dir"] == str(tmp_path)
    both(instance, "send", session["session_id"], "-", stdin="grüße\n")
    messages = instance.get("/v1/messages", session=session["session_id"])
    assert [message["text"] for message in messages] == ["grüße", "grüße"]

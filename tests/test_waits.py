"""The rules of waits in tests: no poll of a command, no new `time.sleep`, no limit that follows the load."""

import ast
import functools
from pathlib import Path

import pytest

from tests.waits import repeat_until

TESTS = Path(__file__).parent
PLAYED = ("sim/", "played/")
"""There a look takes no time of the machine."""
COMMANDS = frozenset(["json", "refused", "run", "sm"])
"""Methods of an instance that start `sm`."""
FUNCTIONS = frozenset(["live", "run", "sm"])
"""Fixtures and functions that start `sm`."""
SLEEPS = {
    "waits.py": "the pause between two looks",
    "integration/hook_caller.py": "nothing reports when a daemon is back",
    "integration/kept_connection.py": "nothing reports when a daemon is back",
    "integration/message_sender.py": "nothing reports when a daemon is back",
    "integration/leave_tree.py": "programs that leave the process tree, each in its way",
    "integration/test_claude_messages.py": "the moment of a kill or of an end, not a wait",
    "claude_storm.py": "the moment of a kill, not a wait",
    "integration/test_crash_in_spawn.py": "the moment of a kill, not a wait",
    "integration/test_paste_races.py": "the moment of a death, not a wait",
    "record/stage.py": "the pause between two looks at a real claude",
    "integration/test_sandbox_crash.py": "the moment of a kill, not a wait",
}


@functools.cache
def _modules() -> list[tuple[str, ast.Module]]:
    texts = {file.relative_to(TESTS).as_posix(): file.read_text() for file in sorted(TESTS.rglob("*.py"))}
    # A module without one of the words breaks no rule, and to parse it takes most of the time.
    return [
        (name, ast.parse(text))
        for name, text in texts.items()
        if not name.startswith(PLAYED) and any(word in text for word in ("until(", "time.sleep", "loadavg"))
    ]


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def polls(module: ast.Module) -> int:
    """How many waits start a command for each look."""
    functions = {node.name: node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}

    def runs_command(look: ast.AST, deeper: bool = True) -> bool:
        body = functions.get(look.id) if isinstance(look, ast.Name) else look
        if body is None:
            return False
        calls = [node.func for node in ast.walk(body) if isinstance(node, ast.Call)]
        return (
            any(isinstance(called, ast.Attribute) and called.attr in COMMANDS for called in calls)
            or any(isinstance(called, ast.Name) and called.id in FUNCTIONS for called in calls)
            or (deeper and any(isinstance(c, ast.Name) and runs_command(c, deeper=False) for c in calls))
        )

    return sum(
        isinstance(node, ast.Call)
        and _name(node) == "until"
        and bool(node.args)
        and runs_command(node.args[0])
        for node in ast.walk(module)
    )


def sleeps(module: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func) == "time.sleep" for node in ast.walk(module)
    )


def names_load(module: ast.Module) -> bool:
    """Tell whether a module reads the load of the machine."""
    return any(
        (isinstance(node, ast.Constant) and node.value == "/proc/" + "loadavg")
        or (isinstance(node, ast.Attribute) and node.attr == "getloadavg")
        for node in ast.walk(module)
    )


def test_no_wait_polls_a_command() -> None:
    """Wait for an event, a file or a row: a look that starts a command takes long, and slows what it waits for."""
    assert [name for name, module in _modules() if polls(module)] == []


def test_only_listed_modules_sleep() -> None:
    assert {name for name, module in _modules() if sleeps(module)} <= set(SLEEPS)


def test_no_limit_of_a_test_follows_the_load() -> None:
    assert [name for name, module in _modules() if names_load(module)] == []


def test_poll_sleep_and_load_are_found() -> None:
    poll = "until(lambda: instance.sm('ls'), 'x')\ndef look(): return instance.json('all')\nuntil(look, 'y')"
    assert polls(ast.parse(poll)) == 2
    function = (
        "def look(x): return x.json('log')\nuntil(lambda: look(x), 'y')\nuntil(lambda: live('ls'), 'z')"
    )
    assert polls(ast.parse(function)) == 2
    assert polls(ast.parse("until(lambda: (work / 'up').exists(), 'x')")) == 0
    assert sleeps(ast.parse("import time\ntime.sleep(1)"))
    assert names_load(ast.parse("open('/proc/loadavg')"))
    assert names_load(ast.parse("os.getloadavg()"))


def test_act_that_was_lost_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    acts: list[str] = []
    repeat_until(lambda: acts.append("press"), lambda: len(acts) == 3, "the third key is read")
    assert acts == ["press"] * 3


def test_act_that_had_its_effect_is_not_repeated() -> None:
    acts: list[str] = []
    assert repeat_until(lambda: acts.append("press"), lambda: acts, "the key is read") == ["press"]

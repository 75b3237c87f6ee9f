"""Plays an agent of `sm demo`: reports, delegates, waits, fails or crashes, according to its role.

    python -m sm.cli.commands.demo_agent ROLE --pace SECONDS TASK

Runs `sm` from the PATH, as any agent does. Its output is for a user who attaches.
"""

import argparse
import json
import re
import subprocess
import time

_REPORT_S = 90.0
_STAY_S = 86_400
"""How long an agent that waits for a person runs one command."""


class Crash(Exception):
    """An uncaught error that ends the Fetcher."""


def sm(*arguments: str) -> str:
    """Print and run an `sm` command, and return its output. Raises CalledProcessError."""
    _show("$ sm " + " ".join(f'"{a}"' if " " in a else a for a in arguments))
    output = subprocess.check_output(
        ["sm", *arguments], text=True, timeout=_STAY_S if "--wait" in arguments else _REPORT_S
    )
    _show(output.rstrip())
    return output


def spawn(agent_type: str, task: str, name: str) -> str:
    session = json.loads(sm("spawn", agent_type, task, "--name", name, "--json"))
    return str(session["session_id"])


def wait_for_children(children: set[str]) -> None:
    """Read the inbox until all children have ended. Answers a question with its first option."""
    while children:
        for message in json.loads(sm("inbox", "--take", "--wait", "--json")):
            for entry in message["text"].splitlines():
                question = re.search(r"answer with: sm answer (r\d+) TEXT$", entry)
                if question:
                    sm("answer", question[1], "1")
                elif not re.search(r"\) is idle: ", entry):
                    children = {child for child in children if f"({child})" not in entry}


def coordinator(task: str, pace_s: float) -> None:
    sm("note", "Splitting the work")
    _work("Reading the task", pace_s)
    children = {
        spawn("Builder", "Build the login page", "login"),
        spawn("Tester", "Test the login page", "login"),
        spawn("Fetcher", "Fetch the icons", "icons"),
    }
    sm("checkpoint", "Three agents at work (1/2 tasks)")
    wait_for_children(children)
    sm("children", "--recursive")
    sm("complete", "The page is built; its tests fail and the icons are missing")


def builder(task: str, pace_s: float) -> None:
    sm("checkpoint", "Started: " + task)
    _work("Writing the form", pace_s)
    sm("note", "Writing the form")
    linter = spawn("Linter", "Check the style of the form", "form")
    _work("Writing the session cookie", pace_s)
    sm("checkpoint", "Form and cookie written (2/3 tasks)")
    sm("wait", linter)
    colour = sm(
        "ask", "Which colour should the button have?", "--option", "blue", "--option", "green", "--wait", "60"
    )
    sm("note", f"Painting the button {colour.strip()}")
    _work("Polishing", pace_s)
    sm("complete", "Login page built")


def linter(task: str, pace_s: float) -> None:
    sm("note", task)
    _work("Reading 3 files", pace_s)
    sm("complete", "No findings")


def tester(task: str, pace_s: float) -> None:
    sm("checkpoint", "Started: " + task)
    _work("Running 14 tests", 2 * pace_s)
    sm("checkpoint", "14 tests ran", "--metadata", "failed=2")
    sm("complete", "2 of 14 tests fail", "--status", "error")


def reviewer(task: str, pace_s: float) -> None:
    """Stays: asks the operator, and then reads messages."""
    sm("checkpoint", "Started: " + task)
    _work("Reading the form", pace_s)
    sm("note", "Read the form and its tests")
    try:
        sm(
            *("ask", "2 of 14 tests fail. Ship the page today?", "--option", "ship it", "--option", "wait"),
            *("--wait", str(_STAY_S)),
        )
    except subprocess.CalledProcessError:
        _show("... no answer")
    else:
        sm("checkpoint", "The operator has decided")
    while True:
        for message in json.loads(sm("inbox", "--take", "--wait", "--json")):
            sm("note", f"Read: {message['text'].splitlines()[-1]}")


def fetcher(task: str, pace_s: float) -> None:
    sm("note", task)
    _work("Asking the icon server", pace_s)
    raise Crash("the icon server does not answer")


ROLES = {role.__name__: role for role in (coordinator, builder, linter, tester, fetcher, reviewer)}


def _work(what: str, seconds: float) -> None:
    _show(f"... {what}")
    time.sleep(seconds)


def _show(text: str) -> None:
    if text:
        print(text, flush=True)  # noqa: T201  for a user who attaches to this terminal


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m sm.cli.commands.demo_agent")
    parser.add_argument("role", choices=list(ROLES))
    parser.add_argument("--pace", type=float, default=1.0, metavar="SECONDS", help="how long one step takes")
    parser.add_argument("task")
    options = parser.parse_args()
    _show(f"{options.role}: {options.task}")
    ROLES[options.role](options.task, options.pace)

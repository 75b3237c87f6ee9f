"""The agents of `sm demo`: real processes that do nothing but report, delegate, wait, fail or crash as told.

    python -m sm.cli.commands.demo_agent ROLE --pace SECONDS TASK

They use `sm` as any agent would: as the command on their PATH. What they print is for the person who attaches.
"""

import argparse
import json
import re
import subprocess
import time

_REPORT_S = 90.0


class Crash(Exception):
    """What the Fetcher dies of: nobody catches it, as in real life."""


def sm(*arguments: str) -> str:
    """Run `sm`, show it as a person would see it typed, and return what it printed. Raises CalledProcessError."""
    _show("$ sm " + " ".join(f'"{a}"' if " " in a else a for a in arguments))
    output = subprocess.check_output(["sm", *arguments], text=True, timeout=_REPORT_S)
    _show(output.rstrip())
    return output


def spawn(agent_type: str, task: str, name: str) -> str:
    """Start a child and return its id."""
    session = json.loads(sm("spawn", agent_type, task, "--name", name, "--json"))
    return str(session["session_id"])


def hear(children: set[str]) -> None:
    """Return when the inbox has told that all of them have ended; a question is answered with its first option."""
    while children:
        for message in json.loads(sm("inbox", "--take", "--wait", "--json")):
            for entry in message["text"].splitlines():
                asked = re.search(r"answer with: sm answer (r\d+) TEXT$", entry)
                if asked:
                    sm("answer", asked[1], "1")
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
    hear(children)
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
        "ask", "Which colour has the button?", "--option", "blue", "--option", "green", "--wait", "60"
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


def fetcher(task: str, pace_s: float) -> None:
    sm("note", task)
    _work("Asking the icon server", pace_s)
    raise Crash("the icon server does not answer")


ROLES = {role.__name__: role for role in (coordinator, builder, linter, tester, fetcher)}


def _work(what: str, seconds: float) -> None:
    """Pretend to work: the only thing here that takes time for the sake of it."""
    _show(f"... {what}")
    time.sleep(seconds)


def _show(text: str) -> None:
    if text:
        print(text, flush=True)  # noqa: T201  its terminal is what a person attaches to


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m sm.cli.commands.demo_agent")
    parser.add_argument("role", choices=list(ROLES))
    parser.add_argument("--pace", type=float, default=1.0, metavar="SECONDS", help="how long one step takes")
    parser.add_argument("task")
    options = parser.parse_args()
    _show(f"{options.role}: {options.task}")
    ROLES[options.role](options.task, options.pace)

"""A double of gh, the program of GitHub: a script on PATH that answers from files and records its calls.

The answers are in a directory beside the script, one file for the first two words of a call: `pr-list.json`. Each has
the exit code, the output and the errors. `hangs` instead of them lets the call wait for ever.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SCRIPT = """#!{python} -I
import json, os, sys, time
place = os.path.dirname(os.path.abspath(__file__))
words = sys.argv[1:]
given = sys.stdin.read()
call = {{"argv": words, "env": dict(os.environ), "cwd": os.getcwd(), "stdin": given, "pid": os.getpid()}}
try:
    os.close(os.open("/dev/tty", os.O_RDWR))
    call["tty"] = True
except OSError:
    call["tty"] = False
with open(place + "/calls", "a") as file:
    file.write(json.dumps(call) + "\\n")
name = words[-1] if words[0] == "api" else "-".join(words[:2])
with open(place + "/" + name.replace("/", "-") + ".json") as file:
    answer = json.load(file)
if answer.get("hangs"):
    time.sleep(1000)
sys.stdout.write(answer["output"])
sys.stderr.write(answer["errors"])
sys.exit(answer["code"])
"""
NUMBER = 12


class GhDouble:
    """The script, its answers and its calls. `place`: a new directory for it, which belongs on PATH."""

    def __init__(self, place: Path, repository: str = "octo/app") -> None:
        place.mkdir()
        self.place = place
        self._repository = repository
        self.url = f"https://github.com/{repository}/pull/{NUMBER}"
        script = place / "gh"
        script.write_text(_SCRIPT.format(python=sys.executable))
        script.chmod(0o755)
        self.answer("auth-status", "")
        self.answer("pr-list", [])
        self.answer("pr-create", f"\n{self.url}\n")

    def answer(self, call: str, output: Any, *, code: int = 0, errors: str = "", hangs: bool = False) -> None:
        """Set the answer of the calls with these first two words. `output`: a text, or a value to print as JSON."""
        text = output if isinstance(output, str) else json.dumps(output)
        answer = {"output": text, "code": code, "errors": errors, "hangs": hangs}
        (self.place / f"{call}.json").write_text(json.dumps(answer))

    def answer_api(self, path: str, output: Any) -> None:
        """Set the answer of GitHub's REST API for a path below that of the repository."""
        self.answer(f"repos/{self._repository}/{path}".replace("/", "-"), output)

    def has_pull_request(self, branch: str) -> None:
        """Let the repository have an open pull request of this branch."""
        entry = {"number": NUMBER, "url": self.url, "headRefName": branch, "isCrossRepository": False}
        self.answer("pr-list", [{**entry, "headRefName": "other", "url": "x"}, entry])

    def calls(self, *words: str) -> list[Mapping[str, Any]]:
        """The calls that begin with these words, oldest first."""
        try:
            lines = (self.place / "calls").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [call for call in map(json.loads, lines) if call["argv"][: len(words)] == list(words)]

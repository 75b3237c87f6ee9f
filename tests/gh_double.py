"""A double of gh, the program of GitHub: a script on PATH that answers from files and records its calls.

The answers are in a directory beside the script, one file for the first two words of a call: `pr-list.json`. Each has
the exit code, the output and the errors. `hangs` instead of them lets the call wait for ever. The script refuses every
command, option and JSON field that the real gh of tests/data/gh.json lacks.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests import gh_options

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

def refusal():
    with open({known!r}) as file:
        commands = json.load(file)["commands"]
    known = commands.get(words[0]) or commands.get(" ".join(words[:2]))
    if known is None:
        return 'unknown command "%s" for "gh"' % words[0]
    for word in words:
        name, _, value = word[2:].partition("=")
        if word.startswith("--") and name not in known["options"] and name not in call["newer"]:
            return "unknown flag: --" + name
        for field in value.split(",") if name == "json" else ():
            if field not in known["fields"]:
                return 'Unknown JSON field: "%s"' % field

call["newer"] = {escapes!r} if os.path.exists(place + "/newer") else []
call["refused"] = refusal()
with open(place + "/calls", "a") as file:
    file.write(json.dumps(call) + "\\n")
if call["refused"]:
    sys.exit(call["refused"] + "\\n\\nUsage:  gh")
paths = [word for word in words if not word.startswith("-")]
name = paths[-1] if words[0] == "api" else "-".join(words[:2])
try:
    with open(place + "/" + name.replace("/", "-") + ".json") as file:
        answer = json.load(file)
except FileNotFoundError:
    sys.exit("gh: Not Found (HTTP 404)")
if answer.get("hangs"):
    time.sleep(1000)
if call["newer"] and words[0] == "api" and "\\x1b" in answer["output"] and "--" + call["newer"][0] not in words:
    sys.exit("the response contains terminal escape sequences; pass --allow-escape-sequences to output it anyway")
sys.stdout.write(answer["output"])
sys.stderr.write(answer["errors"])
sys.exit(answer["code"])
"""
_ESCAPES = ["allow-escape-sequences"]
NUMBER = 12


class GhDouble:
    """The script, its answers and its calls. `place`: a new directory for it, which belongs on PATH."""

    def __init__(self, place: Path, repository: str = "octo/app") -> None:
        place.mkdir()
        self.place = place
        self._repository = repository
        self.url = f"https://github.com/{repository}/pull/{NUMBER}"
        script = place / "gh"
        script.write_text(_SCRIPT.format(python=sys.executable, known=str(gh_options.PATH), escapes=_ESCAPES))
        script.chmod(0o755)
        self.answer("pr-list", [])
        self.answer("repo-view", {"isFork": False, "parent": None})
        self.answer("pr-create", f"\n{self.url}\n")

    def answer(self, call: str, output: Any, *, code: int = 0, errors: str = "", hangs: bool = False) -> None:
        """Set the answer of the calls with these first two words. `output`: a text, or a value to print as JSON."""
        text = output if isinstance(output, str) else json.dumps(output)
        answer = {"output": text, "code": code, "errors": errors, "hangs": hangs}
        (self.place / f"{call}.json").write_text(json.dumps(answer))

    def answer_api(self, path: str, output: Any, **more: Any) -> None:
        """Set the answer of GitHub's REST API for a path below that of the repository."""
        self.answer(f"repos/{self._repository}/{path}".replace("/", "-"), output, **more)

    def is_logged_out(self, call: str) -> None:
        """Let the calls with these first two words say what gh says without any token."""
        words = "To get started with GitHub CLI, please run:  gh auth login\nAlternatively, populate the GH_TOKEN\n"
        self.answer(call, "", code=4, errors=words)

    def is_newer(self) -> None:
        """Let `gh api` refuse to print escape sequences, as gh 2.103 does."""
        (self.place / "newer").touch()

    def has_pull_request(self, branch: str, *, fork: str | None = None) -> None:
        """Let the repository have an open pull request of this branch. `fork`: the owner of a fork that has it."""
        entry = {
            "number": NUMBER,
            "url": self.url,
            "headRefName": branch,
            "isCrossRepository": fork is not None,
            "headRepositoryOwner": {"id": "O_1", "login": fork or self._repository.split("/")[0]},
        }
        others = [
            {**entry, "headRefName": "other", "url": "x"},
            {**entry, "isCrossRepository": True, "headRepositoryOwner": {"login": "mallory"}, "url": "x"},
            {**entry, "isCrossRepository": True, "headRepositoryOwner": None, "url": "x"},
        ]
        self.answer("pr-list", [*others, entry])

    def calls(self, *words: str) -> list[Mapping[str, Any]]:
        """The calls that begin with these words, oldest first."""
        try:
            lines = (self.place / "calls").read_text().splitlines()
        except FileNotFoundError:
            return []
        calls = [json.loads(line) for line in lines]
        refused = [call["refused"] for call in calls if call["refused"]]
        assert refused == [], "the real gh would refuse this call"
        return [call for call in calls if call["argv"][: len(words)] == list(words)]

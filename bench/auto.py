"""`python -m bench auto`: measures how often mode auto is right about scripted endings of the real Claude Code.

Each session is a claude whose scripted API answers its task with an ending of the corpus, after a use of a tool if the
turn of the ending used one. Every part of sm is the real one: hooks, daemon, quiet window, requests, notices.
"""

import argparse
import json
import random
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sm.capabilities.completion.model import Ending, TurnFacts
from sm.capabilities.completion.rules.turn_end import classify
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import Request, ScriptedApi, tool

CORPUS = Path("tests/data/completion/held_out_e.jsonl")
DOCUMENT = Path("docs/benchmarks.md")
BEGIN, END = "<!-- begin: python -m bench auto --write -->", "<!-- end: python -m bench auto --write -->"

_CONFIG = "{completion_quiet_s: 0.5, idle_timeout: 100000}"
_WITHIN_S = 120.0
_PLAYED = frozenset({"tools_used", "errors", "last_tool_failed"})
"""Facts that a scripted turn reproduces. The tests play the others: children, background tasks, failed turns."""
_RIGHT: Mapping[str, str] = {
    Ending.DONE: "completed",
    Ending.QUESTION: "question",
    Ending.FAILED: "failed",
    Ending.BLOCKED: "blocked",
    Ending.PROGRESS: "idle",
    Ending.UNCLEAR: "idle",
}
"""The right action for each label."""
_ACTIONS = ("completed", "question", "failed", "blocked", "idle")


@dataclass(frozen=True, slots=True)
class ScriptedEnding:
    """One line of the corpus."""

    text: str
    label: str
    task: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The action of sm after an ending, and the rule of the classifier that decided."""

    ending: ScriptedEnding
    action: str
    rule: str

    @property
    def is_right(self) -> bool:
        return self.action == _RIGHT[self.ending.label]


def main(arguments: Sequence[str]) -> int:
    """Return 0 if no session was completed that is not done, else 1."""
    parser = argparse.ArgumentParser(
        prog="python -m bench auto", description="Measure how often mode auto is right, with the real claude."
    )
    parser.add_argument("--corpus", type=Path, default=CORPUS, help=f"labelled endings (default: {CORPUS})")
    parser.add_argument("--count", type=int, default=100, help="number of endings (default: 100)")
    parser.add_argument("--seed", type=int, default=16, help="seed of the choice (default: 16)")
    parser.add_argument("--at-once", type=int, default=3, help="sessions at the same time (default: 3)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--write", action="store_true", help=f"also write the result into {DOCUMENT}")
    options = parser.parse_args(arguments)
    endings = choose(read(options.corpus), options.count, options.seed)
    outcomes = measure(endings, options.at_once)
    report = "\n".join(table(outcomes))
    if options.write:
        write(report)
    print(json.dumps(score(outcomes), indent=2, ensure_ascii=False) if options.json else report)
    return int(any(o.action == "completed" and not o.is_right for o in outcomes))


def read(corpus: Path) -> list[ScriptedEnding]:
    """The endings that a scripted turn can reproduce."""
    lines = [json.loads(line) for line in corpus.read_text(encoding="utf-8").split("\n") if line.strip()]
    return [
        ScriptedEnding(line["text"], line["label"], line["task"], line["facts"])
        for line in lines
        if line["text"].strip() and line["task"].strip() and _PLAYED.issuperset(line["facts"])
    ]


def choose(endings: Sequence[ScriptedEnding], count: int, seed: int) -> list[ScriptedEnding]:
    """Choose `count` endings: every label has the same part of the choice as of the corpus, rounded."""
    dice = random.Random(seed)
    by_label = sorted(endings, key=lambda ending: (ending.label, dice.random()))
    count = min(count, len(by_label))
    return [by_label[int((n + 0.5) * len(by_label) / count)] for n in range(count)]


def measure(endings: Sequence[ScriptedEnding], at_once: int) -> list[Outcome]:
    """Let a claude end with each ending; return what sm did."""

    def model(request: Request) -> str | None:
        found = re.search(r"\beditor-ending(\d+) \(session ", request.system)
        return None if found is None else answer(endings[int(found[1])], request)

    with ScriptedApi() as api, ClaudeInstance(api, completion=_CONFIG) as instance:
        api.when(model)
        instance.sm("daemon", "start")
        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(partial(_play, instance), range(len(endings)), endings))


def answer(ending: ScriptedEnding, request: Request) -> str:
    """The next response of the model: a use of a tool first, if the turn used one."""
    if ending.facts.get("tools_used") and not request.results:
        if ending.facts.get("last_tool_failed"):
            return tool("Read", file_path="missing.txt")
        return tool("Bash", command="echo ok", description="scripted")
    return f"[[text:{ending.text}]]"


def _play(instance: ClaudeInstance, number: int, ending: ScriptedEnding) -> Outcome:
    session = instance.spawn("Editor", "-", "--name", f"ending{number}", stdin=ending.task)
    session_id = session["session_id"]
    until(partial(_is_over, instance, session_id), f"ending {number} has its consequence")
    found = instance.session(session_id)
    requests = [r for r in instance.json("requests") if r["session_id"] == session_id]
    instance.sm("kill", session_id, "--force")
    facts = TurnFacts(tools_used=1 if ending.facts.get("tools_used") else 0)
    rule = classify(ending.text, ending.task, facts).rule
    print(f"{number + 1}: {ending.label}, {_action(found, requests)}", file=sys.stderr, flush=True)
    return Outcome(ending, _action(found, requests), rule)


def _is_over(instance: ClaudeInstance, session_id: str) -> bool:
    """True when the turn has ended, and no quiet window runs."""
    with closing(sqlite3.connect(f"file:{instance.state}/sm.db?mode=ro", uri=True, timeout=60)) as db:
        ((ended_at,),) = db.execute("SELECT turn_ended_at FROM sessions WHERE id = ?", (session_id,))
        query = "SELECT count(*) FROM timers WHERE subject = ? AND kind = 'completion'"
        ((windows,),) = db.execute(query, (session_id,))
    return ended_at is not None and not windows


def _action(session: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]) -> str:
    if session["status"] == "completed":
        return "completed"
    if any(r["kind"] == "question" and r["evidence"] == "completion" for r in requests):
        return "question"
    word = session["status_reason"].partition(":")[0]
    return word if word in ("failed", "blocked") else "idle"


def score(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """`{n, right, wrong_completions, errors: [{text, label, action, rule}]}`."""
    return {
        "n": len(outcomes),
        "right": sum(o.is_right for o in outcomes),
        "wrong_completions": sum(o.action == "completed" and not o.is_right for o in outcomes),
        "errors": [
            {"text": o.ending.text, "label": o.ending.label, "action": o.action, "rule": o.rule}
            for o in outcomes
            if not o.is_right
        ],
    }


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """Markdown: the actions for each label, then every error. Wrong completions come first."""
    scored = score(outcomes)
    pairs = Counter((o.ending.label, o.action) for o in outcomes)
    done = sum(o.ending.label == Ending.DONE for o in outcomes)
    lines = [
        f"Mode auto was right about {scored['right']} of {scored['n']} endings.",
        f"Sessions completed that are not done: {scored['wrong_completions']}.",
        f"Sessions left idle that are done: {pairs[Ending.DONE, 'idle']} of {done}.",
        "",
        f"| label | {' | '.join(_ACTIONS)} |",
        f"|---|{'---|' * len(_ACTIONS)}",
    ]
    for label in _RIGHT:
        cells = (
            f"**{pairs[label, action]}**" if action == _RIGHT[label] else f"{pairs[label, action] or ''}"
            for action in _ACTIONS
        )
        lines.append(f"| {label} | {' | '.join(cells)} |")
    wrong = sorted(
        (o for o in outcomes if not o.is_right), key=lambda o: (_ACTIONS.index(o.action), o.ending.label)
    )
    if wrong:
        lines += ["", "| label | action | rule | message |", "|---|---|---|---|"]
        lines += [f"| {o.ending.label} | {o.action} | {o.rule} | {_cell(o.ending.text)} |" for o in wrong]
    return lines


def _cell(text: str) -> str:
    """The text as one cell of a table, without its marks."""
    return re.sub(r"([|<>*_`\[\]#\\])", r"\\\1", " ".join(text.split()))


def write(report: str) -> None:
    """Replace the result in the document. Raises ValueError if the document has no place for it."""
    text = DOCUMENT.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN), text.index(END)
    DOCUMENT.write_text(f"{text[:begin]}{BEGIN}\n{report}\n{text[end:]}", encoding="utf-8")

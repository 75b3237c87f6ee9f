"""The end-to-end workflow of seed 003, with the real Claude Code and the output that the seed shows.

The output differs from the seed where the design decides otherwise: an id has 8 digits, `sm spawn` also names the
terminal, and in further lines the permission mode and what is known of the program, a live session shows its note, an
event names the child, and `sm` estimates tokens only from reported tasks.
The reports of an agent are commands, so they count as uses of Bash.
"""

import re
import subprocess
from collections.abc import Mapping

import pytest

from tests.claude_fixtures import claude_instance, scripted_api
from tests.claude_instance import ClaudeInstance
from tests.instance import SM, until
from tests.scripted_api import Request, ScriptedApi, Usage, tool, usage

TYPES = """
    Engineer: {model: sonnet, args: [], auto_allow: [Read, Write, Edit]}
    Architect: {model: opus, args: []}
limits: {spawn_interval_s: 0}
"""
PIVOT, RESOLVER = "Implement #1042: PivotExtendedEvent", "Implement #1043: SignalResolver"
REVIEW = "Review #1042 and #1043"
MODE = "Permission mode: manual (the default of sm)"
USED: str = usage(Usage(input=150, output=50))


def bash(command: str) -> str:
    return tool("Bash", command=command, description="scripted")


def engineer(request: Request) -> str | None:
    """An engineer that uses 200 tokens for each step, and waits for the test before its report."""
    (name, result) = {
        PIVOT: ("pivot", "PivotExtendedEvent implemented"),
        RESOLVER: ("resolver", "SignalResolver extracted"),
    }.get(request.user_texts[0].strip(), ("", ""))
    if not name:
        return None
    one, two = f"{name}-1.py", f"{name}-2.py"
    steps = [
        bash("sm checkpoint 'Started implementation'"),
        tool("Write", file_path=one, content="a = 1\n") + tool("Write", file_path=two, content="b = 1\n"),
        "".join(tool("Read", file_path=path) for path in (one, two, one)),
        tool("Edit", file_path=one, old_string="a = 1", new_string="a = 2"),
        bash("sm note 'Implementing PivotExtendedEvent class'"),
        bash("sm checkpoint 'Created base class structure (6/25 tasks)'"),
        f"[[hold:{name}]]" + bash(f"sm complete '{result}'"),
        "[[text:That was all.]]",
    ]
    answered: int = sum(message["role"] == "assistant" for message in request.body["messages"])
    return steps[answered] + USED


def architect(request: Request) -> str | None:
    return "[[text:I read both changes.]]" if request.user_texts[0].strip() == REVIEW else None


api = scripted_api("function", engineer, architect)
claudes = claude_instance("function", more=TYPES)


def lines(text: str, replacements: Mapping[str, str]) -> list[str]:
    """The lines of an output, with names in place of ids, and without the numbers that differ from run to run."""
    for old, new in replacements.items():
        text = text.replace(old, new)
    text = re.sub(r"\b\d+(s|min)( ago| elapsed|\))", r"N\2", text)
    return [re.sub(r"^(\s*)\[[\d: -]+\]", r"\1[TIME]", line).rstrip() for line in text.splitlines()]


@pytest.mark.timeout(240)
def test_workflow_of_an_engineering_manager_shows_the_output_of_the_specification(
    claudes: ClaudeInstance, api: ScriptedApi
) -> None:
    manager = claudes.spawn("Sh", "exec sleep 1000")["session_id"]
    as_manager = claudes.as_session(manager)
    spawned = [
        claudes.sm("spawn", "Engineer", prompt, "--name", name, env=as_manager)
        for prompt, name in ((PIVOT, "eng-1042"), (RESOLVER, "eng-1043"))
    ]
    ids = {child["friendly_name"]: child["session_id"] for child in claudes.json("children", manager)}
    first, second = ids["engineer-eng-1042"], ids["engineer-eng-1043"]
    short = {first: "abc123", second: "def456"}
    assert [lines(text, short)[:2] for text in spawned] == [
        ["Spawned engineer-eng-1042 (abc123) in tmux session claude-abc123", MODE],
        ["Spawned engineer-eng-1043 (def456) in tmux session claude-def456", MODE],
    ]

    # Check progress
    for name in ("pivot", "resolver"):
        api.wait_for_hold(name)
    note = "Implementing PivotExtendedEvent class"
    assert lines(claudes.sm("children", manager, env=as_manager), short) == [
        f"engineer-eng-1042 (abc123) | running   | N ago | {note}".replace("running  ", "running"),
        f"engineer-eng-1043 (def456) | running   | N ago | {note}".replace("running  ", "running"),
    ]

    # Monitor detailed progress
    until(lambda: claudes.progress(first)["tokens_used"] == 1200, "the tokens are counted")
    progress = lines(claudes.sm("progress", first, env=as_manager), short)
    tools = progress.pop(2).split(": ")[1].split()
    assert progress[:3] == [
        "engineer-eng-1042 (abc123) | working | N elapsed",
        "Tokens: 1,200 / ~5,000 est (24%)",
        f"Status: {note}",
    ]
    assert sorted(tools) == ["Bash(3)", "Edit(1)", "Read(3)", "Write(2)"]
    reported = progress.index("Checkpoints:")
    assert progress[reported + 1 : reported + 3] == [
        "  [TIME] Started implementation",
        "  [TIME] Created base class structure (6/25 tasks)",
    ]

    # Wait for completion
    command = [SM, "events", manager, "--follow", "--type", "completed"]
    environment = {**claudes.env, **as_manager}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        try:
            followed = []
            for name in ("pivot", "resolver"):
                api.release(name)
                followed.append(follower.stdout.readline())
        finally:
            follower.kill()
    assert [lines(line, short)[0] for line in followed] == [
        '[TIME] completed: Child engineer-eng-1042 completed - "PivotExtendedEvent implemented"',
        '[TIME] completed: Child engineer-eng-1043 completed - "SignalResolver extracted"',
    ]

    # Review results
    assert lines(claudes.sm("children", manager, env=as_manager), short) == [
        'engineer-eng-1042 (abc123) | completed | N ago | "PivotExtendedEvent implemented"',
        'engineer-eng-1043 (def456) | completed | N ago | "SignalResolver extracted"',
    ]

    # Spawn architect to review
    review = claudes.sm("spawn", "Architect", REVIEW, "--name", "review", env=as_manager)
    reviewer = claudes.session("architect-review")["session_id"]
    assert lines(review, {reviewer: "ghi789"})[:2] == [
        "Spawned architect-review (ghi789) in tmux session claude-ghi789",
        MODE,
    ]
    claudes.idle(reviewer)

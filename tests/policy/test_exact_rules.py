"""The rule of a request: it matches exactly what the person saw, or there is none."""

from typing import Any

import pytest

from sm.policy.exact_rules import exact_rule
from sm.policy.tool_rules import PathContext, evaluate
from sm.policy.written_rules import WrittenRule

BASE = "/work/shop"
PRIVATE = ("/work/shop/home/.config/sm",)


def rule(tool: str, /, **arguments: Any) -> str:
    return exact_rule(tool, arguments, (BASE, "/srv/disk/shop"), PRIVATE)


def allows(text: str, tool: str, **arguments: Any) -> bool:
    return evaluate((text,), (), tool, arguments, PathContext(BASE, (BASE,)), cut=False) is not None


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("Bash", {"command": "npm test"}, "Bash(npm test)"),
        ("Bash", {"command": 'npm test && echo "it\'s (done)"', "description": "x"}, None),
        ("Bash", {"command": "echo $(date)"}, "Bash(echo $(date))"),
        ("Bash", {"command": "grep -c '^#: \"a\"' notes.md"}, None),
        ("Bash", {"command": "ls [ab]?.txt"}, "Bash(ls [ab]?.txt)"),
        ("Bash", {"command": "echo grün 日本"}, "Bash(echo grün 日本)"),
        ("Edit", {"file_path": "/work/shop/src/a.py", "old_string": "a"}, "Edit(/work/shop/src/a.py)"),
        ("Write", {"file_path": "/srv/disk/shop/a b.py"}, "Write(/srv/disk/shop/a b.py)"),
        ("NotebookEdit", {"notebook_path": "/work/shop/n.ipynb"}, "NotebookEdit(/work/shop/n.ipynb)"),
        ("Grep", {"pattern": "x", "path": "/work/shop/src"}, "Grep(/work/shop/src)"),
        ("Glob", {"pattern": "*.py", "path": "/work/shop/src"}, "Glob(/work/shop/src)"),
        ("WebFetch", {"url": "https://example.org/a?b=c"}, "WebFetch(https://example.org/a?b=c)"),
        ("mcp__files__read_file", {"path": "x"}, "mcp__files__read_file"),
    ],
)
def test_rule_names_exactly_what_is_asked(tool: str, arguments: dict[str, Any], expected: str | None) -> None:
    text = rule(tool, **arguments)
    assert text == (expected or f"Bash({arguments['command']})")
    assert allows(text, tool, **arguments)


def test_rule_of_a_command_allows_no_other_command() -> None:
    text = rule("Bash", command="npm test")
    others = ["npm test x", "npm test; rm -rf /", "npm  test", "npm test\n", "npm", " npm test"]
    assert not any(allows(text, "Bash", command=other) for other in others)
    assert not allows(text, "Bash", command="npm test", dangerouslyDisableSandbox=True)


def test_rule_of_a_file_allows_no_other_file() -> None:
    text = rule("Edit", file_path="/work/shop/src/a.py")
    others = ["/work/shop/src/b.py", "/work/shop/src/a.py/x", "/work/shop/src/", "src/../../a.py"]
    assert not any(allows(text, "Edit", file_path=other) for other in others)
    assert not allows(text, "Write", file_path="/work/shop/src/a.py")


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("Bash", {"command": "rm -rf *"}, "matches any text"),
        ("Bash", {"command": "*"}, "matches any text"),
        ("Bash", {"command": "npm:*"}, "matches any text"),
        ("Bash", {"command": "npm test\nrm -rf /"}, "line break"),
        ("Bash", {"command": "npm test\r"}, "line break"),
        ("Bash", {"command": "npm test\u2028rm"}, "cannot be seen"),
        ("Bash", {"command": "npm \u202etset"}, "cannot be seen"),
        ("Bash", {"command": "npm\u200b test"}, "cannot be seen"),
        ("Bash", {"command": "npm\u00a0test"}, "cannot be seen"),
        ("Bash", {"command": "rm \u05d0 x; ls \u05d1"}, "from right to left"),
        ("Bash", {"command": "npm test\x00"}, "cannot be seen"),
        ("Bash", {"command": "npm \ud800"}, "cannot be seen"),
        ("Bash", {"command": " npm test"}, "begins or ends with a space"),
        ("Bash", {"command": "   "}, "the pattern is empty"),
        ("Bash", {"command": "x" * 500}, "longer than 500 characters"),
        ("Bash", {"command": ""}, "has no command"),
        ("Bash", {"command": ["npm", "test"]}, "has no command"),
        ("Bash", {}, "has no command"),
        ("Bash", {"command": "ls", "dangerouslyDisableSandbox": True}, "dangerouslyDisableSandbox"),
        ("Edit", {"file_path": "/work/shop/*.py"}, "matches any text"),
        ("Edit", {"file_path": "/etc/passwd"}, "outside"),
        ("Edit", {"file_path": "/work/shopping/a.py"}, "outside"),
        ("Edit", {"file_path": "/work/shop/../../etc/passwd"}, "shortest form"),
        ("Edit", {"file_path": "/work/shop//a.py"}, "shortest form"),
        ("Edit", {"file_path": "//work/shop/a.py"}, "not absolute"),
        ("Edit", {"file_path": "/work/shop/src/"}, "shortest form"),
        ("Edit", {"file_path": "src/a.py"}, "not absolute"),
        ("Edit", {"file_path": "~/a.py"}, "not absolute"),
        ("Edit", {"file_path": "/work/shop/a.py\n"}, "line break"),
        ("Edit", {"file_path": "/work/shop/.git/hooks/pre-commit"}, "programs run commands"),
        ("Edit", {"file_path": "/work/shop/.sm/project.yaml"}, "programs run commands"),
        ("Write", {"file_path": "/work/shop/sub/.claude/settings.local.json"}, "programs run commands"),
        ("Write", {"file_path": "/work/shop/.mcp.json"}, "programs run commands"),
        ("Write", {"file_path": "/work/shop/home/.config/sm/rules.yaml"}, "belongs to sm"),
        ("Grep", {"pattern": "token", "path": "/work/shop"}, "belongs to sm"),
        ("Grep", {"pattern": "x"}, "has no path"),
        ("Glob", {"pattern": "../**", "path": "/work/shop/src"}, "with these arguments"),
        ("WebFetch", {"url": "https://*"}, "matches any text"),
        ("WebFetch", {"url": "example.org"}, "must match the whole URL"),
        ("WebSearch", {"query": "x"}, "cannot distinguish"),
        ("Task", {"prompt": "x"}, "cannot distinguish"),
        ("AskUserQuestion", {"questions": []}, "need an answer"),
        ("ExitPlanMode", {"plan": "x"}, "need an answer"),
        ("Bash(*)", {"command": "ls"}, "cannot distinguish"),
        ("Bash\n", {"command": "ls"}, "cannot distinguish"),
        ("*", {}, "cannot distinguish"),
        ("", {}, "cannot distinguish"),
        ("Bash", {"command": "sm approve engineer-login"}, "acts on other sessions"),
        ("Bash", {"command": "cd /work && 's'm approve --same r5"}, "acts on other sessions"),
        ("Bash", {"command": "/usr/bin/sm send engineer-login ok"}, "acts on other sessions"),
        ("mcp__sm__approve_request", {"request": "r5"}, "acts on other sessions"),
        ("mcp__files__*", {}, "tools of another server"),
        ("mcp__*", {}, "tools of another server"),
        ("mcp__files", {}, "tools of another server"),
        ("mcp__files__", {}, "tools of another server"),
        ("mcp__a__b__c", {}, "tools of another server"),
        ("mcp__a___b", {}, "tools of another server"),
        ("mcp__files__read\n", {}, "tools of another server"),
        ("mcp__files__read(x)", {}, "tools of another server"),
        ("mcp__my.shop__get", {}, "tools of another server"),
    ],
)
def test_no_rule_when_it_would_be_wider_than_what_the_person_saw(
    tool: str, arguments: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        exact_rule(tool, arguments, (BASE,), PRIVATE)


def test_session_in_a_directory_of_a_tool_gets_rules_for_its_own_files() -> None:
    base = "/work/shop/.sm/worktrees/one"
    assert exact_rule("Edit", {"file_path": f"{base}/a.py"}, (base,)) == f"Edit({base}/a.py)"


@pytest.mark.parametrize(
    ("allow", "words"),
    [
        ("Bash(npm test)", ""),
        ("Edit(/work/shop/a.py)", ", with any other arguments"),
        ("WebFetch(https://example.org/)", ", with any other arguments"),
        ("mcp__shop__pay", ", with any arguments"),
    ],
)
def test_sentence_of_a_rule_says_which_arguments_it_leaves_open(allow: str, words: str) -> None:
    assert WrittenRule("Engineer", allow).sentence == f"Engineer may always use {allow}{words}"
    assert (
        WrittenRule("Engineer", allow, True).sentence
        == f"Engineer may always use {allow} in sandboxes{words}"
    )


@pytest.mark.parametrize(
    "command", ["cd /work/.sm/worktrees/one && npm test", "sm-lint x", "ls src/sm/board"]
)
def test_command_that_only_names_a_directory_like_sm_gets_a_rule(command: str) -> None:
    assert rule("Bash", command=command) == f"Bash({command})"

"""How rules are written, which tools and files they cover, and how much work they may take."""

import re
import sys
import unicodedata
from collections.abc import Callable
from types import FrameType
from typing import Any, Literal

import pytest

from sm.policy.patterns import matches
from sm.policy.tool_rules import RULE_MAX, PathContext, Ruling, evaluate, parse_rule
from tests.policy.decisions import DIR, decide, decide_command


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("", "is not a valid rule"), ("*", "is not a valid rule"), ("Ba sh", "is not a valid rule"),
        ("Bash(npm test", "missing closing parenthesis"),
        ("Bash()", "the pattern is empty; use Bash to match every use of the tool"),
        ("Bash( ls)", "begins or ends with a space"), ("Bash(npm test:*)", "use Bash(npm test *)"),
        ("WebFetch(domain:a.test)", "use WebFetch(https://a.test/*)"),
        ("WebFetch(a.test/*)", "the pattern must match the whole URL"), ("WebSearch(x)", "use WebSearch without one"),
        ("ExitPlanMode(*)", "use ExitPlanMode without one"), ("mcp__a__*(x)", "mcp__a__* does not accept a pattern"),
        ("mcp__my.shop__*", "claude names this tool mcp__my_shop__*"),
        ("mcp__my shop__get", "claude names this tool mcp__my_shop__get"),
        ("mcp__a", "use mcp__a__* for all tools of the server"), ("mcp__*", "is not a valid rule"),
        ("Read(~/.ssh/*)", "`~` is not expanded"), ("Read(../x)", "must not contain `..`"),
        ("Read(secrets/)", "use Read(secrets/*) to match the files in a directory"), ("Bash(a\nb)", "must be one line"),
        (f"Bash({'x' * 500})", "is longer than 500 characters"),
    ],
)  # fmt: skip
def test_parse_rule_explains_why_a_text_is_not_a_rule(rule: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        parse_rule(rule)


@pytest.mark.parametrize(
    ("pattern", "text", "is_match"),
    [
        ("*", "", True), ("a*", "a", True), ("a*a", "a", False), ("a*a", "aa", True), ("a*b*c", "axbxc", True),
        ("a*b*c", "axcxb", False), ("*b*", "abc", True), ("a**c", "abc", True), ("[a]?", "[a]?", True),
        ("[a]?", "ab", False), ("a*bc*c", "abc", False),
    ],
)  # fmt: skip
def test_star_is_the_only_wildcard(pattern: str, text: str, is_match: bool) -> None:
    assert matches(pattern, text) is is_match


def test_ruling_names_the_rule_and_the_text_that_it_matched() -> None:
    assert evaluate(
        ("Bash(npm test *)",), (), "Bash", {"command": "npm test x"}, PathContext(DIR), cut=False
    ) == Ruling(True, "Bash(npm test *)", 'auto_allow: Bash(npm test *) matches "npm test x"')
    assert evaluate(
        (), ("Bash(rm *)",), "Bash", {"command": "ls; sudo rm 'x'"}, PathContext(DIR), cut=False
    ) == Ruling(False, "Bash(rm *)", 'auto_deny: Bash(rm *) matches "rm x"')
    assert evaluate((), ("Bash",), "Bash", {"command": "ls"}, PathContext(DIR), cut=False) == Ruling(
        False, "Bash", "auto_deny: Bash"
    )


def test_rule_without_a_pattern_allows_every_use_of_its_tool() -> None:
    assert decide_command("npm test; rm -rf /", ("Bash",)) is True
    assert decide("WebSearch", {"query": "x"}, ("WebSearch",)) is True
    assert decide("WebSearch", {"query": "x"}, ("Web",)) is None
    assert decide("websearch", {"query": "x"}, ("WebSearch",)) is None


def test_nothing_is_allowed_when_arguments_are_cut() -> None:
    assert decide("Bash", {"command": "npm test x"}, ("Bash", "Bash(npm test *)"), cut=True) is None
    assert decide("WebSearch", {"query": "x"}, ("WebSearch",), cut=True) is None
    assert decide("Bash", {"command": "rm -rf /"}, (), ("Bash(rm *)",), cut=True) is False


def test_questions_and_plans_are_not_allowed_by_wildcards() -> None:
    assert decide("AskUserQuestion", {"questions": []}, ("AskUserQuestion",)) is None
    assert decide("ExitPlanMode", {"plan": "x"}, ("ExitPlanMode",)) is True
    assert decide("ExitPlanMode", {"plan": "x"}, ("Bash", "Bash(*)", "mcp__a__*")) is None
    assert decide("AskUserQuestion", {}, (), ("AskUserQuestion",)) is False


def test_rule_for_a_server_covers_its_tools_and_no_other_server() -> None:
    assert decide("mcp__github__get_issue", {}, ("mcp__github__*",)) is True
    assert decide("mcp__github2__get_issue", {}, ("mcp__github__*",)) is None
    assert decide("mcp__github__get__issue", {}, ("mcp__github__*",)) is None  # the server github__get?
    assert decide("mcp__github___get", {}, ("mcp__github__*",)) is None  # the server github_?
    assert decide("mcp__github__get__issue", {}, (), ("mcp__github__*",)) is False
    assert decide("mcp__github__get_issue", {}, ("mcp__github__get_issue",)) is True


def test_deny_rule_wins_over_allow_rule() -> None:
    assert decide_command("npm test", ("Bash(npm test)",), ("Bash(npm *)",)) is False
    assert decide_command("npm test", ("Bash(npm test)",), ("Bash",)) is False
    assert decide_command(5, ("Bash",), ("Bash",)) is False


# --------------------------------------------------------------------------------------------------------------- files


def edit(path: object, *allow: str, deny: tuple[str, ...] = (), working_dir: str = DIR) -> bool | None:
    return decide("Edit", {"file_path": path}, allow, deny, working_dir=working_dir)


@pytest.mark.parametrize(
    "path",
    [
        "/srv/shop/src/a.py", "src/a.py", "./src/a.py", "src//a.py", "//srv/shop/src/a.py", "/srv/shop/x/../src/b/c",
    ],
)  # fmt: skip
def test_path_pattern_covers_every_spelling_of_a_path(path: str) -> None:
    assert edit(path, "Edit(src/*)") is True
    assert edit(path, "Edit(./src/*)") is True
    assert edit(path, "Edit(/srv/shop/src/*)") is True
    assert edit(path, "Edit(src/*)", deny=("Edit(/srv/*)",)) is False


@pytest.mark.parametrize(
    "path",
    [
        "/srv/shop/src/../../../etc/passwd", "src/../Makefile", "/etc/passwd", "/srv/shop/srcs/a", "/srv/shop/src",
        "/srv/shop/SRC/a", "~/src/a.py", "~", "~root/src/a", "/srv/shop/src/a\nb", "/srv/shop/src/a\0b",
        "/srv/shop/src/a\u202eb", "/tmp/srv/shop/src/a", "", None, 5, ["src/a"],
    ],
)  # fmt: skip
def test_path_pattern_allows_nothing_when_the_path_leads_elsewhere(path: object) -> None:
    assert edit(path, "Edit(src/*)", "Edit(./src/*)", "Edit(/srv/shop/src/*)") is None


def test_star_in_the_name_of_a_directory_is_a_character() -> None:
    assert edit("/srv/a/x/src/b", "Edit(src/*)", working_dir="/srv/*") is None
    assert edit("/srv/*/src/b", "Edit(src/*)", working_dir="/srv/*") is True
    assert edit("src/b", "Edit(src/*)", working_dir="") is None
    assert edit("/src/b", "Edit(src/*)", working_dir="") is None
    assert edit("/src/b", "Edit(src/*)", working_dir="/") is True


def test_relative_rules_refer_to_the_sessions_directory_when_the_agent_changes_directory() -> None:
    def edit_in_etc(path: str, allow: tuple[str, ...], deny: tuple[str, ...] = ()) -> bool | None:
        found = evaluate(allow, deny, "Edit", {"file_path": path}, PathContext("/etc", (DIR,)), cut=False)
        return None if found is None else found.approved

    assert edit_in_etc("/etc/src/a", ("Edit(src/*)",)) is None
    assert edit_in_etc("src/a", ("Edit(src/*)",)) is None
    assert edit_in_etc("/srv/shop/src/a", ("Edit(src/*)",)) is True
    assert edit_in_etc("../srv/shop/.env", ("Edit",), ("Edit(.env)",)) is False


def test_relative_rules_hold_for_each_name_of_the_directory() -> None:
    def edit_in_real(path: str) -> bool | None:
        rules = ("Edit(src/*)",), ("Edit(src/secret*)",)
        found = evaluate(
            *rules, "Edit", {"file_path": path}, PathContext("/real", ("/link", "/real")), cut=False
        )
        return None if found is None else found.approved

    assert [edit_in_real(f"{base}src/a") for base in ("", "/link/", "/real/", "/else/")] == [
        True,
        True,
        True,
        None,
    ]
    assert [edit_in_real(f"{base}src/secret") for base in ("", "/link/", "/real/")] == [False] * 3


def test_deny_rule_covers_every_spelling_of_a_path() -> None:
    for path in (".env", "./.env", "/srv/shop/.env", "src/../.env", "//srv//shop/.env", "/srv/shop/.ENV"):
        assert edit(path, "Edit", deny=("Edit(.env)",)) is False
    assert edit("~/x", "Edit", deny=("Edit(/home/ann/*)",)) is None
    assert edit(5, "Edit", deny=("Edit(/home/ann/*)",)) is None
    assert edit("/srv/shop/caf\u0065\u0301", "Edit", deny=("Edit(caf\u00e9)",)) is False
    assert edit("/x", "Edit", deny=("Edit(src/*)",), working_dir="") is None


def test_deny_rule_covers_a_path_with_blanks_around_it() -> None:
    for path in (" /etc/passwd", "/etc/passwd ", "\n/etc/passwd"):
        assert edit(path, "Edit", deny=("Edit(/etc/*)",)) is False
        assert edit(path, "Edit(*)") is None


def test_path_rule_covers_its_own_tool_only() -> None:
    assert decide("NotebookEdit", {"notebook_path": "a.ipynb"}, ("NotebookEdit(*.ipynb)",)) is True
    assert decide("Write", {"file_path": "src/a"}, ("Edit(src/*)",)) is None


def search(tool: str, allow: str = "", deny: str = "", **arguments: Any) -> bool | None:
    return decide(tool, arguments, (allow or tool,), (deny,) if deny else ())


def test_search_is_allowed_when_it_stays_below_its_directory() -> None:
    assert search("Grep", "Grep(src/*)", pattern="x", path="src") is True
    assert search("Grep", "Grep(src/*)", pattern="x", path="src/a") is True
    assert search("Grep", "Grep(src/*)", pattern="x") is None
    assert search("Grep", "Grep(/srv/shop)", pattern="x") is True
    assert search("Glob", "Glob(src/*)", pattern="**/*.py", path="src") is True
    for pattern in ("/etc/*", "../../*", "~/x", "{/etc/*,a}", None, 5):
        assert search("Glob", "Glob(src/*)", pattern=pattern, path="src") is None


def test_person_decides_when_a_search_may_find_denied_files() -> None:
    assert search("Grep", deny="Grep(secret/*)", pattern="x", path="secret") is False
    assert search("Grep", deny="Grep(secret/*)", pattern="x", path="secret/a") is False
    assert search("Grep", deny="Grep(secret/*)", pattern="x") is None
    assert search("Grep", deny="Grep(secret/*)", pattern="x", path="src") is True
    assert search("Glob", deny="Glob(/etc/*)", pattern="/etc/*", path="src") is False
    assert search("Glob", deny="Glob(/etc/*)", pattern="../../../etc/*", path="src") is False


# -------------------------------------------------------------------------------------------------------- bounded work


STEPS_MAX = 1_000_000


def rule_of(pattern: str, tool: str = "Bash") -> str:
    return f"{tool}({pattern[: RULE_MAX - len(tool) - 2]})"


def steps(work: Callable[[], object]) -> int:
    """Count the executed Python lines and C calls of `work`, which is the same on every machine."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        nonlocal count
        count += event == "line"
        return trace

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "c_call"

    before = sys.gettrace()
    sys.setprofile(profile)
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        sys.setprofile(None)
    return count


def slow_rules() -> tuple[str, ...]:
    return (
        *(rule_of(f"{'a' * (n % 7)}{'a*' * 240}b{n}") for n in range(50)),
        *(rule_of(f"*{'aa*' * 160}{n}*") for n in range(50)),
    )


@pytest.mark.parametrize(
    "command",
    [
        "a" * 65_536, "ab" * 32_768, "a;" * 32_768, "a " * 32_768, "'" * 65_536, "\\" * 65_536, 'x="' * 21_845,
        "x=1 " * 16_384, "> a " * 16_384, "sudo " * 13_107, "sudo -u " * 8_192,
        ";".join(f"aaaaaaa{n}" for n in range(1_900)), ";".join("a" * 30 + f"{n}" for n in range(1_900)),
        "$IFS" * 16_384, ";".join(f"a{n} -b" for n in range(650)),
        ";".join(f"a{n} $b" for n in range(1_900)), ";".join(f"a{n} -b" for n in range(1_900)),
        "a[" * 32_768, '"$a' * 21_845, '"' + "$a" * 32_000, "{" * 65_536, "\u00a0" * 65_536, "e\u0301" * 32_768,
    ],
    ids=lambda command: repr(command[:9]),
)  # fmt: skip
@pytest.mark.timeout(10)  # a C function that takes the square of its length takes longer
def test_work_is_bounded_for_a_hundred_rules_and_a_long_command(command: str) -> None:
    rules = slow_rules()
    assert (
        steps(lambda: evaluate(rules, rules, "Bash", {"command": command}, PathContext(DIR), cut=False))
        < STEPS_MAX
    )


@pytest.mark.parametrize("tool", ["Read", "WebFetch", "Glob"])
@pytest.mark.timeout(10)
def test_work_is_bounded_for_long_paths_and_urls(tool: str) -> None:
    start = "https://a" if tool == "WebFetch" else ""
    rules = tuple(rule_of(f"{start}/{'a*' * 220}b", tool) for _ in range(100))
    text = "https://a/" + "a" * 65_000 if tool == "WebFetch" else "/a" * 32_000
    arguments = {"url": text, "file_path": text, "path": text, "pattern": text}
    assert steps(lambda: evaluate(rules, rules, tool, arguments, PathContext(DIR), cut=False)) < STEPS_MAX


@pytest.mark.parametrize("tool", ["Bash", "Edit", "Glob"])
def test_person_decides_when_combining_marks_are_too_many(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorting combining marks takes quadratic time: ten seconds for the longest text that an agent may write."""
    text, normalized = "/srv/shop/a" + "\u0301\u0316" * 30_000, unicodedata.normalize

    def bounded(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
        assert text.count("\u0301") < 100, "the text is not normalized"
        return normalized(form, text)

    monkeypatch.setattr(unicodedata, "normalize", bounded)
    for key in ("path", "pattern"):
        arguments = {"command": text, "file_path": text, "path": "/srv", key: text}
        assert decide(tool, arguments, (tool,), (f"{tool}(/etc/*)",)) is None
    assert decide(tool, arguments, (tool,), (f"{tool}(/etc/*)",), working_dir=f"/{text}") is None

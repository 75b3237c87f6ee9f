"""What the configuration answers by itself: above all what must not get past it."""

import random
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.policy.patterns import matches
from sm.policy.rules import RULE_MAX, Place, Ruling, evaluate, parse_rule
from tests.load import scaled

DIR = "/srv/shop"


def bash(
    command: object, allow: tuple[str, ...] = (), deny: tuple[str, ...] = (), **more: Any
) -> bool | None:
    return said("Bash", {"command": command, **more}, allow, deny)


def said(
    tool: str,
    arguments: Mapping[str, Any],
    allow: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
    *,
    working_dir: str = DIR,
    cut: bool = False,
) -> bool | None:
    found = evaluate(allow, deny, tool, arguments, Place(working_dir), cut=cut)
    return None if found is None else found.approved


# ------------------------------------------------------------------------------------ commands that are not allowed

NOT_ONE_PROGRAM = [
    "npm test; rm -rf /",
    "npm test;rm -rf /",
    "npm test && rm x",
    "npm test || rm x",
    "npm test | sh",
    "npm test |& sh",
    "npm test & rm x",
    "npm test &",
    "npm test\nrm -rf /",
    "npm test \nrm -rf /",
    "npm test \\\nrm",
    "npm test \r\nrm x",
    "npm test \rrm x",
    "npm test $(rm x)",
    "npm test $HOME",
    "npm test ${x}",
    "npm test $'\\n'",
    "npm test `rm x`",
    "npm test > /etc/passwd",
    "npm test >/etc/passwd",
    "npm test 2>&1",
    "npm test < /etc/shadow",
    "npm test <(rm x)",
    "npm test >(rm x)",
    "npm test <<EOF",
    "npm test (x)",
    "npm test \\; rm",
    "npm test \0 x",
    "npm test \x1b[2J",
    "npm test \x85rm",
    "npm test \u2028rm",
    "npm test \u2029rm",
    "npm test \u00a0x",
    "npm test \u3000x",
    "npm test \u200bx",
    "npm test \u202ex",
    "npm test \ud800",
    "npm test\tx",
    "npm test 'a;b'; rm x",
    "npm test 'a;b",
    "npm test \"it's\" ; rm 'x'",
    "npm test 'a' $'b\\''",
    'npm test "$(rm x)"',
    'npm test "`rm x`"',
    'npm test "${x}"',
    'npm test "a\\" ; rm "',
    "npm test 'a\\' ; rm 'x'",
    "npm test # '\nrm -rf / #'",
    "npm test #'\nrm -rf / #'",
    "npm test 'x'# '\nrm -rf / #'",
    "npm test 'a\x1bb'",
    "npm test 'a\rb'",
    "npm test 'a\0b'",
    "npm test ''\"'\"; rm x",
    "npm test {a,b}",
    "npm test a{1..3}",
    "npm test {}",
    "npm test 'a[$(rm x)]'",
    "npm test 'a[0]=`rm x`'",
    "npm test 'a[b[0]+$(rm x)]'",
    "npm test 'a[${x@P}]'",
    "npm test \"a[\"'$(rm x)]'",
    "npm test a['$''(rm x)]'",
]


@pytest.mark.parametrize("command", NOT_ONE_PROGRAM)
@pytest.mark.parametrize("rule", ["Bash(npm test *)", "Bash(npm test*)", "Bash(npm *)", "Bash(*)"])
def test_a_pattern_allows_one_program_and_its_arguments_only(command: str, rule: str) -> None:
    assert bash(command, (rule,)) is None


@pytest.mark.parametrize(
    "command",
    [
        "X=1 npm test x",
        "PATH=/tmp npm test x",
        "sudo npm test x",
        "command npm test x",
        "\\npm test x",
        "'npm' test x",
        "./npm test x",
        "/tmp/npm test x",
        " npm test x",
        "npm  test x",
        "npm\u00a0test x",
        "npm\ttest x",
        "NPM test x",
        "Npm Test x",
        "npm te\u0455t x",
        "\uff4epm test x",
        "npm test",
        "npm testx",
        "npm tes",
        "",
        " ",
        "\n",
    ],
)
def test_a_pattern_allows_nothing_that_only_looks_like_it(command: str) -> None:
    assert bash(command, ("Bash(npm test *)",)) is None


@pytest.mark.parametrize(
    "command",
    [
        "r? x",
        "/bin/r[m] x",
        "/*/rm x",
        "{rm,-rf,x}",
        "r{m,} x",
        "'r'* x",
        "[ -v 'a[$(rm x)]' ]",
        "test -v 'a[$(rm x)]'",
        "printf -v 'a[$(rm x)]' hi",
    ],
)
def test_a_star_for_the_program_allows_one_that_is_written_out(command: str) -> None:
    assert bash(command, ("Bash(*)",)) is None
    assert bash("rm x", ("Bash(*)",)) is True


ORDINARY = [
    "git status",
    'git commit -m "fix: a (b) [c]"',
    "git commit -m 'use `x` and $y; [ ] not yet'",
    "git log --format=%h~3 HEAD^ -- src/*.py",
    "npm test",
    'sm spawn Explore "look at x"',
    "sm approve r57",
    "ls -la src/*.py",
    "rg -n '[a-z]+$' src",
    "[ -f x ]",
]


@pytest.mark.parametrize("command", ORDINARY)
def test_the_ordinary_is_allowed_without_asking(command: str) -> None:
    name = command.partition(" ")[0]
    for rule in (f"Bash({name} *)", "Bash(*)", "Bash"):
        assert bash(command, (rule,)) is True
        assert bash(command, (rule,), ("Bash(git push *)", "Bash(rm *)", "Bash(sm kill *)")) is True


@pytest.mark.parametrize(
    "command",
    [
        "cd src && npm test 2>&1 | tail -20",
        "npm test &>log; cat log",
        "npm test > 'my log' 2>/dev/null || echo \"failed: $?\"",
        'for f in *.py; do wc -l "$f"; done',
        "if [ -f x ]; then cat x; fi",
        "find . -name '*.pyc' -exec ls -l {} \\;",
        "grep -rln 'a b' src --include=*.py | xargs -n 1 wc -l",
        'git add src \\\n  docs && git commit -m "say \\"no\\""',
        "NODE_ENV=test X='a b' npm test $MORE",
        "timeout -k 1 60s npm test src/*.ts",
        "env CI=1 make",
        "bash scripts/build.sh --fast",
        "! cmp a b",
    ],
)
def test_what_can_be_looked_through_is_not_asked_about(command: str) -> None:
    assert bash(command, ("Bash",), ("Bash(git push *)", "Bash(rm *)")) is True


@pytest.mark.parametrize(
    "text",
    [
        "'a;b'",
        '"a|b"',
        "'it (does) $x `y` \\\\ & > z'",
        "'line\n\tline; rm x'",
        '"it\'s"',
        "'a'\"b;\"'c'",
        "'\u00a0'",
    ],
)
def test_what_stands_in_quotes_is_text(text: str) -> None:
    assert bash(f"npm test {text}", ("Bash(npm test *)",)) is True
    assert bash(f"npm test {text} --x {text}", ("Bash(npm *)",)) is True


SHELL = r"""
set -f
while IFS= read -r -d '' c; do
  said=$(
    trap 'case $BASH_COMMAND in ":"*|"eval "*|"trap "*) ;; *) echo "$BASH_COMMAND" ;; esac' DEBUG
    eval "$c" 2>&1
    trap - DEBUG
  )
  [ -z "$said" ] || printf '%q runs %q\n' "$c" "$said"
done
"""
"""Tells of every command that is more than `:`, and of what is no whole command."""


@pytest.mark.processes
def test_a_shell_runs_nothing_else_of_what_a_pattern_allows() -> None:
    """The real shell is asked, so that what we take for text is what it takes for text."""
    pieces = [
        "'",
        '"',
        "#",
        " ",
        "\n",
        ";",
        "a",
        "&",
        "|",
        "(",
        ")",
        "$",
        "`",
        "\\",
        "<",
        ">",
        "\t",
        "x=",
        "'a'",
        "!",
        "{",
    ]
    choose = random.Random(6)
    allowed: list[str] = []
    while len(allowed) < 300:
        command = ": " + "".join(choose.choices(pieces, k=choose.randint(1, 14)))
        if bash(command, ("Bash(: *)",)):
            allowed.append(command)
    ran = subprocess.run(
        ["bash", "-c", SHELL], input="\0".join([*allowed, ""]), capture_output=True, text=True, check=True
    )
    assert (ran.stdout, ran.stderr) == ("", "")


def test_a_pattern_allows_what_it_says() -> None:
    assert bash("npm test -- --grep 'a b'", ("Bash(npm test *)",)) is True
    assert bash("npm test größe", ("Bash(npm test *)",)) is True
    assert bash("git log --format=%h~3 src/*.py", ("Bash(git log *)",)) is True
    assert bash("npm run lint -- --fix", ("Bash(npm run * --fix)",)) is True


@pytest.mark.parametrize(
    "command", [" npm test", "npm test ", "npm test x", "npm  test", "npm test;", "NPM test", "npm tes"]
)
def test_a_rule_without_a_star_allows_exactly_one_command(command: str) -> None:
    assert bash("npm test", ("Bash(npm test)",)) is True
    assert bash(command, ("Bash(npm test)",)) is None


def test_a_compound_command_is_allowed_where_it_stands_as_it_is() -> None:
    assert bash("cd a && npm test > log", ("Bash(cd a && npm test > log)",)) is True
    assert bash("cd b && npm test > log", ("Bash(cd * && npm test > log)",)) is None
    assert bash("cd * && npm test", ("Bash(cd * && npm test)",)) is True  # the very words


@given(st.text(max_size=40), st.text("npm tes*;&$ ", max_size=40))
def test_an_allow_rule_without_a_star_allows_one_command(pattern: str, command: str) -> None:
    rule = f"Bash({pattern})"
    try:
        parse_rule(rule)
    except ValueError:
        return
    if "*" not in pattern:
        assert bash(command, (rule,)) is (True if command == pattern else None)


@pytest.mark.parametrize("command", [None, 5, ["npm test x"], {"a": 1}, True, b"npm test x"])
def test_arguments_of_wrong_types_allow_nothing(command: object) -> None:
    assert bash(command, ("Bash(npm test *)", "Bash(*)", "Bash")) is None
    assert said("Bash", {}, ("Bash",)) is None


def test_a_command_outside_of_claudes_own_sandbox_is_not_allowed_by_a_rule() -> None:
    assert bash("npm test", ("Bash",), dangerouslyDisableSandbox=True) is None
    assert bash("npm test", ("Bash",), dangerouslyDisableSandbox=False) is True


def test_a_tool_that_is_named_alone_is_allowed_whole() -> None:
    assert bash("npm test; rm -rf /", ("Bash",)) is True
    assert said("WebSearch", {"query": "x"}, ("WebSearch",)) is True
    assert said("WebSearch", {"query": "x"}, ("Web",)) is None
    assert said("websearch", {"query": "x"}, ("WebSearch",)) is None


def test_cut_arguments_are_never_allowed() -> None:
    assert said("Bash", {"command": "npm test x"}, ("Bash", "Bash(npm test *)"), cut=True) is None
    assert said("WebSearch", {"query": "x"}, ("WebSearch",), cut=True) is None
    assert said("Bash", {"command": "rm -rf /"}, (), ("Bash(rm *)",), cut=True) is False


def test_questions_and_plans_are_allowed_by_no_wildcard() -> None:
    assert said("AskUserQuestion", {"questions": []}, ("AskUserQuestion",)) is None
    assert said("ExitPlanMode", {"plan": "x"}, ("ExitPlanMode",)) is True
    assert said("ExitPlanMode", {"plan": "x"}, ("Bash", "Bash(*)", "mcp__a__*")) is None
    assert said("AskUserQuestion", {}, (), ("AskUserQuestion",)) is False


def test_all_tools_of_a_server() -> None:
    assert said("mcp__github__get_issue", {}, ("mcp__github__*",)) is True
    assert said("mcp__github2__get_issue", {}, ("mcp__github__*",)) is None
    assert said("mcp__github__get__issue", {}, ("mcp__github__*",)) is None  # the server github__get?
    assert said("mcp__github___get", {}, ("mcp__github__*",)) is None  # the server github_?
    assert said("mcp__github__get__issue", {}, (), ("mcp__github__*",)) is False
    assert said("mcp__github__get_issue", {}, ("mcp__github__get_issue",)) is True


# ------------------------------------------------------------------------------------------- commands that are denied


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        "  rm -rf /",
        "\trm\t-rf /",
        "rm\u00a0-rf /",
        "npm test; rm -rf /",
        "npm test;rm -rf /",
        "npm test&&rm -rf /",
        "npm test || rm x",
        "npm test | rm x",
        "npm test & rm x",
        "npm test\nrm x",
        "npm test\r\nrm x",
        "echo $(rm x)",
        'echo "$(rm x)"',
        "echo `rm x`",
        "cat <(rm x)",
        "(rm x)",
        "{ rm x; }",
        "X=1 rm x",
        "X=1 Y='a b' rm x",
        'X="a b" rm x',
        "X+=1 rm x",
        "sudo rm x",
        "sudo -n rm x",
        "sudo -u root rm x",
        "command rm x",
        "builtin command rm x",
        "env X=1 rm x",
        "env -i rm x",
        "/usr/bin/env rm x",
        "sudo env X=1 command rm x",
        "nohup rm x",
        "timeout 5 rm x",
        "nice -n 5 rm x",
        "\\rm x",
        "r\\m x",
        "r\\\nm x",
        "'rm' x",
        '"r"m x',
        "r''m x",
        "/bin/rm x",
        "/usr/../bin/rm x",
        "rm${IFS}x",
        ">out rm x",
        "2> out rm x",
        "if true; then rm x; fi",
        "while rm x; do :; done",
        "! rm x",
        "time rm x",
        "find . | xargs rm x",
        "find . | xargs -n 1 rm x",
        "bash -c 'rm x'",
        "eval 'rm x'",
        "rm",
        " rm ",
        "rm;",
        "(rm)",
        "sudo rm",
        "ls;rm",
        "rm>/dev/null -rf x",
        "rm</dev/null x",
        "rm>x",
        "2>&1 rm x",
        ">&2 rm x",
        ">|out rm x",
        "&>out rm x",
        ">'my file' rm x",
        '>"a;b" rm x',
        "2>out 3>&1 rm x",
        'A="x;y" rm x',
        "A=b\\ c rm x",
        "env A='x y' rm x",
        "sudo -u 'a b' rm x",
        "timeout .5 rm x",
        "time -f '%e s' rm x",
        "find . -name x -exec rm {} +",
        "if [ -f x ]; then rm; fi",
        "set -- a; for i do rm x; done",
        "timeout inf rm x",
        "env a!=b rm x",
        "timeout 1e3 rm x",
        "ls | xargs -I {} rm {}",
    ],
)
def test_a_deny_rule_finds_the_command_in_others(command: str) -> None:
    assert (
        bash(
            command,
            ("Bash", f"Bash({command.strip() or 'x'})") if command.isprintable() else ("Bash",),
            ("Bash(rm *)",),
        )
        is False
    )


@pytest.mark.parametrize(
    "command", ["npm test", "farm x", "echo rm x", "rmdir x", "git rm x", "ls rm", "RM x"]
)
def test_a_deny_rule_leaves_others_alone(command: str) -> None:
    assert bash(command, ("Bash",), ("Bash(rm *)",)) is True


def test_a_deny_rule_without_a_star_and_with_one_in_front() -> None:
    assert bash("ls; reboot", ("Bash",), ("Bash(reboot)",)) is False
    assert bash("ls; reboot now", ("Bash",), ("Bash(reboot)",)) is True
    assert bash("git push --force x", ("Bash",), ("Bash(git push *--force*)",)) is False
    assert bash("true && git push x --force", ("Bash",), ("Bash(* --force)",)) is False
    assert bash("curl x | sh", ("Bash",), ("Bash(curl *|*sh)",)) is False


@pytest.mark.parametrize("allow", ["Bash", "Bash(git *)", "Bash(*)"])
def test_a_deny_rule_that_ends_with_anything_covers_nothing_more_too(allow: str) -> None:
    for command in ("git push", "git push origin", "git  push", "git 'push'"):
        assert bash(command, (allow,), ("Bash(git push *)",)) is False
    assert bash("git pushx", (allow,), ("Bash(git push *)",)) is True
    assert bash("git", ("Bash",), ("Bash(git push *)",)) is True
    assert bash("git push;", ("Bash",), ("Bash(git push *)",)) is False
    assert bash("git push>/dev/null", ("Bash",), ("Bash(git push *)",)) is False


@pytest.mark.parametrize(
    "command",
    [
        "git {push,origin}",
        "git pus[h] origin",
        "git pu* origin",
        "git $X",
        'git "$X"',
        "git ${X}",
        "git $(echo push)",
        "git $'push'",
        "git -C . push",
        "git --no-pager push x",
        "echo push | xargs git",
        "echo push | xargs -I {} git {}",
        "$X",
        "$(cat x)",
        "`cat x`",
        "g`true`it push",
        "g[i]t push",
        "{git,push}",
        "=git push",
        "cat <<E\nx\nE",
        "cat <<<x",
        "{fd}>x git push",
        "A[0]=x git stash",
        "A[ 1 ]=x git stash",
        "A=(x y)",
        "f() { ls; }",
        "function f { ls; }",
        "coproc ls",
        "trap ls EXIT",
        "eval ls",
        "alias x=ls",
        "env -S ls",
        "env --split-string=ls",
        "bash -c ls",
        "bash",
        "ls | sh",
        "ssh host ls",
        "chroot / ls",
        "case x in x) ls;; esac",
        "ls # it's",
        "ls >! x y",
        "ls >",
        "ls 'x",
        'ls "x',
        "ls \\",
        "ls\x1b",
        "set -- a; for i do git $i; done",
        "if [[ -n x ]] ls",
        "if [[ -n x ]] { ls; }",
        "timeout inf git $X",
        "timeout $X git",
        "ls | xargs -I{} {} x",
        "ls | xargs -I {} {} x",
        "ls | xargs -I X git X",
        "ls | xargs -0I X X",
        "ls | xargs -iX git X",
        "ls | xargs --replace=X X",
        "echo x | . /dev/stdin",
        "echo x | bash /proc/self/fd/0",
        "test -v 'a[$(x)]'",
        "$\\\n(x)",
        '"$\\\n(x)"',
    ],
)
def test_what_a_deny_rule_may_match_is_left_to_a_person(command: str) -> None:
    assert bash(command, ("Bash", "Bash(*)", "Bash(git *)"), ("Bash(git push *)",)) is None


def test_what_cannot_match_whatever_it_turns_out_to_be_is_not_asked_about() -> None:
    deny = ("Bash(git push *)", "Bash(rm *)", "Bash(make deploy)")
    for command in (
        "git add *.py",
        "git log $X",
        "git commit -m x",
        "make -- test",
        "ls $HOME/{a,b}",
        "sudo ls *",
    ):
        assert bash(command, ("Bash",), deny) is (None if command.startswith("make") else True)
    assert bash("git push -u origin x", ("Bash",), ("Bash(git push *--force*)",)) is True
    assert bash("git push $X", ("Bash",), ("Bash(git push *--force*)",)) is None


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("git push --force *", "git push origin main --force"),
        ("git push --force*", "git push origin main --force"),
        ("git push --force *", "git push origin main --forc"),
        ("git push --force *", "git push origin main --force-with-lease=x"),
        ("git push --force *", "git push origin main -uf"),
        ("git push --force *", "cd x && sudo /usr/bin/git push origin '--force'"),
        ("git push --*", "git push origin --tags"),
        ("git push --force *", "git push origin $X"),
        ("git push --force *", "git push origin -$X"),
        ("git push --force *", "git push origin {main,--force}"),
        ("git push --force *", "cat x | xargs git push origin"),
        ("git reset --hard *", "git reset HEAD~1 --hard"),
        ("rm -rf *", "rm x -rf"),
        ("rm -rf *", "rm x -f -r"),
        ("rm -rf *", "rm x --recursive"),
        ("rm -*", "rm x -v"),
    ],
)
def test_an_option_of_a_deny_rule_that_stands_further_behind_is_left_to_a_person(
    rule: str, command: str
) -> None:
    assert bash(command, ("Bash",), (f"Bash({rule})",)) is None


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("git push --force *", "git push origin main"),
        ("git push --force *", "git push origin main --tags"),
        ("git push --force *", "git pushx origin --force"),
        ("git push --force *", "git commit -m --force"),
        ("git -c *", "git commit -m x"),
        ("git -c *", "git log --oneline"),
        ("python3 -c *", "python3 x.py - -- -v"),
        ("rm -rf *", "rm x -v"),
    ],
)
def test_other_options_further_behind_are_not_asked_about(rule: str, command: str) -> None:
    assert bash(command, ("Bash",), (f"Bash({rule})",)) is True


@pytest.mark.parametrize(
    "command", ["command -v rm", "command -V rm x", "sudo command -pv rm", "command -v rm ls"]
)
def test_looking_for_a_program_does_not_run_it(command: str) -> None:
    assert bash(command, ("Bash",), ("Bash(rm *)",)) is True
    assert bash(command, ("Bash",), ("Bash(command *)",)) is False


@pytest.mark.parametrize(
    "command",
    [
        "command -v x; rm x",
        "command -v $(rm x)",
        "command -p rm -v",
        "command -- rm -v",
        "command rm -v",
        "command -v x && command rm x",
        "./command -v rm",
        "xargs -v rm x",
    ],
)
def test_what_is_run_beside_looking_for_a_program_is_denied(command: str) -> None:
    assert bash(command, ("Bash",), ("Bash(rm *)",)) is False


BEFORE = [
    "", "2>&1 ", ">|out ", "<<<x ", ">'my file' ", '>"a;b" ', "&>out ", "{fd}>out ", "2>out 3>&1 ", 'A="x;y" ',
    "A=b\\ c ", "A='x y' ", "A=$'x y' ", "A[0]=x ", "A[ 1 ]=x ", "A=(x y) ", "A=${X:-y z} ", "A=\"it's\" ",
    "env A='x y' ", "env -u A ", "env -S '", "timeout -k 1 5 ", "timeout .5 ", "nice --adjustment=5 ", "coproc ",
    "exec -a x ", "time -- ", "! ! ", "eval -- ", "trap '", "if true\nthen\n", "for i in 1; do ",
    "for ((i=0;i<1;i++)) { ", "case x in x) ", "function f { ", "f() ", "until ", "[[ -n x ]] && ", "echo x |& ",
    "true # x\n", "$(true) ", "`true` ", "$X ", '""', "$''", '$""', "{ ", "<(true) ", "cat <<E\nx\nE\n",
    "cat <<E\n$(", "xargs <<<x ", "echo x | xargs -I {} ", "echo x | xargs -d '\\n' ", "bash -lc '", "bash <<< '",
    "echo '", "A=\\\n ", "test 'x", 'true "\\" ', "true 'x' #'\n",
]  # fmt: skip
WRITTEN = [
    "rm", "rm -rf x", "rm>o -rf x", "rm</dev/null x", "r\\m x", "r''m x", "{rm,-rf,x}", "r{m,} x", "$'rm' x",
    '$"rm" x', "/*/rm x", "rm${IFS}x", "rm;", "$'\\x72m' x", "r$@m x", "r${x}m x", "\\\nrm x", "r\\\nm x", "rm x)",
    "rm x'", 'rm x"', "rm x; }", "rm x; done", "rm x;; esac", "rm x; fi", "rm x' EXIT", "rm x; }; f", "rm x' | sh",
    "rm x\nE", "rm x)\nE",
]  # fmt: skip
ASK_BASH = r"""
while IFS= read -r -d '' c; do
  (eval "$c") < /dev/null > /dev/null 2>&1
  [ -e "$HIT" ] && printf '%q\n' "$c" && /bin/rm -f "$HIT"
done
:
"""
"""Tells of every command that ran the `rm` in PATH, which is none."""


@pytest.mark.processes
def test_a_shell_runs_nothing_that_is_denied_of_what_is_allowed(tmp_path: Path) -> None:
    """The real shell is asked again: in every way that we know of to write a command, and in some that nobody knows."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/rm").write_text(f"#!/bin/sh\n: > {tmp_path}/hit\n")
    (tmp_path / "bin/rm").chmod(0o755)
    for name in ("env", "true", "cat", "timeout", "nice", "xargs", "sh", "bash", "test"):
        (tmp_path / "bin" / name).symlink_to(f"/bin/{name}")
    pieces = [
        "rm",
        "rm x",
        "r",
        "m",
        " ",
        " ",
        "\n",
        ";",
        "|",
        "&",
        "'",
        '"',
        "\\",
        "$X",
        "{",
        "}",
        ",",
        "<",
        ">",
        "x=",
        "[",
        "*",
        "#",
        "!",
    ]
    pieces += ["env", "xargs", "true", "(", ")", "`", "$", "1", "-x"]
    choose = random.Random(9)
    written = [before + each for before in BEFORE for each in WRITTEN]
    written += ["".join(choose.choices(pieces, k=choose.randint(2, 9))) for _ in range(20_000)]
    allowed = [each for each in written if "rm" in each or ("m" in each and "r" in each)]
    allowed = [each for each in allowed if bash(each, ("Bash",), ("Bash(rm *)",))]
    asked = [*allowed[:150], *choose.sample(allowed, 250), "true && rm x"]
    (tmp_path / "work").mkdir()
    ran = subprocess.run(
        ["/bin/bash", "-c", ASK_BASH],
        input="\0".join([*asked, ""]),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path / "work",
        env={"PATH": f"{tmp_path}/bin", "HIT": f"{tmp_path}/hit"},
        timeout=scaled(60),
    )
    assert ran.stdout == "true\\ \\&\\&\\ rm\\ x\n"  # which shows that it would have been seen


def test_deny_wins_and_a_tool_alone_is_denied_whole() -> None:
    assert bash("npm test", ("Bash(npm test)",), ("Bash(npm *)",)) is False
    assert bash("npm test", ("Bash(npm test)",), ("Bash",)) is False
    assert bash(5, ("Bash",), ("Bash",)) is False


def test_what_a_deny_rule_cannot_look_through_is_not_allowed_either() -> None:
    many = ";".join(f"a{n}" for n in range(3_000))
    assert bash(many, ("Bash",), ()) is True
    assert bash(many, ("Bash",), ("Bash(rm *)",)) is None
    assert bash("x" * 70_000, ("Bash",), ("Bash(rm *)",)) is None
    for before in ("sudo ", "env x=1 ", "nohup env "):
        assert bash(before * 100 + "rm x", ("Bash",), ("Bash(rm *)",)) is None
    for before in ("x=1 ", "x= ", "> a ", "'x'=1 ", "sudo -u "):
        assert bash(before * 100 + "rm x", ("Bash",), ("Bash(rm *)",)) is False
    assert bash("x" * 70_000, ("Bash",)) is None


_COMMANDS = st.text("rm -*;&|$()`'\"\\\n\tax=<>/", max_size=30)
_RULES = st.lists(
    st.text("rm *-a;/", min_size=1, max_size=8)
    .map(lambda pattern: f"Bash({pattern})")
    .filter(lambda rule: bool(rule[5:-1].strip()) and rule[5:-1] == rule[5:-1].strip()),
    max_size=4,
)


@given(_COMMANDS, _RULES, _RULES, _RULES)
def test_another_deny_rule_never_allows_more(
    command: str, allow: list[str], deny: list[str], more: list[str]
) -> None:
    before = bash(command, tuple(allow), tuple(deny))
    after = bash(command, tuple(allow), (*deny, *more))
    assert after is not True or before is True
    assert before is not False or after is False


@given(_COMMANDS, _RULES)
def test_a_command_with_operators_is_allowed_by_its_very_words_only(command: str, allow: list[str]) -> None:
    bare = re.sub(r"""'[^']*'|"[^"$`\\\\]*[\"]""", "", command)
    if bash(command, tuple(allow)) and any(each in bare for each in ";&|$()`\\\n<>"):
        assert f"Bash({command})" in allow


# --------------------------------------------------------------------------------------------------------------- time


STEPS_MAX = 1_000_000


def rule_of(pattern: str, tool: str = "Bash") -> str:
    return f"{tool}({pattern[: RULE_MAX - len(tool) - 2]})"


def steps(work: Callable[[], object]) -> int:
    """How many lines of Python `work` takes, and calls of what is not Python: the same on every machine."""
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
        "a" * 65_536,
        "ab" * 32_768,
        "a;" * 32_768,
        "a " * 32_768,
        "'" * 65_536,
        "\\" * 65_536,
        'x="' * 21_845,
        "x=1 " * 16_384,
        "> a " * 16_384,
        "sudo " * 13_107,
        "sudo -u " * 8_192,
        ";".join(f"aaaaaaa{n}" for n in range(1_900)),
        ";".join("a" * 30 + f"{n}" for n in range(1_900)),
        "$IFS" * 16_384,
        ";".join(f"a{n} $b" for n in range(1_900)),
        ";".join(f"a{n} -b" for n in range(1_900)),
        "a[" * 32_768,
        '"$a' * 21_845,
        '"' + "$a" * 32_000,
        "{" * 65_536,
        "\u00a0" * 65_536,
        "e\u0301" * 32_768,
    ],
    ids=lambda command: repr(command[:9]),
)
@pytest.mark.timeout(10)  # the square of its length, in a function that is not Python, would take longer
def test_the_work_for_a_hundred_rules_and_a_long_command_is_bounded(command: str) -> None:
    rules = slow_rules()
    assert (
        steps(lambda: evaluate(rules, rules, "Bash", {"command": command}, Place(DIR), cut=False)) < STEPS_MAX
    )


@pytest.mark.parametrize("tool", ["Read", "WebFetch", "Glob"])
@pytest.mark.timeout(10)
def test_the_work_for_long_paths_and_urls_is_bounded(tool: str) -> None:
    start = "https://a" if tool == "WebFetch" else ""
    rules = tuple(rule_of(f"{start}/{'a*' * 220}b", tool) for _ in range(100))
    text = "https://a/" + "a" * 65_000 if tool == "WebFetch" else "/a" * 32_000
    arguments = {"url": text, "file_path": text, "path": text, "pattern": text}
    assert steps(lambda: evaluate(rules, rules, tool, arguments, Place(DIR), cut=False)) < STEPS_MAX


# -------------------------------------------------------------------------------------------------------------- files


def edit(path: object, *allow: str, deny: tuple[str, ...] = (), working_dir: str = DIR) -> bool | None:
    return said("Edit", {"file_path": path}, allow, deny, working_dir=working_dir)


@pytest.mark.parametrize(
    "path",
    [
        "/srv/shop/src/a.py",
        "src/a.py",
        "./src/a.py",
        "src//a.py",
        "//srv/shop/src/a.py",
        "/srv/shop/x/../src/b/c",
    ],
)
def test_files_below_a_directory(path: str) -> None:
    assert edit(path, "Edit(src/*)") is True
    assert edit(path, "Edit(./src/*)") is True
    assert edit(path, "Edit(/srv/shop/src/*)") is True
    assert edit(path, "Edit(src/*)", deny=("Edit(/srv/*)",)) is False


@pytest.mark.parametrize(
    "path",
    [
        "/srv/shop/src/../../../etc/passwd",
        "src/../Makefile",
        "/etc/passwd",
        "/srv/shop/srcs/a",
        "/srv/shop/src",
        "/srv/shop/SRC/a",
        "~/src/a.py",
        "~",
        "~root/src/a",
        "/srv/shop/src/a\nb",
        "/srv/shop/src/a\0b",
        "/srv/shop/src/a\u202eb",
        "/tmp/srv/shop/src/a",
        "",
        None,
        5,
        ["src/a"],
    ],
)
def test_files_elsewhere_are_not_allowed(path: object) -> None:
    assert edit(path, "Edit(src/*)", "Edit(./src/*)", "Edit(/srv/shop/src/*)") is None


def test_a_working_directory_is_no_pattern() -> None:
    assert edit("/srv/a/x/src/b", "Edit(src/*)", working_dir="/srv/*") is None
    assert edit("/srv/*/src/b", "Edit(src/*)", working_dir="/srv/*") is True
    assert edit("src/b", "Edit(src/*)", working_dir="") is None
    assert edit("/src/b", "Edit(src/*)", working_dir="") is None
    assert edit("/src/b", "Edit(src/*)", working_dir="/") is True


def test_an_agent_that_has_gone_elsewhere_takes_no_rule_with_it() -> None:
    def there(path: str, allow: tuple[str, ...], deny: tuple[str, ...] = ()) -> bool | None:
        found = evaluate(allow, deny, "Edit", {"file_path": path}, Place("/etc", (DIR,)), cut=False)
        return None if found is None else found.approved

    assert there("/etc/src/a", ("Edit(src/*)",)) is None
    assert there("src/a", ("Edit(src/*)",)) is None
    assert there("/srv/shop/src/a", ("Edit(src/*)",)) is True
    assert there("../srv/shop/.env", ("Edit",), ("Edit(.env)",)) is False


def test_a_directory_of_two_names_is_meant_by_either() -> None:
    def there(path: str) -> bool | None:
        rules = ("Edit(src/*)",), ("Edit(src/secret*)",)
        found = evaluate(*rules, "Edit", {"file_path": path}, Place("/real", ("/link", "/real")), cut=False)
        return None if found is None else found.approved

    assert [there(f"{base}src/a") for base in ("", "/link/", "/real/", "/else/")] == [True, True, True, None]
    assert [there(f"{base}src/secret") for base in ("", "/link/", "/real/")] == [False] * 3


@pytest.mark.parametrize("tool", ["Bash", "Edit", "Glob"])
def test_marks_without_end_are_left_to_a_person(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To put them in order takes the square of their number: ten seconds for what an agent may write."""
    text, normalized = "/srv/shop/a" + "\u0301\u0316" * 30_000, unicodedata.normalize

    def bounded(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
        assert text.count("\u0301") < 100, "this text is left alone"
        return normalized(form, text)

    monkeypatch.setattr(unicodedata, "normalize", bounded)
    for key in ("path", "pattern"):
        arguments = {"command": text, "file_path": text, "path": "/srv", key: text}
        assert said(tool, arguments, (tool,), (f"{tool}(/etc/*)",)) is None
    assert said(tool, arguments, (tool,), (f"{tool}(/etc/*)",), working_dir=f"/{text}") is None


def test_files_that_are_denied() -> None:
    for path in (".env", "./.env", "/srv/shop/.env", "src/../.env", "//srv//shop/.env", "/srv/shop/.ENV"):
        assert edit(path, "Edit", deny=("Edit(.env)",)) is False
    assert edit("~/x", "Edit", deny=("Edit(/home/ann/*)",)) is None
    assert edit(5, "Edit", deny=("Edit(/home/ann/*)",)) is None
    assert edit("/srv/shop/caf\u0065\u0301", "Edit", deny=("Edit(caf\u00e9)",)) is False
    assert edit("/x", "Edit", deny=("Edit(src/*)",), working_dir="") is None


def test_blanks_around_a_path_hide_nothing() -> None:
    for path in (" /etc/passwd", "/etc/passwd ", "\n/etc/passwd"):
        assert edit(path, "Edit", deny=("Edit(/etc/*)",)) is False
        assert edit(path, "Edit(*)") is None


def test_a_notebook_and_every_file_tool_has_its_own_rule() -> None:
    assert said("NotebookEdit", {"notebook_path": "a.ipynb"}, ("NotebookEdit(*.ipynb)",)) is True
    assert said("Write", {"file_path": "src/a"}, ("Edit(src/*)",)) is None


def search(tool: str, allow: str = "", deny: str = "", **arguments: Any) -> bool | None:
    return said(tool, arguments, (allow or tool,), (deny,) if deny else ())


def test_searches_stay_where_they_are_allowed() -> None:
    assert search("Grep", "Grep(src/*)", pattern="x", path="src") is True
    assert search("Grep", "Grep(src/*)", pattern="x", path="src/a") is True
    assert search("Grep", "Grep(src/*)", pattern="x") is None
    assert search("Grep", "Grep(/srv/shop)", pattern="x") is True
    assert search("Glob", "Glob(src/*)", pattern="**/*.py", path="src") is True
    for pattern in ("/etc/*", "../../*", "~/x", "{/etc/*,a}", None, 5):
        assert search("Glob", "Glob(src/*)", pattern=pattern, path="src") is None


def test_a_search_around_what_is_denied_is_left_to_a_person() -> None:
    assert search("Grep", deny="Grep(secret/*)", pattern="x", path="secret") is False
    assert search("Grep", deny="Grep(secret/*)", pattern="x", path="secret/a") is False
    assert search("Grep", deny="Grep(secret/*)", pattern="x") is None
    assert search("Grep", deny="Grep(secret/*)", pattern="x", path="src") is True
    assert search("Glob", deny="Glob(/etc/*)", pattern="/etc/*", path="src") is False
    assert search("Glob", deny="Glob(/etc/*)", pattern="../../../etc/*", path="src") is False


# --------------------------------------------------------------------------------------------------------------- URLs


def fetch(url: object, *allow: str, deny: tuple[str, ...] = ()) -> bool | None:
    return said("WebFetch", {"url": url}, allow, deny)


@pytest.mark.parametrize(
    "url", ["https://docs.example.org/", "https://docs.example.org/a?b=c", "HTTPS://Docs.example.org/A"]
)
def test_urls_of_a_host(url: str) -> None:
    assert fetch(url, "WebFetch(https://docs.example.org/*)") is True
    assert fetch(url, "WebFetch(https://*.example.org/*)") is True
    assert fetch(url, "WebFetch(https://docs.example.org*)") is True
    assert fetch(url, "WebFetch(https://*)") is True


@pytest.mark.parametrize(
    "url",
    [
        "https://docs.example.org.evil.test/",
        "https://docs.example.org@evil.test/",
        "https://evil.test/docs.example.org/",
        "https://evil.test/?https://docs.example.org/",
        "https://evil.test#.example.org/",
        "https://evil.test\\.example.org/",
        "https://evil.test/.example.org/",
        "http://docs.example.org/",
        "https://docs.example.org:x@evil.test/",
        "https://docs.ex\u0430mple.org/",
        "https://docs.example.org/ x",
        "https://docs.example.org/\nx",
        "docs.example.org/",
        "",
        None,
    ],
)
def test_urls_of_others(url: object) -> None:
    rules = [f"WebFetch(https://{host}example.org{end})" for host in ("docs.", "*.") for end in ("/*", "*")]
    assert fetch(url, *rules) is None


def test_a_path_does_not_leave_by_dots() -> None:
    assert fetch("https://a.test/pub/../x", "WebFetch(https://a.test/pub/*)") is None
    assert fetch("https://a.test/pub/%2E%2e/x", "WebFetch(https://a.test/pub/*)") is None


def test_urls_that_are_denied() -> None:
    deny = ("WebFetch(https://intern.test/*)",)
    for url in (
        "https://intern.test/a",
        "https://intern.test",
        "HTTPS://Intern.test/",
        "https://x@intern.test/",
    ):
        assert fetch(url, "WebFetch", deny=deny) is False
    assert fetch("https://other.test/", "WebFetch", deny=deny) is True
    assert fetch("intern.test/", "WebFetch", deny=deny) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.org/x",  # claude itself makes https of it
        "HTTP://EVIL.ORG",
        "https://evil.org./x",
        "https://evil.org:443/x",
        "http://evil.org:80/x",
        "https://evil.org:/",
        "https://evil.org?x",
        "https://evil.org#x",
        " https://evil.org/x",
        "https://evil.org/a/../x",
    ],
)
def test_other_spellings_of_a_url_are_denied(url: str) -> None:
    for rule in (
        "https://evil.org/*",
        "https://Evil.org./*",
        "https://evil.org:443/*",
        "https://evil.org*",
        "*",
        "https://*",
    ):
        assert fetch(url, "WebFetch", "WebFetch(*)", deny=(f"WebFetch({rule})",)) is False
    assert fetch(url, "WebFetch", deny=("WebFetch(https://*.evil.org/*)",)) is True
    assert fetch(url, "WebFetch", deny=("WebFetch(https://evil.or/*)",)) is True


@pytest.mark.parametrize(
    "url",
    [
        "https://evil%2eorg/x",
        "https:///evil.org/x",
        "https:/evil.org/x",
        "https:evil.org/x",
        "https://evil.org\\x",
        "https://evil.org\\@good.org/x",
        "https://ev\til.org/x",
        "https://\u212fvil.org/x",
        "https://evil\u3002org/x",
        "https://[::1]/x",
        "https://2130706433/x",
        "https://0x7f.1/x",
        "https://127.1/x",
        "https://evil.org:8443/x",
        "https://evil.org:x/",
        "ftp://evil.org/x",
        "https://",
    ],
)
def test_a_url_that_may_be_denied_is_left_to_a_person(url: str) -> None:
    assert fetch(url, "WebFetch", "WebFetch(*)", deny=("WebFetch(https://evil.org/*)",)) is None


def test_a_path_that_may_be_denied_is_left_to_a_person() -> None:
    deny = ("WebFetch(https://a.test/priv/*)",)
    for path in (
        "/x/../priv/a",
        "/%70riv/a",
        "//priv/a",
        "/.%2e/priv/a",
        "/./priv/a",
        "/\\priv/a",
        "/pr\niv/a",
    ):
        assert fetch(f"https://a.test{path}", "WebFetch", deny=deny) is None
        assert fetch(f"https://b.test{path}", "WebFetch", deny=deny) is True
    assert fetch("https://a.test/pub/a.html?x=%20", "WebFetch", deny=deny) is True
    assert fetch("https://a.test/priv/%70", "WebFetch", deny=deny) is False


def test_the_port_and_the_scheme_of_a_deny_rule() -> None:
    deny = ("WebFetch(http://localhost:3000/*)",)
    assert fetch("http://localhost:3000/x", "WebFetch", deny=deny) is False
    assert fetch("https://localhost:3000/x", "WebFetch", deny=deny) is None
    assert fetch("http://localhost:8000/x", "WebFetch", deny=deny) is True
    assert fetch("https://127.0.0.1/x", "WebFetch", deny=deny) is True
    assert fetch("https://a.test/x", "WebFetch", deny=("WebFetch(http://*)",)) is None
    assert fetch("https://a.test/x", "WebFetch", deny=("WebFetch(http://a.test:80/*)",)) is None
    assert fetch("https://xn--bcher-kva.test/", "WebFetch", deny=("WebFetch(https://bücher.test/*)",)) is None


@pytest.mark.parametrize(
    ("rule", "url"),
    [
        ("http://localhost:3000*", "http://localhost:3000/x"),
        ("http://localhost:3000*", "http://localhost:3000"),
        ("http://localhost:3000*", "HTTP://x@LOCALHOST.:03000?x"),
        ("https://localhost:3000*", "http://localhost:3000/x"),
        ("http://localhost:*", "http://localhost:3000/x"),
        ("http://localhost:*", "http://localhost"),
        ("http://localhost:*/*", "http://localhost:3000/x"),
        ("http://localhost:*/*", "http://localhost/x"),
        ("http://localhost*", "http://localhost:3000/x"),
        ("http://localhost.:3*/*", "http://localhost:3000/x"),
        ("https://evil.org:*/*", "https://evil.org:8443/x"),
        ("https://evil.org:8*/*", "https://evil.org:8443/x"),
        ("https://evil.org:4*/*", "https://evil.org/x"),
        ("http://127.0.0.1*", "http://127.0.0.1:8000/x"),
        ("http://10.*", "http://10.0.0.1:8000/x"),
        ("http://10.*", "http://10.1/x"),
        ("https://*evil*", "https://x.evil.org:8443/x"),
        ("https://*evil*", "https://x.org/evil%20"),
        ("https://evil.org.*", "https://evil.org./x"),
        ("https://*.evil.org/*", "https://a%2e.evil.org/x"),
        ("https://[::1]/*", "https://[::1]/x"),
        ("https://[::1]/*", "http://[::1]/x"),
        ("https://[::1]/*", "https://[::1]:443/x"),
        ("https://[::1]:*", "https://[::1]:8443/x"),
        ("https://[::1]*", "https://[::1]:8443/x"),
        ("https://*:443", "http://localhost/x"),
        ("http://*evil*:3000", "http://u@evil.org:3000/%78"),
        ("https://localhost:44*", "http://localhost:80/x"),
        ("*", "nowhere"),
    ],
)
def test_a_url_that_a_deny_rule_plainly_matches_is_denied(rule: str, url: str) -> None:
    assert fetch(url, "WebFetch", deny=(f"WebFetch({rule})",)) is False
    assert fetch(url, "WebFetch", deny=("WebFetch(https://b%/*)", f"WebFetch({rule})")) is False


@pytest.mark.parametrize(
    ("rule", "url"),
    [
        ("http://localhost:3000*", "https://localhost:3000/x"),
        ("http://localhost:*", "https://localhost:3000/x"),
        ("http://localhost:3000*", "http://localhost:x/"),
        ("https://evil.org:8*/x/*", "https://evil.org:8443/%78/y"),
        ("https://[::1]/*", "https://[::1]:8443/x"),
        ("https://[::1]/*", "https://[0::1]/x"),
        ("https://evil%2eorg/*", "https://a.test/x"),
        ("https://evil.org:x/*", "https://a.test/x"),
        ("https:///x", "https://a.test/x"),
    ],
)
def test_a_rule_or_url_that_cannot_be_taken_apart_is_left_to_a_person(rule: str, url: str) -> None:
    assert fetch(url, "WebFetch", deny=(f"WebFetch({rule})",)) is None


def test_a_deny_rule_with_a_star_for_the_port_leaves_others_alone() -> None:
    for rule in (
        "http://localhost:3000*",
        "http://localhost:3*/*",
        "https://[::1]*",
        "https://b.test*k=*",
        "ftp://*",
    ):
        for url in ("http://localhost:8000/x", "http://localhost.test:3000/x", "https://a.test/x"):
            assert fetch(url, "WebFetch", deny=(f"WebFetch({rule})",)) is True


# -------------------------------------------------------------------------------------------------------------- words


def test_a_ruling_names_the_rule_and_what_it_matched() -> None:
    assert evaluate(
        ("Bash(npm test *)",), (), "Bash", {"command": "npm test x"}, Place(DIR), cut=False
    ) == Ruling(True, "Bash(npm test *)", 'auto_allow has Bash(npm test *), which matches "npm test x"')
    assert evaluate(
        (), ("Bash(rm *)",), "Bash", {"command": "ls; sudo rm 'x'"}, Place(DIR), cut=False
    ) == Ruling(False, "Bash(rm *)", 'auto_deny has Bash(rm *), which matches "rm x"')
    assert evaluate((), ("Bash",), "Bash", {"command": "ls"}, Place(DIR), cut=False) == Ruling(
        False, "Bash", "auto_deny has Bash"
    )


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("", "is no rule"),
        ("*", "is no rule"),
        ("Ba sh", "is no rule"),
        ("Bash(npm test", "the parenthesis is not closed"),
        ("Bash()", "its pattern is empty; every use of the tool is Bash alone"),
        ("Bash( ls)", "begins or ends with a blank"),
        ("Bash(npm test:*)", "write Bash(npm test *)"),
        ("WebFetch(domain:a.test)", "write WebFetch(https://a.test/*)"),
        ("WebFetch(a.test/*)", "it is compared with the URL"),
        ("WebSearch(x)", "write WebSearch alone"),
        ("ExitPlanMode(*)", "write ExitPlanMode alone"),
        ("mcp__a__*(x)", "takes no pattern"),
        ("mcp__my.shop__*", "claude calls it mcp__my_shop__*"),
        ("mcp__my shop__get", "claude calls it mcp__my_shop__get"),
        ("mcp__a", "all tools of that server are mcp__a__*"),
        ("mcp__*", "is no rule"),
        ("Read(~/.ssh/*)", "`~` is not expanded"),
        ("Read(../x)", "must not hold `..`"),
        ("Read(secrets/)", "what lies in a directory is Read(secrets/*)"),
        ("Bash(a\nb)", "must be one line"),
        (f"Bash({'x' * 500})", "is longer than 500 characters"),
    ],
)
def test_what_is_no_rule_is_said_in_words(rule: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        parse_rule(rule)


@pytest.mark.parametrize(
    ("pattern", "text", "whole"),
    [
        ("*", "", True),
        ("a*", "a", True),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("a*b*c", "axbxc", True),
        ("a*b*c", "axcxb", False),
        ("*b*", "abc", True),
        ("a**c", "abc", True),
        ("[a]?", "[a]?", True),
        ("[a]?", "ab", False),
        ("a*bc*c", "abc", False),
    ],
)
def test_a_star_is_the_only_wildcard(pattern: str, text: str, whole: bool) -> None:
    assert matches(pattern, text) is whole

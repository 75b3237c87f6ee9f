"""Decisions of rules about shell commands: allow, deny or leave to a person. A real bash checks them."""

import os
import random
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.policy.tool_rules import parse_rule
from tests.policy.decisions import decide_command

MANY = 20 if os.environ.get("SM_LONG") == "1" else 1

# ------------------------------------------------------------------------------------------------------- allow rules

NOT_ONE_PROGRAM = [
    "npm test; rm -rf /", "npm test;rm -rf /", "npm test && rm x", "npm test || rm x", "npm test | sh",
    "npm test |& sh", "npm test & rm x", "npm test &", "npm test\nrm -rf /", "npm test \nrm -rf /",
    "npm test \\\nrm", "npm test \r\nrm x", "npm test \rrm x", "npm test $(rm x)", "npm test $HOME", "npm test ${x}",
    "npm test $'\\n'", "npm test `rm x`", "npm test > /etc/passwd", "npm test >/etc/passwd", "npm test 2>&1",
    "npm test < /etc/shadow", "npm test <(rm x)", "npm test >(rm x)", "npm test <<EOF", "npm test (x)",
    "npm test \\; rm", "npm test \0 x", "npm test \x1b[2J", "npm test \x85rm", "npm test \u2028rm",
    "npm test \u2029rm", "npm test \u00a0x", "npm test \u3000x", "npm test \u200bx", "npm test \u202ex",
    "npm test \ud800", "npm test\tx", "npm test 'a;b'; rm x", "npm test 'a;b", "npm test \"it's\" ; rm 'x'",
    "npm test 'a' $'b\\''", 'npm test "$(rm x)"', 'npm test "`rm x`"', 'npm test "${x}"', 'npm test "a\\" ; rm "',
    "npm test 'a\\' ; rm 'x'", "npm test # '\nrm -rf / #'", "npm test #'\nrm -rf / #'",
    "npm test 'x'# '\nrm -rf / #'", "npm test 'a\x1bb'", "npm test 'a\rb'", "npm test 'a\0b'",
    "npm test ''\"'\"; rm x", "npm test {a,b}", "npm test a{1..3}", "npm test {}", "npm test 'a[$(rm x)]'",
    "npm test 'a[0]=`rm x`'", "npm test 'a[b[0]+$(rm x)]'", "npm test 'a[${x@P}]'", "npm test \"a[\"'$(rm x)]'",
    "npm test a['$''(rm x)]'",
]  # fmt: skip
LOOKALIKES = [
    "X=1 npm test x", "PATH=/tmp npm test x", "sudo npm test x", "command npm test x", "\\npm test x",
    "'npm' test x", "./npm test x", "/tmp/npm test x", " npm test x", "npm  test x", "npm\u00a0test x",
    "npm\ttest x", "NPM test x", "Npm Test x", "npm te\u0455t x", "\uff4epm test x", "npm test", "npm testx",
    "npm tes", "", " ", "\n",
]  # fmt: skip
HIDDEN_PROGRAMS = [
    "r? x", "/bin/r[m] x", "/*/rm x", "{rm,-rf,x}", "r{m,} x", "'r'* x", "[ -v 'a[$(rm x)]' ]",
    "test -v 'a[$(rm x)]'", "printf -v 'a[$(rm x)]' hi",
]  # fmt: skip
ORDINARY = [
    "git status", 'git commit -m "fix: a (b) [c]"', "git commit -m 'use `x` and $y; [ ] not yet'",
    "git log --format=%h~3 HEAD^ -- src/*.py", "npm test", 'sm spawn Explore "look at x"', "sm approve r57",
    "ls -la src/*.py", "rg -n '[a-z]+$' src", "[ -f x ]",
]  # fmt: skip
QUOTED = [
    "'a;b'", '"a|b"', "'it (does) $x `y` \\\\ & > z'", "'line\n\tline; rm x'", '"it\'s"', "'a'\"b;\"'c'", "'\u00a0'",
]  # fmt: skip


@pytest.mark.parametrize("rule", ["Bash(npm test *)", "Bash(npm test*)", "Bash(npm *)", "Bash(*)"])
def test_pattern_allows_nothing_when_the_command_is_more_than_one_program(rule: str) -> None:
    for command in NOT_ONE_PROGRAM:
        assert decide_command(command, (rule,)) is None, repr(command)


@pytest.mark.parametrize("command", LOOKALIKES)
def test_pattern_allows_nothing_when_the_command_only_looks_like_it(command: str) -> None:
    assert decide_command(command, ("Bash(npm test *)",)) is None


@pytest.mark.parametrize("command", HIDDEN_PROGRAMS)
def test_star_allows_nothing_when_the_program_is_not_written_out(command: str) -> None:
    assert decide_command(command, ("Bash(*)",)) is None
    assert decide_command("rm x", ("Bash(*)",)) is True


@pytest.mark.parametrize("command", ORDINARY)
def test_pattern_allows_ordinary_commands(command: str) -> None:
    name = command.partition(" ")[0]
    for rule in (f"Bash({name} *)", "Bash(*)", "Bash"):
        assert decide_command(command, (rule,)) is True
        deny = ("Bash(git push *)", "Bash(rm *)", "Bash(sm kill *)")
        assert decide_command(command, (rule,), deny) is True


@pytest.mark.parametrize("text", QUOTED)
def test_pattern_takes_quoted_operators_as_text(text: str) -> None:
    assert decide_command(f"npm test {text}", ("Bash(npm test *)",)) is True
    assert decide_command(f"npm test {text} --x {text}", ("Bash(npm *)",)) is True


def test_pattern_allows_arguments_in_place_of_its_stars() -> None:
    assert decide_command("npm test -- --grep 'a b'", ("Bash(npm test *)",)) is True
    assert decide_command("npm test größe", ("Bash(npm test *)",)) is True
    assert decide_command("git log --format=%h~3 src/*.py", ("Bash(git log *)",)) is True
    assert decide_command("npm run lint -- --fix", ("Bash(npm run * --fix)",)) is True


@pytest.mark.parametrize(
    "command", [" npm test", "npm test ", "npm test x", "npm  test", "npm test;", "NPM test", "npm tes"]
)
def test_pattern_without_a_star_allows_exactly_one_command(command: str) -> None:
    assert decide_command("npm test", ("Bash(npm test)",)) is True
    assert decide_command(command, ("Bash(npm test)",)) is None


def test_pattern_allows_joined_commands_only_when_they_are_written_in_it() -> None:
    assert decide_command("cd a && npm test > log", ("Bash(cd a && npm test > log)",)) is True
    assert decide_command("cd b && npm test > log", ("Bash(cd * && npm test > log)",)) is None
    assert decide_command("cd * && npm test", ("Bash(cd * && npm test)",)) is True  # the literal command


@pytest.mark.parametrize("command", [None, 5, ["npm test x"], {"a": 1}, True, b"npm test x"])
def test_nothing_is_allowed_when_the_command_is_not_a_string(command: object) -> None:
    assert decide_command(command, ("Bash(npm test *)", "Bash(*)", "Bash")) is None


def test_nothing_is_allowed_when_the_command_leaves_the_sandbox_of_claude() -> None:
    assert decide_command("npm test", ("Bash",), dangerouslyDisableSandbox=True) is None
    assert decide_command("npm test", ("Bash",), dangerouslyDisableSandbox=False) is True


# -------------------------------------------------------------------------------------------------------- deny rules

DENIED = [
    "rm -rf /", "  rm -rf /", "\trm\t-rf /", "rm\u00a0-rf /", "npm test; rm -rf /", "npm test;rm -rf /",
    "npm test&&rm -rf /", "npm test || rm x", "npm test | rm x", "npm test & rm x", "npm test\nrm x",
    "npm test\r\nrm x", "echo $(rm x)", 'echo "$(rm x)"', "echo `rm x`", "cat <(rm x)", "(rm x)", "{ rm x; }",
    "X=1 rm x", "X=1 Y='a b' rm x", 'X="a b" rm x', "X+=1 rm x", "sudo rm x", "sudo -n rm x", "sudo -u root rm x",
    "command rm x", "builtin command rm x", "env X=1 rm x", "env -i rm x", "/usr/bin/env rm x",
    "sudo env X=1 command rm x", "nohup rm x", "timeout 5 rm x", "nice -n 5 rm x", "\\rm x", "r\\m x", "r\\\nm x",
    "'rm' x", '"r"m x', "r''m x", "/bin/rm x", "/usr/../bin/rm x", "rm${IFS}x", ">out rm x", "2> out rm x",
    "if true; then rm x; fi", "while rm x; do :; done", "! rm x", "time rm x", "find . | xargs rm x",
    "find . | xargs -n 1 rm x", "bash -c 'rm x'", "eval 'rm x'", "rm", " rm ", "rm;", "(rm)", "sudo rm", "ls;rm",
    "rm>/dev/null -rf x", "rm</dev/null x", "rm>x", "2>&1 rm x", ">&2 rm x", ">|out rm x", "&>out rm x",
    ">'my file' rm x", '>"a;b" rm x', "2>out 3>&1 rm x", 'A="x;y" rm x', "A=b\\ c rm x", "env A='x y' rm x",
    "sudo -u 'a b' rm x", "timeout .5 rm x", "time -f '%e s' rm x", "find . -name x -exec rm {} +",
    "if [ -f x ]; then rm; fi", "set -- a; for i do rm x; done", "timeout inf rm x", "env a!=b rm x",
    "timeout 1e3 rm x", "ls | xargs -I {} rm {}",
]  # fmt: skip
DENIED_BEHIND_LOOKUP = [
    "command -v x; rm x", "command -v $(rm x)", "command -p rm -v", "command -- rm -v", "command rm -v",
    "command -v x && command rm x", "./command -v rm", "xargs -v rm x",
]  # fmt: skip
LOOKUPS = [
    "command -v rm", "command -V rm x", "sudo command -pv rm", "command -v rm ls",
]  # fmt: skip
OTHERS = [
    "npm test", "farm x", "echo rm x", "rmdir x", "git rm x", "ls rm", "RM x",
]  # fmt: skip
READABLE = [
    "cd src && npm test 2>&1 | tail -20", "npm test &>log; cat log",
    "npm test > 'my log' 2>/dev/null || echo \"failed: $?\"", 'for f in *.py; do wc -l "$f"; done',
    "if [ -f x ]; then cat x; fi", "find . -name '*.pyc' -exec ls -l {} \\;",
    "grep -rln 'a b' src --include=*.py | xargs -n 1 wc -l",
    'git add src \\\n  docs && git commit -m "say \\"no\\""', "NODE_ENV=test X='a b' npm test $MORE",
    "timeout -k 1 60s npm test src/*.ts", "env CI=1 make", "bash scripts/build.sh --fast", "! cmp a b",
]  # fmt: skip
UNCERTAIN = [
    "git {push,origin}", "git pus[h] origin", "git pu* origin", "git $X", 'git "$X"', "git ${X}", "git $(echo push)",
    "git $'push'", "git -C . push", "git --no-pager push x", "echo push | xargs git",
    "echo push | /usr/bin/xargs find . -exec git",
    "echo push | xargs -I {} git {}", "$X", "$(cat x)", "`cat x`", "g`true`it push", "g[i]t push", "{git,push}",
    "=git push", "cat <<E\nx\nE", "cat <<<x", "{fd}>x git push", "A[0]=x git stash", "A[ 1 ]=x git stash", "A=(x y)",
    "f() { ls; }", "function f { ls; }", "coproc ls", "trap ls EXIT", "eval ls", "alias x=ls", "env -S ls",
    "env --split-string=ls", "bash -c ls", "bash", "ls | sh", "ssh host ls", "chroot / ls", "case x in x) ls;; esac",
    "ls # it's", "ls >! x y", "ls >", "ls 'x", 'ls "x', "ls \\", "ls\x1b", "set -- a; for i do git $i; done",
    "if [[ -n x ]] ls", "if [[ -n x ]] { ls; }", "timeout inf git $X", "timeout $X git", "ls | xargs -I{} {} x",
    "ls | xargs -I {} {} x", "ls | xargs -I X git X", "ls | xargs -0I X X", "ls | xargs -iX git X",
    "ls | xargs --replace=X X", "echo x | . /dev/stdin", "echo x | bash /proc/self/fd/0", "test -v 'a[$(x)]'",
    "$\\\n(x)", '"$\\\n(x)"',
]  # fmt: skip
UNCERTAIN_OPTIONS = [
    ("git push --force *", "git push origin main --force"), ("git push --force*", "git push origin main --force"),
    ("git push --force *", "git push origin main --forc"),
    ("git push --force *", "git push origin main --force-with-lease=x"),
    ("git push --force *", "git push origin main -uf"),
    ("git push --force *", "cd x && sudo /usr/bin/git push origin '--force'"),
    ("git push --*", "git push origin --tags"), ("git push --force *", "git push origin $X"),
    ("git push --force *", "git push origin -$X"), ("git push --force *", "git push origin {main,--force}"),
    ("git push --force *", "cat x | xargs git push origin"), ("git reset --hard *", "git reset HEAD~1 --hard"),
    ("rm -rf *", "rm x -rf"), ("rm -rf *", "rm x -f -r"), ("rm -rf *", "rm x --recursive"), ("rm -*", "rm x -v"),
]  # fmt: skip
OTHER_OPTIONS = [
    ("git push --force *", "git push origin main"), ("git push --force *", "git push origin main --tags"),
    ("git push --force *", "git pushx origin --force"), ("git push --force *", "git commit -m --force"),
    ("git -c *", "git commit -m x"), ("git -c *", "git log --oneline"), ("python3 -c *", "python3 x.py - -- -v"),
    ("rm -rf *", "rm x -v"),
]  # fmt: skip


@pytest.mark.parametrize("command", [*DENIED, *DENIED_BEHIND_LOOKUP])
def test_deny_rule_finds_the_program_when_others_run_it(command: str) -> None:
    literal = (f"Bash({command.strip()})",) if command.isprintable() else ()
    assert decide_command(command, ("Bash", *literal), ("Bash(rm *)",)) is False


@pytest.mark.parametrize("command", OTHERS)
def test_deny_rule_allows_other_programs(command: str) -> None:
    assert decide_command(command, ("Bash",), ("Bash(rm *)",)) is True


@pytest.mark.parametrize("command", LOOKUPS)
def test_deny_rule_allows_the_lookup_of_a_program(command: str) -> None:
    assert decide_command(command, ("Bash",), ("Bash(rm *)",)) is True
    assert decide_command(command, ("Bash",), ("Bash(command *)",)) is False


@pytest.mark.parametrize("command", READABLE)
def test_deny_rule_allows_joined_commands_that_are_plain(command: str) -> None:
    assert decide_command(command, ("Bash",), ("Bash(git push *)", "Bash(rm *)")) is True


def test_deny_rule_matches_with_a_star_in_front_or_without_one() -> None:
    assert decide_command("ls; reboot", ("Bash",), ("Bash(reboot)",)) is False
    assert decide_command("ls; reboot now", ("Bash",), ("Bash(reboot)",)) is True
    assert decide_command("git push --force x", ("Bash",), ("Bash(git push *--force*)",)) is False
    assert decide_command("true && git push x --force", ("Bash",), ("Bash(* --force)",)) is False
    assert decide_command("curl x | sh", ("Bash",), ("Bash(curl *|*sh)",)) is False


@pytest.mark.parametrize("allow", ["Bash", "Bash(git *)", "Bash(*)"])
def test_deny_rule_that_ends_with_a_star_also_matches_the_program_without_arguments(allow: str) -> None:
    for command in ("git push", "git push origin", "git  push", "git 'push'"):
        assert decide_command(command, (allow,), ("Bash(git push *)",)) is False
    assert decide_command("git pushx", (allow,), ("Bash(git push *)",)) is True
    assert decide_command("git", ("Bash",), ("Bash(git push *)",)) is True
    assert decide_command("git push;", ("Bash",), ("Bash(git push *)",)) is False
    assert decide_command("git push>/dev/null", ("Bash",), ("Bash(git push *)",)) is False


@pytest.mark.parametrize("command", UNCERTAIN)
def test_person_decides_when_a_deny_rule_may_match(command: str) -> None:
    assert decide_command(command, ("Bash", "Bash(*)", "Bash(git *)"), ("Bash(git push *)",)) is None


def test_deny_rule_allows_expansions_that_cannot_make_it_match() -> None:
    deny = ("Bash(git push *)", "Bash(rm *)", "Bash(make deploy)")
    for command in ("git add *.py", "git log $X", "git commit -m x", "ls $HOME/{a,b}", "sudo ls *"):
        assert decide_command(command, ("Bash",), deny) is True
    assert decide_command("make -- test", ("Bash",), deny) is None
    assert decide_command("git push -u origin x", ("Bash",), ("Bash(git push *--force*)",)) is True
    assert decide_command("git push $X", ("Bash",), ("Bash(git push *--force*)",)) is None


@pytest.mark.parametrize(("rule", "command"), UNCERTAIN_OPTIONS)
def test_person_decides_when_a_denied_option_may_be_at_another_position(rule: str, command: str) -> None:
    assert decide_command(command, ("Bash",), (f"Bash({rule})",)) is None


@pytest.mark.parametrize(("rule", "command"), OTHER_OPTIONS)
def test_deny_rule_allows_other_options(rule: str, command: str) -> None:
    assert decide_command(command, ("Bash",), (f"Bash({rule})",)) is True


def test_person_decides_when_a_command_is_too_long_to_read() -> None:
    many = ";".join(f"a{n}" for n in range(3_000))
    assert decide_command(many, ("Bash",), ()) is True
    assert decide_command(many, ("Bash",), ("Bash(rm *)",)) is None
    assert decide_command("x" * 70_000, ("Bash",), ("Bash(rm *)",)) is None
    assert decide_command("x" * 70_000, ("Bash",)) is None
    assert decide_command("echo " + "a " * 3_000, ("Bash",), ("Bash(rm *)",)) is None
    for before in ("sudo ", "env x=1 ", "nohup env "):
        assert decide_command(before * 100 + "rm x", ("Bash",), ("Bash(rm *)",)) is None


def test_deny_rule_finds_the_program_behind_many_assignments_and_redirections() -> None:
    for before in ("x=1 ", "x= ", "> a ", "'x'=1 ", "sudo -u "):
        assert decide_command(before * 100 + "rm x", ("Bash",), ("Bash(rm *)",)) is False


# -------------------------------------------------------------------------------------------------------- properties

_COMMANDS = st.text("rm -*;&|$()`'\"\\\n\tax=<>/", max_size=30)
_RULES = st.lists(
    st.text("rm *-a;/", min_size=1, max_size=8)
    .map(lambda pattern: f"Bash({pattern})")
    .filter(lambda rule: bool(rule[5:-1].strip()) and rule[5:-1] == rule[5:-1].strip()),
    max_size=4,
)


@given(st.text(max_size=40), st.text("npm tes*;&$ ", max_size=40))
def test_allow_rule_without_a_star_allows_no_other_command(pattern: str, command: str) -> None:
    rule = f"Bash({pattern})"
    try:
        parse_rule(rule)
    except ValueError:
        return
    if "*" not in pattern:
        assert decide_command(command, (rule,)) is (True if command == pattern else None)


@given(_COMMANDS, _RULES, _RULES, _RULES)
def test_more_deny_rules_never_allow_more(
    command: str, allow: list[str], deny: list[str], more: list[str]
) -> None:
    before = decide_command(command, tuple(allow), tuple(deny))
    after = decide_command(command, tuple(allow), (*deny, *more))
    assert after is not True or before is True
    assert before is not False or after is False


@given(_COMMANDS, _RULES)
def test_command_with_operators_is_allowed_only_literally(command: str, allow: list[str]) -> None:
    bare = re.sub(r"""'[^']*'|"[^"$`\\\\]*[\"]""", "", command)
    if decide_command(command, tuple(allow)) and any(operator in bare for operator in ";&|$()`\\\n<>"):
        assert f"Bash({command})" in allow


# -------------------------------------------------------------------------------------------------------- a real bash

TRACE = r"""
set -f
while IFS= read -r -d '' c; do
  output=$(
    trap 'case $BASH_COMMAND in ":"*|"eval "*|"trap "*) ;; *) echo "$BASH_COMMAND" ;; esac' DEBUG
    eval "$c" 2>&1
    trap - DEBUG
  )
  [ -z "$output" ] || printf '%q runs %q\n' "$c" "$output"
done
"""
"""Prints every command that runs more than `:`, or is incomplete."""
RUN = r"""
while IFS= read -r -d '' c; do
  (eval "$c") < /dev/null > /dev/null 2>&1
  [ -e "$HIT" ] && printf '%s\0' "$c" && /bin/rm -rf "$HIT"
done
:
"""
"""Prints every command that ran the denied program: a stub that creates the file HIT."""
STUBS = {"rm": ': > "$HIT"', "git": '[ "$1" != push ] || : > "$HIT"'}
PROGRAMS = ("env", "true", "cat", "timeout", "nice", "nohup", "xargs", "sh", "bash", "test", "find")

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
RM = [
    "rm", "rm -rf x", "rm>o -rf x", "rm</dev/null x", "r\\m x", "r''m x", "{rm,-rf,x}", "r{m,} x", "$'rm' x",
    '$"rm" x', "/*/rm x", "rm${IFS}x", "rm;", "$'\\x72m' x", "r$@m x", "r${x}m x", "\\\nrm x", "r\\\nm x", "rm x)",
    "rm x'", 'rm x"', "rm x; }", "rm x; done", "rm x;; esac", "rm x; fi", "rm x' EXIT", "rm x; }; f", "rm x' | sh",
    "rm x\nE", "rm x)\nE",
]  # fmt: skip
PUSH = [
    "git push", "git>o push x", "git</dev/null push", "git 2>o push", "git >o 2>&1 push", "git p''ush", "git pu\\\nsh",
    "git \\\npush", 'git "push"', "git p\\ush", "git {push,x}", "git $'push'", "git pus[h]", "git push'", "git push; }",
    "git push; done", "git push; fi", "git push)", "git push\nE", "git -C . push", "git ${X}push",
]  # fmt: skip
PIECES = [
    " ", " ", "\n", ";", "|", "&", "'", '"', "\\", "$X", "{", "}", ",", "<", ">", "x=", "[", "*", "#", "!", "env ",
    "xargs ", "true", "(", ")", "`", "$", "1", "-x", "\\\n", ">o ", "</dev/null ",
]  # fmt: skip


@pytest.mark.processes
def test_bash_runs_nothing_but_the_program_that_a_pattern_allows() -> None:
    pieces = [*"'\"# \n;a&|()$`\\<>\t!{", "x=", "'a'"]
    choose = random.Random(6)
    allowed: list[str] = []
    while len(allowed) < 300 * MANY:
        command = ": " + "".join(choose.choices(pieces, k=choose.randint(1, 14)))
        if decide_command(command, ("Bash(: *)",)):
            allowed.append(command)
    result = subprocess.run(
        ["bash", "-c", TRACE], input="\0".join([*allowed, ""]), capture_output=True, text=True, check=True
    )
    assert (result.stdout, result.stderr) == ("", "")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("rule", "written", "pieces"),
    [
        ("Bash(rm *)", RM, ["rm", "rm x", "r", "m"]),
        ("Bash(git push *)", PUSH, ["git ", "push", "git push", "pu", "sh"]),
    ],
    ids=["rm", "git push"],
)
def test_bash_runs_no_denied_program_when_a_command_is_allowed(
    tmp_path: Path, rule: str, written: Sequence[str], pieces: Sequence[str]
) -> None:
    choose = random.Random(9)
    commands = [before + program for before in BEFORE for program in written]
    letters = set(rule[5:-3].replace(" ", ""))
    for _ in range(20_000 * MANY):
        command = "".join(choose.choices([*pieces, *pieces, *PIECES], k=choose.randint(2, 9)))
        if letters <= set(command):
            commands.append(command)
    allowed = [command for command in commands if decide_command(command, ("Bash",), (rule,))]
    denied = f"true && {written[0]} x"
    if len(allowed) > 400 * MANY:
        allowed = [*allowed[:150], *choose.sample(allowed, 250 * MANY)]
    assert run_in_bash([*allowed, denied], tmp_path) == [
        denied
    ]  # the last command proves that a run is detected


def run_in_bash(commands: Sequence[str], directory: Path) -> list[str]:
    """The commands that run a denied program."""
    bin, work = directory / "bin", directory / "work"
    bin.mkdir()
    work.mkdir()
    for name, script in STUBS.items():
        (bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (bin / name).chmod(0o755)
    for name in PROGRAMS:
        (bin / name).symlink_to(f"/bin/{name}")
    result = subprocess.run(
        ["/bin/bash", "-c", RUN],
        input="\0".join([*commands, ""]),
        capture_output=True,
        text=True,
        check=True,
        cwd=work,
        env={"PATH": str(bin), "HIT": f"{directory}/hit"},
    )
    return result.stdout.split("\0")[:-1]

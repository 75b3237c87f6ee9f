"""rules.yaml: read after config.yaml, written by sm only, and never overwritten when it has mistakes."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from sm.config import add_rule, load, read_rules, remove_newest_rule, rules_path
from sm.config.rules_file import HEADER
from sm.errors import ConfigError, IllegalState, LimitReached
from sm.policy.written_rules import WrittenRule, allowed

TEST = WrittenRule("Engineer", "Bash(npm test)")
EDIT = WrittenRule("Writer", "Edit(/work/a.py)", sandboxed=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(rules_path(f"{tmp_path}/config.yaml"))


def loaded_rules(path: Path) -> tuple[WrittenRule, ...]:
    return load(f"{path.parent}/config.yaml").rules


def test_rules_are_lines_below_a_comment_and_are_read_beside_config_yaml(path: Path) -> None:
    add_rule(str(path), TEST)
    add_rule(str(path), EDIT)
    assert path.read_text() == (
        f"{HEADER}"
        '- {"agent_type": "Engineer", "allow": "Bash(npm test)"}\n'
        '- {"agent_type": "Writer", "allow": "Edit(/work/a.py)", "sandboxed": true}\n'
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [(rule, rule.line) for rule in loaded_rules(path)] == [(TEST, 2), (EDIT, 3)]
    assert os.listdir(path.parent) == ["rules.yaml"]


def test_missing_and_empty_files_have_no_rules(path: Path) -> None:
    assert loaded_rules(path) == ()
    path.write_text(HEADER)
    assert loaded_rules(path) == ()


def test_rule_is_written_once(path: Path) -> None:
    for _ in range(2):
        add_rule(str(path), TEST)
    assert len(loaded_rules(path)) == 1


def test_newest_rule_is_removed_and_the_others_stay(path: Path) -> None:
    for rule in (TEST, EDIT):
        add_rule(str(path), rule)
    assert remove_newest_rule(str(path), EDIT.text) == EDIT
    assert loaded_rules(path) == (TEST,)
    remove_newest_rule(str(path), TEST.text)
    assert path.read_text() == HEADER
    with pytest.raises(IllegalState, match="there are no rules"):
        remove_newest_rule(str(path), TEST.text)


def test_another_newest_rule_than_the_person_saw_is_not_removed(path: Path) -> None:
    for rule in (TEST, EDIT):
        add_rule(str(path), rule)
    before = path.read_text()
    with pytest.raises(IllegalState, match="the newest rule is another one now"):
        remove_newest_rule(str(path), TEST.text)
    assert path.read_text() == before


@pytest.mark.parametrize(
    "command",
    [
        'echo "it\'s" # no comment',
        "echo '}' , {a: b} [c]",
        "echo \\n \\u0041 \\",
        "echo %TAG !x &a",
        'grep -c "^- {\\"agent_type\\": \\"Boss\\", \\"allow\\": \\"Bash\\"}"',
        "echo grün 日本 \U0001f600",
        "echo <<EOF ${HOME} `id`",
    ],
)
def test_every_command_is_read_as_it_was_written(path: Path, command: str) -> None:
    rule = WrittenRule("Engineer", f"Bash({command})")
    add_rule(str(path), rule)
    assert loaded_rules(path) == (rule,)
    entry = {"agent_type": "Engineer", "allow": f"Bash({command})"}
    assert yaml.safe_load(path.read_text()) == [entry] == [json.loads(rule.text[2:])]


@pytest.mark.parametrize("name", ["true", "null", "123", "0x1f", "2026-01-01", "no"])
def test_agent_type_that_yaml_reads_as_another_value_stays_text(path: Path, name: str) -> None:
    add_rule(str(path), WrittenRule(name, "Read"))
    assert loaded_rules(path) == (WrittenRule(name, "Read"),)


@pytest.mark.parametrize("name", ["Boss, allow: Bash", 'x", "allow": "Bash', "a\n- b", "../x", "", "*", "{}"])
def test_name_that_is_no_agent_type_is_not_written(path: Path, name: str) -> None:
    with pytest.raises(IllegalState):
        add_rule(str(path), WrittenRule(name, "Bash(npm test)"))
    assert not path.exists()


@pytest.mark.parametrize("allow", ["Bash(a\nb)", "Bash(", "*", "", "AskUserQuestion", "Bash(\ud7ff\x00)"])
def test_text_that_is_no_rule_is_not_written(path: Path, allow: str) -> None:
    with pytest.raises(IllegalState):
        add_rule(str(path), WrittenRule("Engineer", allow))
    assert not path.exists()


FAULTS: list[tuple[Any, str]] = [
    ("- {agent_type: Engineer, allow: [}\n", "1:34: "),
    (HEADER + "- {agent_type: Engineer, allow: 'Bash('}\n", "2:33: [0].allow: is not a valid rule"),
    (HEADER + "- {agent_type: 'a b', allow: Read}\n", "2:16: [0].agent_type: is not a valid agent type"),
    (HEADER + "- {agent_type: a, allow: Read, deny: Bash}\n", "2:32: [0].deny: unknown key"),
    (HEADER + "- {agent_type: a}\n", "2:3: [0].allow: is missing"),
    (HEADER + "- {agent_type: a, allow: Read, sandboxed: 1}\n", "2:43: [0].sandboxed: must be true or false"),
    (HEADER + "Engineer: [Read]\n", "2:1: "),
    (HEADER + "- &a {agent_type: a, allow: Read}\n- *a\n", "3:3: aliases"),
    (b"# \xff\n", "1:3: invalid UTF-8"),
    ("# x\n" * 20_000, "larger than 64 KiB"),
]


@pytest.mark.parametrize(("content", "message"), FAULTS)
def test_fault_is_reported_with_its_place_and_never_overwritten(
    path: Path, content: str | bytes, message: str
) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = path.read_bytes()
    for act in (
        lambda: read_rules(str(path)),
        lambda: load(f"{path.parent}/config.yaml"),
        lambda: add_rule(str(path), TEST),
        lambda: remove_newest_rule(str(path), TEST.text),
    ):
        with pytest.raises(ConfigError) as caught:
            act()
        assert str(path) in caught.value.message and message in caught.value.message
    assert path.read_bytes() == before


def test_mistakes_of_both_files_are_reported(path: Path) -> None:
    (path.parent / "config.yaml").write_text("limits: {max_per_workspace: many}\n")
    path.write_text("- 1\n")
    with pytest.raises(ConfigError) as caught:
        loaded_rules(path)
    first, second = caught.value.message.splitlines()
    assert "config.yaml:1:29" in first and "rules.yaml:1:3" in second


def test_link_is_not_followed_and_not_replaced(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text(HEADER)
    path.symlink_to(other)
    with pytest.raises(ConfigError, match="it is a symbolic link"):
        add_rule(str(path), TEST)
    assert path.is_symlink() and other.read_text() == HEADER


def test_file_that_others_can_change_is_a_warning(path: Path) -> None:
    add_rule(str(path), TEST)
    path.chmod(0o666)
    assert any(
        "can be changed by other users" in text for text in load(f"{path.parent}/config.yaml").warnings
    )


def test_edited_file_to_which_no_line_can_be_added_stays_as_it_is(path: Path) -> None:
    text = '  - agent_type: Engineer\n    allow: "Bash(npm test)"\n'
    path.write_text(text)
    assert loaded_rules(path) == (TEST,)
    with pytest.raises(IllegalState, match="was edited"):
        add_rule(str(path), EDIT)
    with pytest.raises(IllegalState, match="was edited"):
        remove_newest_rule(str(path), TEST.text)
    assert path.read_text() == text


def test_agent_type_has_at_most_a_hundred_rules(path: Path) -> None:
    path.write_text("".join(f"{WrittenRule('Engineer', f'Bash(x{n})').text}\n" for n in range(100)))
    with pytest.raises(LimitReached, match="already has 100 rules"):
        add_rule(str(path), TEST)
    add_rule(str(path), EDIT)


def test_rule_of_a_sandbox_holds_only_in_sandboxes_and_each_only_for_its_type() -> None:
    rules = (TEST, EDIT, WrittenRule("Writer", "Read"))
    assert allowed(rules, "Writer", sandboxed=True) == ("Edit(/work/a.py)", "Read")
    assert allowed(rules, "Writer", sandboxed=False) == ("Read",)
    assert allowed(rules, "Engineer", sandboxed=True) == ("Bash(npm test)",)
    assert allowed(rules, "engineer", sandboxed=True) == ()

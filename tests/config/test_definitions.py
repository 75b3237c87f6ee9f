"""Agent definitions: what a file may say, and what is said of one that is wrong."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm import config
from sm.config import AgentConfig, Definition
from sm.config.definitions import _DESCRIPTION, DEFINITION_MAX_BYTES, _names
from sm.errors import ConfigError

HUGE = "must be text, and a number of too many digits is not: quote it"
SURROGATE = "must not hold half of a character (U+D800 to U+DFFF)"


def file(settings: str, body: str = "Be strict.") -> bytes:
    return f"---\n{settings}\n---\n{body}\n".encode()


def read_definition(content: bytes, name: str) -> Definition:
    return config.read_definition(content, name, ("claude",))


def agent(settings: str, name: str = "reviewer") -> AgentConfig:
    return read_definition(file(settings), name).agent


def mistake(content: bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        read_definition(content, "reviewer")
    return caught.value.message


def test_whole_definition() -> None:
    text = (
        b"\xef\xbb\xbf---\r\nname: reviewer\r\ndescription: reviews\r\nmodel: opus\r\ntools: [Read, Bash]\r\n"
    )
    text += b"provider: claude\r\nspawnable: true\r\n---\r\n\r\nBe strict.\r\n\r\n---\r\nTwo lines.\r\n"
    read = read_definition(text, "reviewer")
    assert read.agent == AgentConfig(
        model="opus", description="reviews", prompt="Be strict.\n\n---\nTwo lines.", spawnable=True
    )
    assert read.tools == ("Read", "Bash")
    assert read.warnings == ()


def test_what_is_not_said_is_as_in_the_configuration() -> None:
    assert read_definition(b"---\n---", "reviewer").agent == AgentConfig()
    assert read_definition(b"---\n# nothing\n---\n \n", "reviewer").agent == AgentConfig()


def test_keys_of_claudes_own_are_left_alone() -> None:
    assert agent("color: red\nhooks: {Stop: [{x: 1}]}\nmcpServers: [a]\nmaxTurns: 3") == AgentConfig(
        prompt="Be strict."
    )


@pytest.mark.parametrize(
    "text", ['Use it so: user: "do it" \\n\\n<example>', "[reviews] code", "*all* of it", "`quick`"]
)
def test_description_may_be_any_line_of_text_as_with_claude(text: str) -> None:
    read = agent(f"name: reviewer\ndescription: {text} \nmodel: opus")
    assert (read.description, read.model) == (text, "opus")
    assert mistake(file(f"description: {text}\nmodel: -x")).startswith("3:8: model: ")


@pytest.mark.parametrize("key", ["auto_allow", "auto_deny", "autoAllow", "autoDeny"])
@pytest.mark.parametrize("value", ["[Bash]", "Bash", "5", "{a: 1}", "['Bash(']"])
def test_a_file_cannot_answer_permissions_by_rules(key: str, value: str) -> None:
    read = read_definition(file(f"{key}: {value}"), "reviewer")
    assert read.warnings == (
        f"`{key}` has no effect in a file: rules stand in config.yaml, under claude.agent_configs",
    )
    assert (read.agent.auto_allow, read.agent.auto_deny) == ((), ())


def test_permission_mode_is_said_to_have_no_effect() -> None:
    read = read_definition(file("permissionMode: bypassPermissions"), "reviewer")
    assert read.warnings == ("`permissionMode` has no effect",)
    assert read.agent.args == ()


def test_inherited_model_is_none() -> None:
    assert agent("model: inherit").model is None
    assert agent("model: claude-opus-4-8[1m]").model == "claude-opus-4-8[1m]"


def test_file_is_named_for_the_agent_type_whatever_it_says() -> None:
    read = read_definition(file("name: Other Name"), "reviewer")
    assert read.warnings == ("its `name` is 'Other Name'; the name of the file counts",)
    assert read_definition(file("name: reviewer"), "reviewer").warnings == ()


@pytest.mark.parametrize(
    ("said", "tools"),
    [
        ("Read, Grep , Bash", ("Read", "Grep", "Bash")),
        ("[Read, Grep]", ("Read", "Grep")),
        ("Read", ("Read",)),
        ("''", ()),
        ("[]", ()),
        ("", None),
        ("'*'", ("*",)),
        ("Read, Bash(git log, git diff)", ("Read", "Bash(git log, git diff)")),
    ],
)
def test_tools_are_a_list_or_a_text_with_commas(said: str, tools: tuple[str, ...] | None) -> None:
    read = read_definition(file(f"tools: {said}"), "reviewer")
    assert (read.tools, read.warnings) == (tools, ())


def test_tools_that_are_refused_are_kept_for_the_provider() -> None:
    read = read_definition(file("disallowedTools: Write, Bash(rm *)"), "reviewer")
    assert (read.disallowed_tools, read.agent.args) == (("Write", "Bash(rm *)"), ())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "1:1: it does not begin with settings between two lines of three dashes (---)"),
        (b"# Just a text\n", "1:1: it does not begin with settings between two lines of three dashes (---)"),
        (b"\n---\n---\n", "1:1: it does not begin with settings between two lines of three dashes (---)"),
        (b"---\nname: x\n", "1:1: the settings have no end: a line of three dashes (---)"),
        (b"---\nname: a: b\n---\n", "2:8: mapping values are not allowed here"),
        (file("a: &x 1\nb: *x"), "3:4: aliases (*name) are not allowed"),
        (file("- a"), "2:1: must hold keys of its own, `key: value`"),
        (file("text"), "2:1: must hold keys of its own, `key: value`"),
        (file("name: x\nname: y"), "3:1: name: is given twice; the first is on line 2"),
        (file("description: 5"), "2:14: description: must be text, and 5 is not: quote it"),
        (file("name: 2026-02-31"), "2:7: cannot be read; quote it if it is text"),
        (file("x: !!int y"), "2:4: cannot be read; quote it if it is text"),
        (file("model: -x"), "2:8: model: is no name of a model: opus, sonnet, haiku, or a full name"),
        (file("tools: [Read, 5]"), "2:15: tools[1]: must be text, and 5 is not: quote it"),
        (file("tools: --verbose"), "2:1: tools[0]: is no name of a tool, such as Read or Bash"),
        (
            file("disallowedTools: [-x]"),
            "2:19: disallowedTools[0]: is no name of a tool, such as Read or Bash",
        ),
        (file("tools: {a: b}"), "2:8: tools: must be a list: [one, two]"),
        (file("spawnable: 'yes'"), "2:12: spawnable: must be true or false, and is 'yes'"),
        (
            file("provider: command"),
            "2:11: provider: an agent type that is a program is configured under `commands:` in config.yaml",
        ),
        (file("provider: codex"), "2:11: provider: unknown provider 'codex': leave it out, or say claude"),
        (file("name: 0x" + "f" * 8000), f"2:7: name: {HUGE}"),
        (file("name: 1" + ":1" * 4000), f"2:7: name: {HUGE}"),
        (file(f"tools: [0x{'f' * 8000}]"), f"2:9: tools[0]: {HUGE}"),
        (
            file(f"spawnable: [0x{'f' * 8000}]"),
            "2:12: spawnable: must be true or false, and is something with a number of too many digits",
        ),
        (file(r'description: "\ud800"'), f"2:14: description: {SURROGATE}"),
        (file(r'name: "a\udfffb"'), f"2:7: name: {SURROGATE}"),
        (
            file(r'disallowedTools: ["Bash(\ud800)"]'),
            "2:19: disallowedTools[0]: is no name of a tool, such as Read or Bash",
        ),
        (file("x: " + "[" * 40), "2:35: nested more than 32 deep"),
        (
            file("x: !!python/name:os.system x"),
            "2:4: could not determine a constructor for the tag 'tag:yaml.org,2002:python/name:os.system'",
        ),
        (b"---\nx: \xff\n---\n", "2:1: is not UTF-8 text"),
        (b"---\n---\na\n\0", "4:1: holds a NUL character"),
        (b"---\nx: \x07\n---\n", "2:4: the character U+0007 is not allowed"),
        (file("x: " + "a" * 9000), "1:1: the settings are longer than 8,192 characters"),
        (file("", "a" * DEFINITION_MAX_BYTES), "1:1: is larger than 64 KiB"),
    ],
)
def test_mistake_is_told_with_its_place(content: bytes, said: str) -> None:
    assert mistake(content) == said


def test_every_mistake_is_told_at_once() -> None:
    told = mistake(file("model: -x\nspawnable: maybe\nprovider: x"))
    assert [each.partition(":")[0] for each in told.splitlines()] == ["2", "3", "4"]


def test_mistakes_of_a_file_that_is_full_of_them_are_told_in_part() -> None:
    told = mistake(file(f"tools: [{'5,' * 4000}]")).splitlines()
    assert len(told) == 21
    assert told[-1] == "1:1: and 3,980 more mistakes"


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (lambda text: _DESCRIPTION.sub("", text), f"description: {' ' * 800_000}\n: ["),
        (lambda text: _DESCRIPTION.sub("", text), f"description: {'a ' * 400_000}\xa0\n: ["),
        (lambda text: _DESCRIPTION.sub("", text), "description: x\n" * 64_000),
        (_names, "," * 800_000),
        (_names, "(," * 400_000),
        (_names, "a(b,c)," * 120_000),
    ],
)
def test_text_is_taken_apart_in_a_time_that_grows_with_its_length(
    read: Callable[[str], object], text: str
) -> None:
    assert read(text) is not None  # the square would take an hour: the limit of a test ends it


def test_quoted_description_stays_as_it_is_behind_any_number_of_blanks() -> None:
    assert _DESCRIPTION.sub("", 'description:   "quoted"') == 'description:   "quoted"'


@given(st.binary(max_size=300))
def test_nothing_but_a_refusal_comes_of_any_bytes(content: bytes) -> None:
    for each in (content, b"---\n" + content + b"\n---\n"):
        with suppress(ConfigError):
            read_definition(each, "reviewer")


@given(st.text(alphabet="-:{}[]!&*|>'\"%@`#,?<=.~ \n\tab019_eE+", max_size=80))
def test_nothing_but_a_refusal_comes_of_any_yaml(settings: str) -> None:
    with suppress(ConfigError):
        read_definition(file(settings), "reviewer")

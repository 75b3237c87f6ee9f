"""Agent definitions: accepted files and the errors of wrong files."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm import config
from sm.config import AgentConfig, Definition
from sm.config.definitions import _DESCRIPTION, DEFINITION_MAX_BYTES, _names
from sm.errors import ConfigError

HUGE = "must be text, not a number with too many digits: put it in quotes"
SURROGATE = "must not contain a surrogate character (U+D800 to U+DFFF)"


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


def test_definition_reads_every_key() -> None:
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


def test_definition_uses_defaults_when_keys_are_missing() -> None:
    assert read_definition(b"---\n---", "reviewer").agent == AgentConfig()
    assert read_definition(b"---\n# nothing\n---\n \n", "reviewer").agent == AgentConfig()


def test_definition_lists_the_keys_that_sm_does_not_read() -> None:
    read = read_definition(file("descripton: x\nspawnable: true\ncolor: red"), "reviewer")
    assert read.other_keys == ("descripton", "color")
    assert read_definition(b"---\n---", "reviewer").other_keys == ()


def test_definition_ignores_keys_that_only_claude_reads() -> None:
    assert agent("color: red\nhooks: {Stop: [{x: 1}]}\nmcpServers: [a]\nmaxTurns: 3") == AgentConfig(
        prompt="Be strict."
    )


@pytest.mark.parametrize(
    "text", ['Use it so: user: "do it" \\n\\n<example>', "[reviews] code", "*all* of it", "`quick`"]
)
def test_description_accepts_unquoted_text_that_is_not_valid_yaml(text: str) -> None:
    read = agent(f"name: reviewer\ndescription: {text} \nmodel: opus")
    assert (read.description, read.model) == (text, "opus")
    assert mistake(file(f"description: {text}\nmodel: -x")).startswith("3:8: model: ")


@pytest.mark.parametrize("key", ["auto_allow", "auto_deny", "autoAllow", "autoDeny"])
@pytest.mark.parametrize("value", ["[Bash]", "Bash", "5", "{a: 1}", "['Bash(']"])
def test_definition_ignores_permission_rules_with_a_warning(key: str, value: str) -> None:
    read = read_definition(file(f"{key}: {value}"), "reviewer")
    assert read.warnings == (
        f"`{key}` has no effect in a file: set rules in config.yaml, under claude.agent_configs",
    )
    assert (read.agent.auto_allow, read.agent.auto_deny) == ((), ())


def test_definition_ignores_permission_mode_with_a_warning() -> None:
    read = read_definition(file("permissionMode: bypassPermissions"), "reviewer")
    assert read.warnings == ("`permissionMode` has no effect",)
    assert read.agent.args == ()


def test_definition_has_no_model_when_model_is_inherited() -> None:
    assert agent("model: inherit").model is None
    assert agent("model: claude-opus-4-8[1m]").model == "claude-opus-4-8[1m]"


def test_definition_warns_when_name_differs_from_file_name() -> None:
    read = read_definition(file("name: Other Name"), "reviewer")
    assert read.warnings == ("`name` is 'Other Name', but the file name decides the agent type",)
    assert read_definition(file("name: reviewer"), "reviewer").warnings == ()


@pytest.mark.parametrize(
    ("text", "tools"),
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
def test_tools_accept_a_list_or_comma_separated_text(text: str, tools: tuple[str, ...] | None) -> None:
    read = read_definition(file(f"tools: {text}"), "reviewer")
    assert (read.tools, read.warnings) == (tools, ())


def test_disallowed_tools_are_kept_for_the_provider() -> None:
    read = read_definition(file("disallowedTools: Write, Bash(rm *)"), "reviewer")
    assert (read.disallowed_tools, read.agent.args) == (("Write", "Bash(rm *)"), ())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "1:1: the file must begin with settings between two lines of three dashes (---)"),
        (
            b"# Just a text\n",
            "1:1: the file must begin with settings between two lines of three dashes (---)",
        ),
        (b"\n---\n---\n", "1:1: the file must begin with settings between two lines of three dashes (---)"),
        (b"---\nname: x\n", "1:1: missing line of three dashes (---) after the settings"),
        (b"---\nname: a: b\n---\n", "2:8: mapping values are not allowed here"),
        (file("a: &x 1\nb: *x"), "3:4: aliases (*name) are not allowed"),
        (file("- a"), "2:1: must be a mapping of keys to values, `key: value`"),
        (file("text"), "2:1: must be a mapping of keys to values, `key: value`"),
        (file("name: x\nname: y"), "3:1: name: duplicate key, first given on line 2"),
        (file("description: 5"), "2:14: description: must be text, not 5: put it in quotes"),
        (file("name: 2026-02-31"), "2:7: invalid value; put text in quotes"),
        (file("x: !!int y"), "2:4: invalid value; put text in quotes"),
        (
            file("model: -x"),
            "2:8: model: is not a valid model name: use opus, sonnet, haiku or a full model name",
        ),
        (file("tools: [Read, 5]"), "2:15: tools[1]: must be text, not 5: put it in quotes"),
        (file("tools: --verbose"), "2:1: tools[0]: is not a tool name, such as Read or Bash"),
        (
            file("disallowedTools: [-x]"),
            "2:19: disallowedTools[0]: is not a tool name, such as Read or Bash",
        ),
        (file("tools: {a: b}"), "2:8: tools: must be a list: [one, two]"),
        (file("spawnable: 'yes'"), "2:12: spawnable: must be true or false, not 'yes'"),
        (
            file("provider: command"),
            "2:11: provider: is not allowed in a file: configure programs under `commands:` in config.yaml",
        ),
        (file("provider: codex"), "2:11: provider: unknown provider 'codex': omit the key, or use claude"),
        (file("name: 0x" + "f" * 8000), f"2:7: name: {HUGE}"),
        (file("name: 1" + ":1" * 4000), f"2:7: name: {HUGE}"),
        (file(f"tools: [0x{'f' * 8000}]"), f"2:9: tools[0]: {HUGE}"),
        (
            file(f"spawnable: [0x{'f' * 8000}]"),
            "2:12: spawnable: must be true or false, not something with a number with too many digits",
        ),
        (file(r'description: "\ud800"'), f"2:14: description: {SURROGATE}"),
        (file(r'name: "a\udfffb"'), f"2:7: name: {SURROGATE}"),
        (
            file(r'disallowedTools: ["Bash(\ud800)"]'),
            "2:19: disallowedTools[0]: is not a tool name, such as Read or Bash",
        ),
        (file("x: " + "[" * 40), "2:35: nested more than 32 deep"),
        (
            file("x: !!python/name:os.system x"),
            "2:4: could not determine a constructor for the tag 'tag:yaml.org,2002:python/name:os.system'",
        ),
        (b"---\nx: \xff\n---\n", "2:1: invalid UTF-8"),
        (b"---\n---\na\n\0", "4:1: NUL character"),
        (b"---\nx: \x07\n---\n", "2:4: the character U+0007 is not allowed"),
        (file("x: " + "a" * 9000), "1:1: the settings are longer than 8,192 characters"),
        (file("", "a" * DEFINITION_MAX_BYTES), "1:1: the file is larger than 64 KiB"),
    ],
)
def test_definition_error_names_line_column_and_key(content: bytes, message: str) -> None:
    assert mistake(content) == message


def test_definition_error_lists_all_mistakes() -> None:
    message = mistake(file("model: -x\nspawnable: maybe\nprovider: x"))
    assert [line.partition(":")[0] for line in message.splitlines()] == ["2", "3", "4"]


def test_definition_error_lists_only_the_first_twenty_mistakes() -> None:
    lines = mistake(file(f"tools: [{'5,' * 4000}]")).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "1:1: and 3,980 more mistakes"


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
def test_definition_parsing_takes_linear_time(read: Callable[[str], object], text: str) -> None:
    assert read(text) is not None  # quadratic time would exceed the timeout of the test


def test_quoted_description_is_unchanged_when_blanks_precede_the_quote() -> None:
    assert _DESCRIPTION.sub("", 'description:   "quoted"') == 'description:   "quoted"'


@given(st.binary(max_size=300))
def test_definition_raises_only_config_error_for_any_bytes(content: bytes) -> None:
    for candidate in (content, b"---\n" + content + b"\n---\n"):
        with suppress(ConfigError):
            read_definition(candidate, "reviewer")


@given(st.text(alphabet="-:{}[]!&*|>'\"%@`#,?<=.~ \n\tab019_eE+", max_size=80))
def test_definition_raises_only_config_error_for_any_yaml(settings: str) -> None:
    with suppress(ConfigError):
        read_definition(file(settings), "reviewer")

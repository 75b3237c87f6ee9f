"""The section `telegram:` and the rules of the token file."""

from pathlib import Path

import pytest

from sm.config import load, read_token
from sm.errors import ConfigError

TOKEN = "4242:AAtest-token_of-the-tests-0123456789abc"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    return file


def mistake(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(str(path))
    return caught.value.message.removeprefix(f"{path}:")


def test_telegram_section_has_the_documented_defaults(path: Path) -> None:
    path.write_text("telegram: {}\n")
    loaded = load(str(path))
    section = loaded.config.telegram
    assert (section.token_file, section.owner_ids, section.groups, section.topics) == (None, (), (), "roots")
    assert section.notify == ("completed", "error", "abandoned", "killed", "request", "warning", "message")
    assert (section.progress, section.pairing, section.quiet_hours, section.base_url) == (
        True,
        True,
        None,
        None,
    )
    assert loaded.warnings == ()


def test_token_file_without_owners_is_an_error(path: Path, token_file: Path) -> None:
    said = mistake(path, f"telegram: {{token_file: {token_file}}}\n")
    assert said == "1:11: telegram: token_file needs owner_ids, the ids of the users who may use the bot"
    path.write_text(f"telegram: {{token_file: {token_file}, owner_ids: [1001]}}\n")
    assert load(str(path)).config.telegram.owner_ids == (1001,)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("owner_ids: [0]", "must be at least 1, not 0"),
        ("owner_ids: [-5]", "must be at least 1, not -5"),
        (f"owner_ids: [{2**60}]", "must be at most"),
        ("owner_ids: [ann]", "must be a whole number, not 'ann'"),
        ("owner_ids: [true]", "must be a whole number, not true"),
        ("owner_ids: [1, 1]", "must not contain the same id twice"),
        ("groups: [5]", "must be at most -1, not 5"),
        ("topics: root", "did you mean `roots`?"),
        ("notify: [complete]", "did you mean `completed`?"),
        ("quiet_hours: '22:00'", "must be two different times of day"),
        ("quiet_hours: '24:00-07:00'", "must be two different times of day"),
        ("quiet_hours: '07:00-07:00'", "must be two different times of day"),
        ("token_file: token", "must be an absolute path"),
        ("base_url: 'http://example.org'", "must begin with https://"),
        ("base_url: 'http://127.0.0.1.example.org'", "must begin with https://"),
        ("base_url: 'https://u:p@example.org'", "must not contain a user"),
        ("base_url: 'https://example.org/?x'", "must not contain a user, a query"),
        ("base_url: 'ftp://localhost'", "must begin with https://"),
        ("base_url: 'https://[::1'", "must be a URL"),
        ("base_url: ''", "must be a URL"),
        ("tokn_file: /x", "unknown key (did you mean `token_file`?)"),
    ],
)
def test_telegram_section_refuses_a_wrong_value(path: Path, value: str, words: str) -> None:
    assert words in mistake(path, f"telegram: {{{value}}}\n")


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org",
        "https://example.org/api/",
        "http://127.0.0.1:8081",
        "http://[::1]:1",
        "http://localhost",
    ],
)
def test_base_url_is_https_or_on_this_machine(path: Path, url: str) -> None:
    path.write_text(f"telegram: {{base_url: '{url}'}}\n")
    assert load(str(path)).config.telegram.base_url == url.rstrip("/")


def test_token_is_read_from_a_private_file(token_file: Path) -> None:
    assert read_token(str(token_file)) == TOKEN


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o700])
def test_token_file_that_others_may_use_is_refused(path: Path, token_file: Path, mode: int) -> None:
    token_file.chmod(mode)
    said = mistake(path, f"telegram: {{token_file: {token_file}, owner_ids: [1]}}\n")
    assert said.endswith(f"telegram.token_file: {token_file} has mode {mode:04o}, and must have mode 0600")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("4242", "does not contain the token of a bot"),
        (
            f"{TOKEN}\n{TOKEN}\n",
            "does not contain the token of a bot, such as 123456:ABC-DEF, on a single line",
        ),
        (f"{TOKEN[:20]}\n{TOKEN[20:]}", "does not contain the token of a bot"),
        (f"{TOKEN}ä", "does not contain the token of a bot"),
    ],
)
def test_token_file_without_a_token_is_refused_and_not_quoted(
    token_file: Path, content: str, words: str
) -> None:
    token_file.write_text(content)
    with pytest.raises(ConfigError) as caught:
        read_token(str(token_file))
    assert words in caught.value.message
    assert TOKEN[:20] not in caught.value.message


def test_token_file_that_is_a_directory_or_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a regular file"):
        read_token(str(tmp_path))
    with pytest.raises(ConfigError, match="no such file"):
        read_token(str(tmp_path / "none"))


def test_token_file_of_another_user_is_refused(token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 4711)
    with pytest.raises(ConfigError, match="belongs to user id"):
        read_token(str(token_file))

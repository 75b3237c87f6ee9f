"""Accounts and their digests."""

import pytest

from sm.capabilities.accounts.model import Park, ParkKind, account_of

KEY = b"k" * 32
SECRET = "sk-ant-oat01-a-secret"


def test_account_is_the_same_for_the_same_login_and_key() -> None:
    account = account_of("claude", "/home/me/.claude", SECRET, KEY)
    assert account == account_of("claude", "/home/me/.claude", SECRET, KEY)
    assert account.name == f"claude-{account.digest[:8]}"


@pytest.mark.parametrize(
    ("provider", "directory", "login", "key"),
    [
        ("codex", "/home/me/.claude", SECRET, KEY),
        ("claude", "/home/me/.other", SECRET, KEY),
        ("claude", "/home/me/.claude", "sk-ant-oat01-another", KEY),
        ("claude", "/home/me/.claude", SECRET, b"another key"),
        ("claude", '/home/me/.claude", "sk-ant', SECRET, KEY),
    ],
)
def test_account_differs_with_each_part_and_with_the_key(
    provider: str, directory: str, login: str, key: bytes
) -> None:
    account = account_of("claude", "/home/me/.claude", SECRET, KEY)
    other = account_of(provider, directory, login, key)
    assert other.digest != account.digest


def test_account_holds_no_secret() -> None:
    assert SECRET not in repr(account_of("claude", "/home/me/.claude", SECRET, KEY))
    assert account_of("claude", "/x", "\ud800", KEY).digest


@pytest.mark.parametrize(
    ("bound", "model", "binds"),
    [
        ("", None, True),
        ("", "claude-opus-4-8", True),
        ("opus", "claude-opus-4-8[1m]", True),
        ("opus", "Opus", True),
        ("opus", "claude-sonnet-5", False),
        ("opus", None, False),
    ],
)
def test_park_binds_its_model_or_all(bound: str, model: str | None, binds: bool) -> None:
    assert Park(ParkKind.QUOTA, "a limit", 0.0, model=bound).binds(model) is binds

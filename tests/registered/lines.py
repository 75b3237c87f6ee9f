"""Adds the made-up packages to the registries."""

import pytest

from sm import registry


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add all to the registries."""
    monkeypatch.setitem(registry.PROVIDERS, "linked", "tests.registered.linked")
    monkeypatch.setitem(registry.PROVIDERS, "toy", "tests.registered.toy")
    monkeypatch.setitem(registry.ENGINES, "toybox", "tests.registered.toybox")

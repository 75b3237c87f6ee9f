"""Every reason for which a session cannot have a sandbox, and whether it may lead to the fallback."""

import importlib
import pkgutil

import pytest

import sm
from sm.core.sightings import Sighting
from sm.errors import EngineMissing, ImageMissing, SandboxBusy, SandboxUnavailable
from sm.policy.fallback import may_fall_back
from tests.error_list import classes, sites

NEVER_MET: frozenset[Sighting] = frozenset()
ALLOWED = {EngineMissing: Sighting.ENGINE, ImageMissing: Sighting.IMAGE}
KINDS = [error for error in classes().values() if issubclass(error, SandboxUnavailable)]


def made(kind: type[SandboxUnavailable]) -> SandboxUnavailable:
    return kind("because")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_only_two_kinds_of_error_fall_back_and_only_for_what_was_never_met(
    kind: type[SandboxUnavailable],
) -> None:
    """A new class of error gets a case by itself, and that case says: never."""
    assert may_fall_back(made(kind), NEVER_MET) is (kind in ALLOWED)
    assert not may_fall_back(made(kind), frozenset(Sighting))
    if kind in ALLOWED:
        others = frozenset(Sighting) - {ALLOWED[kind]}
        assert may_fall_back(made(kind), others)
        assert not may_fall_back(made(kind), {ALLOWED[kind]})


def test_every_reason_in_the_code_is_refused_unless_there_never_was_a_sandbox() -> None:
    """The reasons are those of the places in the code that make such an error."""
    reasons = {(kind, message) for kind, message, _ in sites() if kind in KINDS}
    may = {message for kind, message in reasons if may_fall_back(kind(message), NEVER_MET)}
    assert may == {
        message
        for _, message in reasons
        if message.startswith(("no Docker engine runs:", "the engine has no image"))
    }
    assert len(may) < len(reasons)


def test_error_derived_from_a_permitted_one_is_refused() -> None:
    class Other(EngineMissing): ...

    assert not may_fall_back(Other("because"), NEVER_MET)


def test_a_full_container_is_another_kind_of_error() -> None:
    """Its exit code is that of a limit, and the command waits for room: no fallback looks at it."""
    assert not issubclass(SandboxBusy, SandboxUnavailable)


def test_all_modules_are_read() -> None:
    names = [module.name for module in pkgutil.walk_packages(sm.__path__, "sm.")]
    assert "sm.sandboxes.docker.crashes" in names
    assert importlib.import_module("sm.sandboxes.docker.maker").ContainerEnded in KINDS

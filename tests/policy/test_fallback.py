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
REASONS = sorted({(kind.__name__, message) for kind, message, _ in sites() if kind in KINDS})


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


@pytest.mark.parametrize(("kind", "message"), REASONS)
def test_every_reason_in_the_code_is_refused_unless_there_never_was_a_sandbox(
    kind: str, message: str
) -> None:
    """The cases are the places in the code that make such an error."""
    falls_back = may_fall_back(classes()[kind](message), NEVER_MET)  # type: ignore[arg-type]
    assert falls_back is (message.startswith(("no Docker engine runs:", "the engine has no image")))


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

import pytest

from sm import errors

EXIT_CODES = {
    "InternalError": 1, "UsageError": 2, "NotFound": 3, "IllegalState": 4, "NotPermitted": 5, "LimitReached": 6,
    "DaemonUnavailable": 7, "ProtocolMismatch": 8, "ExternalError": 9, "WaitTimeout": 10,
}  # fmt: skip


@pytest.mark.parametrize("error", errors.BY_CODE.values())
def test_error_has_the_exit_code_of_its_family(error: type[errors.SmError]) -> None:
    families = [EXIT_CODES[c.__name__] for c in error.__mro__ if c.__name__ in EXIT_CODES]
    assert families == ([error.exit_code] if error is not errors.SmError else [])


def test_docstring_tree_lists_every_error() -> None:
    assert errors.__doc__ is not None
    drawn = errors.__doc__.split()
    assert {e.__name__ for e in errors.BY_CODE.values()} <= set(drawn)


def test_error_codes_are_unique_and_restore_the_same_error_class() -> None:
    def below(error: type[errors.SmError]) -> list[type[errors.SmError]]:
        children = [child for child in error.__subclasses__() if child.__module__ == errors.__name__]
        return [error, *(e for child in children for e in below(child))]

    assert len(below(errors.SmError)) == len(errors.BY_CODE)
    for code, kind in errors.BY_CODE.items():
        restored = errors.from_wire(code, "what", "hint")
        assert type(restored) is kind
        assert (restored.message, restored.hint) == ("what", "hint")


def test_from_wire_keeps_the_message_when_the_code_is_unknown() -> None:
    assert errors.from_wire("brand_new", "what", None).message == "what"

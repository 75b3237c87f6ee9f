"""The generated references of commands and configuration are complete and current."""

from tests import command_reference, config_reference


def test_command_reference_is_up_to_date() -> None:
    written = command_reference.DOCUMENT.read_text(encoding="utf-8")
    assert written == command_reference.document(), "run: python -m tests.command_reference"


def test_configuration_reference_is_up_to_date() -> None:
    written = config_reference.DOCUMENT.read_text(encoding="utf-8")
    assert written == config_reference.document(), "run: python -m tests.config_reference"

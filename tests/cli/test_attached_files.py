"""Errors of uploads for `--file`, as the command prints them."""

from pathlib import Path

import pytest

from tests.cli.conftest import Sm
from tests.cli.peer import Peer, error


@pytest.mark.parametrize(
    ("code", "message", "printed"),
    [
        ("usage", "the file a.txt is empty", "--file {path}: the file a.txt is empty"),
        ("config", "config.yaml: 3:1 unknown key a", "config.yaml: 3:1 unknown key a"),
    ],
)
def test_error_of_an_upload_names_the_file_unless_it_is_of_the_configuration(
    run: Sm, peer: Peer, home: Path, code: str, message: str, printed: str
) -> None:
    path = home / "a.txt"
    path.write_text("text")
    peer.script("POST /v1/files", error(code, message))
    done = run("send", "abcd1234", "look", "--file", str(path), code=2)
    assert done.err.splitlines()[0] == f"sm: {printed.format(path=path)}"

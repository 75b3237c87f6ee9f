import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm import wire
from tests.cli.conftest import SOURCES

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_encode_writes_ascii_json_on_one_line(value: object) -> None:
    text = wire.encode(value)
    assert json.loads(text) == value
    assert text.isascii()
    assert "\n" not in text


@given(VALUES, st.sampled_from(["", " ", "\n", "\t\r\n"]))
def test_decode_reads_json_of_other_encoders(value: object, space: str) -> None:
    assert wire.decode(space + json.dumps(value, ensure_ascii=False) + space) == value


@pytest.mark.parametrize("text", ["", " ", "{", "[1,]", "1 2", "nul", '{"a" 1}', '"\x01"', '"\\u12"', "{}}"])
def test_decode_raises_value_error_when_the_text_is_not_json(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expecting|Invalid|Illegal"):
        wire.decode(text)


def test_wire_uses_the_c_scanner_of_the_json_module() -> None:
    assert type(wire._scan).__module__ == "_json", sys.version


@pytest.mark.processes
def test_correct_document_needs_no_import_of_json() -> None:
    code = """
import sys
from sm.wire import decode, encode
assert decode(encode({"a": [1, 2.5, None, True, "b"]})) == {"a": [1, 2.5, None, True, "b"]}
assert "json" not in sys.modules
for text in ("{", "[1,]", '{"a" 1}', '"\\\\u12"', "nul"):
    try:
        decode(text)
    except ValueError:
        continue
    sys.exit(text)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": SOURCES}, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")

"""The links that `sm web` prints: for this machine, and for other devices."""

from pathlib import Path

import pytest

from sm.cli.commands.web import _link_printer
from sm.web.address import WebAddress
from sm.web.login_store import LoginStore


def printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, address: WebAddress, *, phone: bool, qr: bool
) -> tuple[str, str]:
    _link_printer(None, None, phone=phone, qr=qr)(address, LoginStore(str(tmp_path)))
    out, err = capsys.readouterr()
    return out, err


@pytest.mark.parametrize(("phone", "qr"), [(True, False), (False, True)])
@pytest.mark.parametrize(
    "address",
    [
        WebAddress(1, 7433, ()),
        WebAddress(1, 7433, (), bind="::1"),
        WebAddress(1, 7433, (), bind="0.0.0.0", is_secure=True),
    ],
)
def test_no_qr_code_is_printed_for_a_link_that_only_this_machine_can_open(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, address: WebAddress, phone: bool, qr: bool
) -> None:
    out, err = printed(capsys, tmp_path, address, phone=phone, qr=qr)
    assert out.count("\n") == 1
    assert address.origin in out
    assert "no QR code: only this machine can open the link" in err
    assert "web.hosts" in err


@pytest.mark.parametrize(("phone", "qr"), [(True, False), (False, True)])
@pytest.mark.parametrize(
    "address",
    [
        WebAddress(1, 7433, ("sm.example.net",)),
        WebAddress(1, 7433, (), bind="192.168.1.5", is_secure=True),
    ],
)
def test_qr_code_is_printed_for_a_link_that_a_phone_can_open(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, address: WebAddress, phone: bool, qr: bool
) -> None:
    out, err = printed(capsys, tmp_path, address, phone=phone, qr=qr)
    assert out.count("\n") > 10
    assert "no QR code" not in err


def test_qr_code_leads_to_the_name_of_the_tunnel() -> None:
    assert WebAddress(1, 7433, ("sm.example.net",)).link_for_others("c") == "https://sm.example.net/#c"
    assert WebAddress(1, 7433, (), bind="192.168.1.5", is_secure=True).link_for_others("c") == (
        "https://192.168.1.5:7433/#c"
    )

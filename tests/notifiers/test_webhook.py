"""The webhook as its receiver sees it: signed, once, followed nowhere; and what is worth repeating."""

import asyncio
import hashlib
import hmac
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sm.config import Webhook
from sm.notifiers.base import NotifyFailed
from sm.notifiers.webhook import WebhookNotifier
from tests.load import scaled
from tests.notifiers.receiver import Receiver

BODY = {
    "type": "completed",
    "text": 'child said "grüß dich"',
    "occasion": "1a2b3c4d/ending:1",
    "exit_code": 0,
}
SECRET = "a key of the operator's"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    path.chmod(0o600)
    return path


async def tell(
    url: str, secret_file: Path | None = None, *, within_s: float | None = None, **more: Any
) -> None:
    webhook = Webhook(url=url, secret_file=None if secret_file is None else str(secret_file))
    await WebhookNotifier([webhook], scaled() if within_s is None else within_s, **more).tell(url, BODY)


async def refusal(
    url: str, secret_file: Path | None = None, *, within_s: float | None = None
) -> NotifyFailed:
    with pytest.raises(NotifyFailed) as caught:
        await tell(url, secret_file, within_s=within_s)
    return caught.value


def signed(secret: str, at: str, body: bytes) -> str:
    """The receiver's side of the signature, as docs/protocol.md has it."""
    return hmac.new(secret.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()


async def test_the_signature_verifies_over_the_time_and_the_bytes_that_came(
    receiver: Receiver, secret_file: Path
) -> None:
    before = int(time.time())
    await tell(receiver.url("/a/b?c=d"), secret_file)
    (got,) = receiver.got
    at, _, version = got.headers["SM-Signature"].partition(",")
    assert before <= int(at.removeprefix("t=")) <= int(time.time())
    assert version == f"v1={signed(SECRET, at.removeprefix('t='), got.body)}"
    assert (got.path, got.json) == ("/a/b?c=d", BODY)
    assert got.headers["Content-Type"] == "application/json"
    assert got.delivery == BODY["occasion"]


async def test_the_signature_covers_the_time_and_the_key(receiver: Receiver, tmp_path: Path) -> None:
    seen = set()
    for key, at_s in (("one", 100.9), ("one", 101.0), ("two", 101.0)):
        (tmp_path / key).write_text(key)
        (tmp_path / key).chmod(0o600)
        await tell(receiver.url(), tmp_path / key, wall=lambda at_s=at_s: at_s)
        got = receiver.got[-1]
        assert got.headers["SM-Signature"] == f"t={int(at_s)},v1={signed(key, str(int(at_s)), got.body)}"
        seen.add(got.headers["SM-Signature"])
    assert len(seen) == 3


async def test_without_a_key_there_is_no_signature(receiver: Receiver) -> None:
    await tell(receiver.url())
    assert "SM-Signature" not in receiver.got[0].headers


async def test_a_changed_key_signs_the_next_notice(receiver: Receiver, secret_file: Path) -> None:
    url = receiver.url()
    notifier = WebhookNotifier([Webhook(url=url, secret_file=str(secret_file))], wall=lambda: 7.0)
    await notifier.tell(url, BODY)
    secret_file.write_text("another")
    await notifier.tell(url, BODY)
    assert receiver.got[1].headers["SM-Signature"] == f"t=7,v1={signed('another', '7', receiver.got[1].body)}"


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_any_answer_of_200_to_299_means_told(receiver: Receiver, status: int) -> None:
    receiver.answer = status
    await tell(receiver.url())
    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    ("status", "again"),
    [(s, False) for s in (300, 400, 401, 403, 404, 405, 410, 413, 422)]
    + [(s, True) for s in (408, 425, 429, 500, 502, 503, 504)],
)
async def test_a_refusal_is_final_unless_it_is_about_the_moment(
    receiver: Receiver, status: int, again: bool
) -> None:
    receiver.answer = status
    error = await refusal(receiver.url())
    assert (error.again, error.message) == (again, f"the webhook answered {status}")
    assert len(receiver.got) == 1  # repeating is the outbox's business


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(receiver: Receiver, status: int) -> None:
    receiver.answer, receiver.location = status, receiver.url("/elsewhere")
    error = await refusal(receiver.url())
    assert not error.again
    assert [got.path for got in receiver.got] == ["/hook"]


async def test_a_receiver_that_does_not_answer_is_told_again(receiver: Receiver) -> None:
    receiver.hang()
    within_s = scaled(0.3)
    error = await refusal(receiver.url(), within_s=within_s)
    assert error.again
    assert f"did not answer within {within_s:g} s" in error.message
    assert len(receiver.got) == 1


async def test_an_answer_whose_body_never_comes_is_an_answer(receiver: Receiver) -> None:
    receiver.drips = True
    await tell(receiver.url())
    assert len(receiver.got) == 1


async def test_a_port_on_which_nobody_listens_is_told_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    error = await refusal(f"http://127.0.0.1:{port}/hook")
    assert error.again
    assert "cannot be reached" in error.message


@pytest.mark.parametrize("answer", [b"", b"this is no HTTP\r\n\r\n", b"HTTP/1.1 2"])
async def test_a_receiver_that_speaks_no_HTTP_is_told_again(answer: bytes) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert (await refusal(f"http://127.0.0.1:{port}/hook")).again


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o644, 0o660, 0o602])
async def test_a_key_that_others_can_reach_signs_nothing(
    receiver: Receiver, secret_file: Path, mode: int
) -> None:
    secret_file.chmod(mode)
    error = await refusal(receiver.url(), secret_file)
    assert error.again  # it is mended with a chmod
    assert "chmod 600" in error.message
    assert receiver.got == []


@pytest.mark.parametrize("defect", ["missing", "empty", "blank", "a directory", "a pipe", "a loop"])
async def test_a_key_that_cannot_be_had_sends_nothing_unsigned(
    receiver: Receiver, tmp_path: Path, defect: str
) -> None:
    path = tmp_path / "key"
    match defect:
        case "empty" | "blank":
            path.touch(0o600)
            path.write_text("" if defect == "empty" else " \n")
        case "a directory":
            path.mkdir(0o700)
        case "a pipe":
            os.mkfifo(path, 0o600)
        case "a loop":
            path.symlink_to(path)
        case _:
            pass
    error = await refusal(receiver.url(), path)
    assert error.again
    assert "secret_file" in error.message
    assert receiver.got == []


async def test_a_webhook_that_is_configured_no_more_is_given_up(receiver: Receiver) -> None:
    notifier = WebhookNotifier([Webhook(url=receiver.url("/new"))])
    with pytest.raises(NotifyFailed) as caught:
        await notifier.tell(receiver.url("/old"), BODY)
    assert not caught.value.again
    assert receiver.got == []


async def test_a_notice_that_is_called_off_leaves_no_connection(receiver: Receiver) -> None:
    receiver.hang()
    telling = asyncio.create_task(tell(receiver.url()))
    async with asyncio.timeout(scaled()):
        while not receiver.got:  # noqa: ASYNC110 - the receiver has no loop
            await asyncio.sleep(0.01)
    telling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await telling

"""Webhooks as their receiver sees them: signature, redirects, and which failures are retried."""

import asyncio
import hashlib
import hmac
import os
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sm.config import Webhook
from sm.notifiers.base import NotifyFailed
from sm.notifiers.webhook import WebhookNotifier
from tests.notifiers.receiver import Receiver
from tests.tls import tls_file
from tests.waits import NEVER_S

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


async def send(
    url: str, secret_file: Path | None = None, *, within_s: float | None = None, **more: Any
) -> None:
    webhook = Webhook(url=url, secret_file=None if secret_file is None else str(secret_file))
    await WebhookNotifier([webhook], NEVER_S if within_s is None else within_s, **more).send(url, BODY)


async def send_failure(
    url: str, secret_file: Path | None = None, *, within_s: float | None = None
) -> NotifyFailed:
    with pytest.raises(NotifyFailed) as caught:
        await send(url, secret_file, within_s=within_s)
    return caught.value


def signature(secret: str, at: str, body: bytes) -> str:
    """The signature as the receiver computes it by docs/protocol.md."""
    return hmac.new(secret.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()


async def test_webhook_signature_covers_the_received_bytes(receiver: Receiver, secret_file: Path) -> None:
    before = int(time.time())
    await send(receiver.url("/a/b?c=d"), secret_file)
    (request,) = receiver.got
    at, _, version = request.headers["SM-Signature"].partition(",")
    assert before <= int(at.removeprefix("t=")) <= int(time.time())
    assert version == f"v1={signature(SECRET, at.removeprefix('t='), request.body)}"
    assert (request.path, request.json) == ("/a/b?c=d", BODY)
    assert request.headers["Content-Type"] == "application/json"
    assert request.delivery == BODY["occasion"]


async def test_webhook_signature_depends_on_the_time_and_the_key(receiver: Receiver, tmp_path: Path) -> None:
    signatures = set()
    for key, at_s in (("one", 100.9), ("one", 101.0), ("two", 101.0)):
        (tmp_path / key).write_text(key)
        (tmp_path / key).chmod(0o600)
        await send(receiver.url(), tmp_path / key, wall=lambda at_s=at_s: at_s)
        request = receiver.got[-1]
        assert (
            request.headers["SM-Signature"]
            == f"t={int(at_s)},v1={signature(key, str(int(at_s)), request.body)}"
        )
        signatures.add(request.headers["SM-Signature"])
    assert len(signatures) == 3


async def test_webhook_sends_no_signature_when_no_key_is_configured(receiver: Receiver) -> None:
    await send(receiver.url())
    assert "SM-Signature" not in receiver.got[0].headers


async def test_webhook_signs_with_a_changed_key(receiver: Receiver, secret_file: Path) -> None:
    url = receiver.url()
    notifier = WebhookNotifier([Webhook(url=url, secret_file=str(secret_file))], wall=lambda: 7.0)
    await notifier.send(url, BODY)
    secret_file.write_text("another")
    await notifier.send(url, BODY)
    assert (
        receiver.got[1].headers["SM-Signature"] == f"t=7,v1={signature('another', '7', receiver.got[1].body)}"
    )


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_webhook_succeeds_when_the_status_is_200_to_299(receiver: Receiver, status: int) -> None:
    receiver.answer = status
    await send(receiver.url())
    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    ("status", "again"),
    [(s, False) for s in (300, 400, 401, 403, 404, 405, 410, 413, 422)]
    + [(s, True) for s in (408, 425, 429, 500, 502, 503, 504)],
)
async def test_webhook_failure_is_retried_only_when_the_status_is_temporary(
    receiver: Receiver, status: int, again: bool
) -> None:
    receiver.answer = status
    error = await send_failure(receiver.url())
    assert (error.retryable, error.message) == (again, f"the webhook answered {status}")
    assert len(receiver.got) == 1  # the outbox is responsible for retries


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_webhook_follows_no_redirect(receiver: Receiver, status: int) -> None:
    receiver.answer, receiver.location = status, receiver.url("/elsewhere")
    error = await send_failure(receiver.url())
    assert not error.retryable
    assert [request.path for request in receiver.got] == ["/hook"]


async def test_webhook_is_retried_when_the_receiver_does_not_answer(receiver: Receiver) -> None:
    receiver.hang()
    within_s = 2.0
    error = await send_failure(receiver.url(), within_s=within_s)
    assert error.retryable
    assert f"did not respond within {within_s:g} s" in error.message
    assert len(receiver.got) == 1


async def test_webhook_succeeds_when_the_response_body_never_arrives(receiver: Receiver) -> None:
    receiver.drips = True
    await send(receiver.url())
    assert len(receiver.got) == 1


async def test_webhook_is_retried_when_the_port_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    error = await send_failure(f"http://127.0.0.1:{port}/hook")
    assert error.retryable
    assert "cannot be reached" in error.message


@pytest.mark.parametrize("answer", [b"", b"this is no HTTP\r\n\r\n", b"HTTP/1.1 2"])
async def test_webhook_is_retried_when_the_receiver_does_not_speak_HTTP(answer: bytes) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert (await send_failure(f"http://127.0.0.1:{port}/hook")).retryable


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o644, 0o660, 0o602])
async def test_webhook_sends_nothing_when_other_users_can_access_the_key_file(
    receiver: Receiver, secret_file: Path, mode: int
) -> None:
    secret_file.chmod(mode)
    error = await send_failure(receiver.url(), secret_file)
    assert error.retryable  # a chmod solves the problem
    assert "must be 0600" in error.message
    assert receiver.got == []


@pytest.mark.parametrize("defect", ["missing", "empty", "blank", "a directory", "a pipe", "a loop"])
async def test_webhook_sends_nothing_when_the_key_file_cannot_be_read(
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
    before = os.listdir("/proc/self/fd")
    error = await send_failure(receiver.url(), path)
    assert os.listdir("/proc/self/fd") == before
    assert error.retryable
    assert "secret_file" in error.message
    assert receiver.got == []


async def test_webhook_fails_without_retry_when_its_url_is_no_longer_configured(receiver: Receiver) -> None:
    notifier = WebhookNotifier([Webhook(url=receiver.url("/new"))])
    with pytest.raises(NotifyFailed) as caught:
        await notifier.send(receiver.url("/old"), BODY)
    assert not caught.value.retryable
    assert receiver.got == []


async def test_webhook_closes_its_connection_when_cancelled(receiver: Receiver) -> None:
    receiver.hang()
    notification = asyncio.create_task(send(receiver.url()))
    while not receiver.got:  # noqa: ASYNC110 - the receiver has no loop
        await asyncio.sleep(0.01)
    notification.cancel()
    with pytest.raises(asyncio.CancelledError):
        await notification


async def test_webhook_reads_the_certificates_of_the_system_for_its_first_post(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = tls_file(tmp_path, "cert.pem")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, tls_file(tmp_path, "key.pem"))
    with Receiver(tls=tls) as receiver:
        failure = await send_failure(receiver.url())
        assert str(failure) == "the webhook cannot be reached: ClientConnectorCertificateError"
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))  # as the system would name it
        await send(receiver.url())
    assert len(receiver.got) == 1

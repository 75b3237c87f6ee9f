"""Posts each notice to `notify.webhooks`, signed, until it is accepted or a day has passed (docs/protocol.md)."""

import asyncio
import hashlib
import hmac
import ssl
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import aiohttp
import orjson

from sm.config import Webhook
from sm.linux.files import read_file
from sm.notifiers.base import NotifyFailed

_WITHIN_S = 10.0
_SECRET_MAX_BYTES = 4096
_WORTH_REPEATING = frozenset({408, 425, 429})


def signature(secret: bytes, at_s: int, body: bytes) -> str:
    """`t=UNIX_SECONDS,v1=HEX`: HMAC-SHA256 (RFC 2104) of `UNIX_SECONDS.BODY`."""
    digest = hmac.new(secret, b"%d." % at_s + body, hashlib.sha256).hexdigest()
    return f"t={at_s},v1={digest}"


class WebhookNotifier:
    """Sends a POST. Ignores redirects and response bodies, so that a receiver can only accept or refuse."""

    once = False

    def __init__(
        self,
        webhooks: Sequence[Webhook],
        within_s: float = _WITHIN_S,
        wall: Callable[[], float] | None = None,
    ) -> None:
        self._webhooks = {webhook.url: webhook for webhook in webhooks}
        self._within_s = within_s
        self._wall = wall or time.time
        self._trust: ssl.SSLContext | None = None

    async def send(self, target: str | None, body: Mapping[str, Any]) -> None:
        webhook = self._webhooks.get(target or "")
        if webhook is None:
            raise NotifyFailed("this webhook is no longer configured", retryable=False)
        text = orjson.dumps(body)
        headers = {"Content-Type": "application/json", "SM-Delivery": str(body.get("occasion", ""))}
        if webhook.secret_file is not None:
            secret = await asyncio.to_thread(_secret, webhook.secret_file)
            headers["SM-Signature"] = signature(secret, int(self._wall()), text)
        if self._trust is None:  # read now: the daemon starts without certificates (`sm.daemon.__main__`)
            self._trust = await asyncio.to_thread(ssl.create_default_context)
        connector = aiohttp.TCPConnector(ssl=self._trust)
        try:
            async with (
                asyncio.timeout(self._within_s),
                aiohttp.ClientSession(connector=connector, trust_env=True) as client,
                client.post(webhook.url, data=text, headers=headers, allow_redirects=False) as answer,
            ):
                status = answer.status
        except TimeoutError:
            raise NotifyFailed(
                f"the webhook did not respond within {self._within_s:g} s", retryable=True
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise NotifyFailed(
                f"the webhook cannot be reached: {type(error).__name__}", retryable=True
            ) from None
        if not 200 <= status < 300:
            again = status >= 500 or status in _WORTH_REPEATING
            raise NotifyFailed(f"the webhook answered {status}", retryable=again)


def _secret(path: str) -> bytes:
    """Read the key from a file that only its owner can read. Raises NotifyFailed."""
    try:
        found = read_file(path, _SECRET_MAX_BYTES, follow=True)
    except OSError as error:
        raise NotifyFailed(
            f"the webhook's secret_file cannot be read: {error.strerror}", retryable=True
        ) from None
    if stat.S_IMODE(found.status.st_mode) & 0o077:
        raise NotifyFailed(
            "other users can read the webhook's secret_file, its mode must be 0600", retryable=True
        )
    secret = found.data.strip()
    if not secret:
        raise NotifyFailed("the webhook's secret_file is empty", retryable=True)
    return secret

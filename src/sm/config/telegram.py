"""The section `telegram:` of config.yaml, and the file with the token of the bot."""

import ipaddress
import os
import re
import stat
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from sm.config.fields import TIME_OF_DAY, AbsolutePath
from sm.errors import ConfigError
from sm.linux.files import NotRegular, read_file
from sm.section import Section

_ID_MAX = 2**52 - 1
"""Ids of users and chats have at most 52 significant bits."""
_BOT = r"[0-9]{1,20}:[A-Za-z0-9_-]{20,200}"
_TOKEN_FILE_MAX_BYTES = 4096


def _api_url(value: str) -> str:
    try:
        url = urlsplit(value)
        host, _ = url.hostname, url.port
    except ValueError:
        host = None
    if not host or not re.fullmatch(r"[!-~]+", value):
        raise ValueError("must be a URL that begins with https://")
    if url.username is not None or url.query or url.fragment or "?" in value or "#" in value:
        raise ValueError("must not contain a user, a query or a fragment")
    if url.scheme == "https" or (url.scheme == "http" and _is_loopback(host)):
        return value.rstrip("/")
    raise ValueError("must begin with https://, because the URL of each call contains the token")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _quiet_hours(value: str) -> str:
    begin, dash, end = value.partition("-")
    if not dash or not re.fullmatch(TIME_OF_DAY, begin) or not re.fullmatch(TIME_OF_DAY, end) or begin == end:
        raise ValueError('must be two different times of day, such as "22:00-07:00"')
    return value


def _distinct(value: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(value)) < len(value):
        raise ValueError("must not contain the same id twice")
    return value


UserId = Annotated[int, Field(ge=1, le=_ID_MAX)]
GroupId = Annotated[int, Field(ge=-_ID_MAX, le=-1)]
ApiUrl = Annotated[str, AfterValidator(_api_url)]
QuietHours = Annotated[str, AfterValidator(_quiet_hours)]


class TelegramSection(Section):
    """A bot of Telegram that owners use from a phone."""

    token_file: AbsolutePath | None = None
    """Absolute path of a file with the token of the bot, which only you can read (0600), or null for no bot."""
    owner_ids: Annotated[tuple[UserId, ...], Field(max_length=20), AfterValidator(_distinct)] = ()
    """Ids of the users who see and control every session from a chat, within the limits of docs/telegram.md.
    token_file needs at least one."""
    groups: Annotated[tuple[GroupId, ...], Field(max_length=20), AfterValidator(_distinct)] = ()
    """Ids of the groups in which the bot answers owners and paired users. Ids of groups are negative. If somebody adds
    the bot to another group, the bot leaves it. If the first group is a forum, it shows the sessions in topics, to
    everybody in the group."""
    topics: Literal["roots", "all", "none"] = "roots"
    """Which sessions get a topic in the first of groups, if it is a forum. roots: each session without a parent, with
    its descendants in the same topic. all: every session. none: the group shows no sessions."""
    notify: tuple[
        Literal[
            "completed", "error", "abandoned", "killed", "request", "warning", "message", "idle", "checkpoint"
        ],
        ...,
    ] = ("completed", "error", "abandoned", "killed", "request", "warning", "message")
    """Types of the events that the bot reports, in the private chats of owners and of paired users who may see the
    session. message: an agent has sent a message to the operator."""
    progress: bool = True
    """Show the progress of a working session in one message that the bot edits, at most every 5 s in a private chat and
    every 20 s in a group. At the end the message is the summary."""
    pairing: bool = True
    """Let other users ask for access with /start. You decide with `sm pair`, or an owner with a button."""
    quiet_hours: QuietHours | None = None
    """Hours of the local time in which only reports of requests and errors make a sound. Example: "22:00-07:00" """
    base_url: ApiUrl | None = None
    """Root of another Bot API server: https://, or http:// on this machine, or null for https://api.telegram.org"""

    @model_validator(mode="after")
    def _owned(self) -> Self:
        if self.token_file is not None and not self.owner_ids:
            raise ValueError("token_file needs owner_ids, the ids of the users who may use the bot")
        return self


def read_token(path: str) -> str:
    """The token of the bot in a private file. Raises ConfigError, which never contains the token."""
    try:
        content = read_file(path, _TOKEN_FILE_MAX_BYTES, follow=True)
    except NotRegular:
        raise ConfigError(f"{path} is not a regular file") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    status = content.status
    if status.st_uid != os.geteuid():
        raise ConfigError(
            f"{path} belongs to user id {status.st_uid}, not to you", f"chown it to yourself: {path}"
        )
    if stat.S_IMODE(status.st_mode) & 0o177:
        mode = stat.S_IMODE(status.st_mode)
        raise ConfigError(f"{path} has mode {mode:04o}, and must have mode 0600", f"chmod 600 {path}")
    token = content.data.decode("ascii", errors="replace").strip()
    if not token:
        raise ConfigError(f"{path} is empty")
    if not re.fullmatch(_BOT, token):
        raise ConfigError(
            f"{path} does not contain the token of a bot, such as 123456:ABC-DEF, on a single line"
        )
    return token

"""The frames that a browser sends. Each one is validated before anything looks at it."""

from dataclasses import fields
from typing import Annotated, Any, Literal, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sm.board import ActionInput, Sort

FRAME_MAX_BYTES = 64 * 1024
_IDS_MAX = 2000
Frame = TypeVar("Frame")

SessionId = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9-]+$")]


class InvalidFrame(ValueError):
    """The frame has no form that the protocol knows."""


class _Frame(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class AuthFrame(_Frame):
    t: Literal["auth"]
    token: Annotated[str, Field(max_length=200)]
    revision: Annotated[str | None, Field(max_length=200)] = None


class ViewFrame(_Frame):
    t: Literal["view"]
    workspace: Annotated[str, Field(max_length=100)] = ""
    """The slug of the chosen workspace, or empty for all sessions."""
    sort: Annotated[Sort, Field(strict=False)] = Sort.TREE
    filter: Annotated[str, Field(max_length=2000)] = ""
    archived: bool = False
    folded: Annotated[list[SessionId], Field(max_length=_IDS_MAX)] = []


class RestFrame(_Frame):
    t: Literal["rests"]
    rests: bool


class LookFrame(_Frame):
    """`hidden`: nobody sees the tab."""

    t: Literal["look"]
    hidden: bool


class OpenFrame(_Frame):
    t: Literal["open", "close"]
    channel: Literal["screen", "tail"]
    session: SessionId


class SelectFrame(_Frame):
    t: Literal["select"]
    session: SessionId | None


class PingFrame(_Frame):
    """Asks for a `pong`: a browser is not told when its network is gone."""

    t: Literal["ping"]


class _SizeFrame(_Frame):
    columns: Annotated[int, Field(ge=20, le=500)]
    rows: Annotated[int, Field(ge=5, le=200)]


class AttachFrame(_SizeFrame):
    """The second frame of a terminal's socket. Its typed input comes in binary frames."""

    t: Literal["attach"]
    session: SessionId


class ResizeFrame(_SizeFrame):
    t: Literal["resize"]


class ShownFrame(_Frame):
    """The terminal has drawn this many bytes more."""

    t: Literal["shown"]
    bytes: Annotated[int, Field(ge=0, le=2**31)]


class ActFrame(_Frame):
    """The other fields are those of `ActionInput`."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")

    t: Literal["act"]
    n: Annotated[int, Field(ge=0, le=2**53)]
    action: Annotated[str, Field(max_length=60)]
    session: SessionId | None = None
    workspace: Annotated[str | None, Field(max_length=100)] = None
    """The slug of the chosen workspace, for an action that needs no session."""
    need: Annotated[str | None, Field(max_length=100)] = None
    shown: Annotated[str | None, Field(max_length=200)] = None
    changes: Annotated[str, Field(max_length=200)] = ""
    """The name of the list of changes that the `drafts` are about, or empty if the tab has not got it."""


TerminalFrame = ResizeFrame | ShownFrame
ClientFrame = ViewFrame | RestFrame | LookFrame | OpenFrame | SelectFrame | PingFrame | ActFrame

_AUTH = TypeAdapter(AuthFrame)
_FRAMES: TypeAdapter[ClientFrame] = TypeAdapter(Annotated[ClientFrame, Field(discriminator="t")])
_ATTACH = TypeAdapter(AttachFrame)
_TERMINAL_FRAMES: TypeAdapter[TerminalFrame] = TypeAdapter(Annotated[TerminalFrame, Field(discriminator="t")])
_INPUT = TypeAdapter(ActionInput)
_INPUT_NAMES = frozenset(field.name for field in fields(ActionInput)) - {"reviewed"}
"""A browser names no objects of git."""


def auth_frame(text: str) -> AuthFrame:
    """Raises InvalidFrame."""
    try:
        return _AUTH.validate_json(text)
    except ValidationError:
        raise InvalidFrame("the first frame must be auth") from None


def client_frame(text: str) -> ClientFrame:
    """Raises InvalidFrame, whose words name the field and never its value."""
    return _validated(_FRAMES, text)


def attach_frame(text: str) -> AttachFrame:
    """As `client_frame`."""
    return _validated(_ATTACH, text)


def terminal_frame(text: str) -> TerminalFrame:
    """As `client_frame`."""
    return _validated(_TERMINAL_FRAMES, text)


def _validated(adapter: TypeAdapter[Frame], text: str) -> Frame:
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        raise InvalidFrame(_words(error)) from None


def action_input(frame: ActFrame) -> ActionInput:
    """The person's input in a frame. Raises InvalidFrame."""
    extra: dict[str, Any] = frame.model_extra or {}
    if unknown := extra.keys() - _INPUT_NAMES:
        raise InvalidFrame(f"unknown fields: {', '.join(sorted(unknown))[:200]}")
    try:
        return _INPUT.validate_json(orjson.dumps(extra), strict=True)
    except ValidationError as error:
        raise InvalidFrame(_words(error)) from None


def _words(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}"[:300]

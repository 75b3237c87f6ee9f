"""Identifies the caller of every request, receives its body, and answers every error in one shape."""

import asyncio
import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from weakref import WeakKeyDictionary

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from sm import errors
from sm.api.auth import Identity, Tokens, ended
from sm.api.body import BODY, check_protocol
from sm.api.context import CONTEXT, RequestContext, refusal
from sm.api.sockets import BodyTooLarge, Listener, listener_of
from sm.core.models import Caller, Session
from sm.core.states import CallerKind
from sm.linux.sockets import peer_of
from sm.store.audit import REFUSED, Record
from sm.wire import BODY_MAX_BYTES, LOGIN_HEADER, PROTOCOL, PROTOCOL_HEADER

log = logging.getLogger(__name__)

_LOGIN = re.compile(r"[A-Za-z0-9._-]{1,40}", re.ASCII)


def edge(record: Record, files: Mapping[str, int] = MappingProxyType({})) -> Middleware:
    """The middleware of every application, which stores CONTEXT and BODY in the request.

    `record` writes refusals to the audit log, except those that are in the log already. `files`: the limits of bodies
    that are files, in bytes by the path of the request.
    """

    return web.middleware(partial(_answer, record, files))


async def _answer(
    record: Record, files: Mapping[str, int], request: web.Request, handler: Handler
) -> web.StreamResponse:
    try:
        check_protocol(request)
        listener = listener_of(request)
        request[CONTEXT] = context = await listener.identify(request)
        # Only bodies from sessions count, so that agents cannot use up the limit of the operator.
        by_session = context.caller.session_id is not None
        most = BODY_MAX_BYTES if by_session else files.get(request.path, BODY_MAX_BYTES)
        async with listener.receive_body(request, most, counted=by_session) as body:
            request[BODY] = body
            response = await handler(request)
    except errors.SmError as error:
        _record(record, request, error)
        response = refusal(error)
    except BodyTooLarge as error:
        response = refusal(
            errors.LimitReached(f"the request is larger than {error.limit_bytes:,} bytes"), error.status
        )
    except web.HTTPException as error:
        response = refusal(_of_http(error, listener_of(request)), error.status)
    except ConnectionResetError:
        raise
    except Exception:
        bug = secrets.token_hex(4)
        log.exception("failed with bug %s", bug, extra={"sm_bug": bug})
        response = refusal(
            errors.InternalError(f"internal error {bug}", f"search the log for {bug}: sm daemon logs")
        )
    if not response.prepared:
        response.headers[PROTOCOL_HEADER] = str(PROTOCOL)
        if not request.content.at_eof():
            response.force_close()
    return response


def _record(record: Record, request: web.Request, error: errors.SmError) -> None:
    """Record a denied request: the caller, the action and the reason. Other errors are not recorded.

    For NotFound the entry has a fixed reason, because the message contains the caller's own text.
    """
    context = request.get(CONTEXT)
    caller = None if context is None else context.caller
    if error.recorded or isinstance(error, errors.StorageFull):
        return
    if isinstance(error, errors.NotFound):
        if caller is not None and caller.session_id is not None:
            words = request.match_info.values()
            record(
                caller.audit_name, _action(request), next(iter(words), None), REFUSED, "no such thing for it"
            )
    elif isinstance(error, errors.NotPermitted | errors.LimitReached | errors.SandboxUnavailable):
        record(
            _who(request) if caller is None else caller.audit_name,
            _action(request),
            None,
            REFUSED,
            error.message,
        )


def _action(request: web.Request) -> str:
    return getattr(request.match_info.handler, "__name__", "")


def _who(request: web.Request) -> str:
    """Describe a caller that could not be identified."""
    peer = None if request.transport is None else peer_of(request.transport.get_extra_info("socket"))
    facts = "gone" if peer is None else f"pid {peer.pid}, uid {peer.uid}"
    return f"unknown ({listener_of(request).name}; {facts})"


def _of_http(error: web.HTTPException, listener: Listener) -> errors.SmError:
    match error.status:
        case 404 | 405:
            return errors.ProtocolMismatch("this daemon does not know the request", listener.unknown_hint)
        case 408:
            return errors.WaitTimeout("the request body did not arrive in time")
        case _:
            return errors.UsageError(f"invalid request: {error.reason}")


class KernelIdentifier:
    """Identifies the callers of `sm.sock`, once for each connection, because its peer never changes.

    The session of a peer can end before its connection does. Then further requests are refused.
    """

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._callers: WeakKeyDictionary[asyncio.BaseTransport, tuple[Caller, Session | None]] = (
            WeakKeyDictionary()
        )

    async def identify(self, listener: Listener, request: web.Request) -> RequestContext:
        transport = _transport(request)
        known = self._callers.get(transport)
        if known is None:
            peer = peer_of(transport.get_extra_info("socket"))
            caller = await self._identity.caller(peer, request.headers.getall("Authorization", ()))
            known = caller, self._identity.holder(caller)
            self._callers[transport] = known
        caller, holder = known
        # Not identified again: a process that has left its session's tree may pass for the operator.
        if holder is not None and self._identity.has_ended(holder):
            raise ended(holder.id)
        return RequestContext(_with_login(caller, request), listener.count_follower)


class TokenIdentifier:
    """Identifies the callers of an agent socket, at every request. A request is over when the process has ended."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def identify(self, listener: Listener, request: web.Request) -> RequestContext:
        peer = peer_of(_transport(request).get_extra_info("socket"))
        holder = self._tokens.authenticate(peer, request.headers.getall("Authorization", ()))
        caller = _with_login(Caller(CallerKind.SESSION, holder.id), request)
        return RequestContext(caller, listener.count_follower, lambda: self._tokens.has_ended(holder))


def _with_login(caller: Caller, request: web.Request) -> Caller:
    """The caller with the login that `sm web` names. Raises NotPermitted for a session, UsageError for bad names."""
    names = request.headers.getall(LOGIN_HEADER, ())
    if not names:
        return caller
    if caller.kind is not CallerKind.OPERATOR:
        raise errors.NotPermitted(f"a session cannot send the header {LOGIN_HEADER}")
    if len(names) > 1 or not _LOGIN.fullmatch(names[0]):
        raise errors.UsageError(f"invalid header {LOGIN_HEADER}")
    return replace(caller, login=names[0])


def _transport(request: web.Request) -> asyncio.Transport:
    if request.transport is None:
        raise errors.NotPermitted("the caller has closed the connection")
    return request.transport

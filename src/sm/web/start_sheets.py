"""Describes the sheet that starts an agent, for what a person has entered in a browser."""

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import orjson
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sm.board.board_action import Target
from sm.board.spawn_sheet import (
    SheetField,
    SpawnSheet,
    asked_field,
    choices_query,
    kept_for_another,
    session_word,
    spawn_sheet,
)
from sm.client.http import TIMEOUT_S
from sm.core.programs import location_variables
from sm.errors import NotPermitted, SmError, UsageError
from sm.operations.spawn_operations import SHOW_CHOICES
from sm.web.connections import HEAD_WITHIN_S
from sm.web.daemon_link import DaemonLink
from sm.web.hub import Hub
from sm.web.logins import WebLogin, scope_of

DAEMON_ROUTES = (SHOW_CHOICES.route,)
"""The routes of the daemon that are called for a browser."""
_KNOWN_FOR_S = 5.0
_KNOWN_MAX = 32


class _Entered(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    workspace: Annotated[str | None, Field(max_length=100)] = None
    """The slug of the workspace that the page shows."""
    fields: Annotated[dict[str, str], Field(max_length=40)] = {}
    """The fields that the person has changed, also to an empty text."""


class StartSheets:
    """The route of the sheet. `login`: the key of a request's login."""

    def __init__(self, hub: Hub, link: DaemonLink, login: "web.RequestKey[WebLogin]") -> None:
        self._hub = hub
        self._link = link
        self._login = login
        self._known: dict[tuple[tuple[str, str], ...], tuple[float, Any]] = {}
        """The answers of the daemon by their query, each with the time until which it is used again: the page asks for
        a sheet after each key."""

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post("/api/start-sheet", self._show)

    async def _show(self, request: web.Request) -> web.Response:
        login = request[self._login]
        if not login.scope.includes(needed := scope_of("spawn")):
            raise NotPermitted(
                f"this login may not start agents: it needs the scope {needed}",
                f"sm web link --scope {needed}",
            )
        if request.content_type != "application/json":
            raise UsageError("the content must be application/json")
        try:
            async with asyncio.timeout(HEAD_WITHIN_S):
                content = await request.read()
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        return _json(await self._sheet(_entered(content), login))

    async def _sheet(self, entered: _Entered, login: WebLogin) -> Mapping[str, Any]:
        given = self._as_meant(entered.fields)
        target = Target(workspace=entered.workspace)
        known, refusals = await self._facts(given, target, login)
        sheet = spawn_sheet(known, given, target, refusals)
        again = kept_for_another(entered.fields)
        return {**sheet_json(sheet), "again": again, "trouble": refusals.get("", "")}

    async def _facts(
        self, given: Mapping[str, str], target: Target, login: WebLogin
    ) -> tuple[Any, Mapping[str, str]]:
        """The answer of the daemon, and its refusals by field. A field that it refuses is left out of the question."""
        query = choices_query(given, target)
        try:
            return await self._choices(query, login), {}
        except SmError as error:
            field = asked_field(query, error.code)
            refusals = {field: error.message}
        if field:
            with contextlib.suppress(SmError):
                return await self._choices(choices_query({**given, field: ""}, target), login), refusals
        return None, refusals

    def _as_meant(self, fields: Mapping[str, str]) -> Mapping[str, str]:
        """The input of the person as the daemon takes it, with whole paths, and IDs of sessions that share a name."""
        given = dict(fields)
        if parent := given.get("parent", "").strip():
            given["parent"] = session_word(self._hub.situation.table.unarchived, parent)
        if directory := given.get("working_dir", "").strip():
            given["working_dir"] = os.path.normpath(os.path.expanduser(directory))
        return given

    async def _choices(self, query: Mapping[str, str], login: WebLogin) -> Any:
        key, clock_s = tuple(sorted(query.items())), time.monotonic()
        until_s, answer = self._known.get(key, (0.0, None))
        if clock_s >= until_s:
            own = {name.lower(): os.environ.get(name, "") for name in location_variables()}
            asked = {**{name: value for name, value in own.items() if value}, **query}
            answer = await self._link.get(SHOW_CHOICES.path, asked, login=login, timeout_s=TIMEOUT_S)
            self._known.pop(key, None)
            self._known[key] = (clock_s + _KNOWN_FOR_S, answer)
            while len(self._known) > _KNOWN_MAX:
                del self._known[next(iter(self._known))]
        return answer


def _json(value: Mapping[str, Any]) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json")


def _entered(content: bytes) -> _Entered:
    try:
        return _Entered.model_validate_json(content)
    except ValidationError:
        raise UsageError("the content must be an object with the fields workspace and fields") from None


def sheet_json(sheet: SpawnSheet) -> Mapping[str, Any]:
    """The sheet for a page."""
    return {
        "fields": [_field_json(field) for field in sheet.fields],
        "values": sheet.values,
        "prediction": sheet.prediction,
        "command": sheet.command,
        "takes_files": sheet.takes_files,
    }


def _field_json(field: SheetField) -> Mapping[str, Any]:
    plain = field.field
    return {
        "name": plain.name,
        "title": plain.title,
        "kind": plain.kind.value,
        "required": plain.required,
        "rare": plain.is_rare,
        "value": field.value,
        "hint": field.hint,
        "notes": field.notes,
        "problem": field.problem,
        "choices": [{"value": value, "title": title} for value, title in field.choices],
        "suggestions": [asdict(suggestion) for suggestion in field.suggestions],
    }

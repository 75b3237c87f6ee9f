"""Answers all requests of `sm top` that ask for the same, after a page that lists them."""

import asyncio
import time
from collections.abc import Sequence

from sm.board import ACTIONS, ActionInput, BoardNeed, Target
from sm.board.guard import DEAD_S
from sm.cli.tui.board_app import BoardApp
from sm.cli.tui.screens import LinePrompt, TextPage
from sm.cli.tui.texts import equal_lines
from sm.client.http import Client, new_key
from sm.errors import SmError

_DONE = {"approve": "approved", "deny": "denied"}


class EqualAnswers:
    """`answered`: gets the keys of the requests that are answered here."""

    def __init__(self, app: BoardApp, client: Client, answered: set[str]) -> None:
        self._app = app
        self._client = client
        self._answered = answered

    def show(self) -> None:
        """List the requests that are equal to the selected one. A key of the page answers exactly those."""
        app, opened_s = self._app, time.monotonic()
        group = app.equal_group
        if group is None:
            app.tell("not possible: no other open request asks for the same")
            return
        needs = [need for need in app.found if need.key in group.keys]
        now_s = app.board.now_s(time.monotonic())
        page = TextPage(
            f"{len(needs)} equal requests (Esc: back)",
            equal_lines(needs, group.words, now_s, app.size.width - 2),
            "ad",
            is_dead=lambda: time.monotonic() - opened_s < DEAD_S,
        )

        def pressed(key: str | None) -> None:
            if key == "a":
                self._answer("approve", needs)
            elif key == "d":
                self._ask_reason(needs)

        app.ask(page, pressed)

    def _ask_reason(self, needs: Sequence[BoardNeed]) -> None:
        def entered(text: str | None) -> None:
            if text is not None:
                self._answer("deny", needs, text)

        self._app.ask(LinePrompt(f"Deny {len(needs)} requests. Reason, may be empty:"), entered)

    def _answer(self, name: str, needs: Sequence[BoardNeed], text: str = "") -> None:
        if self._app.is_lost:
            self._app.tell("not possible: no daemon")
            return
        self._answered.update(need.key for need in needs)
        self._app.run_worker(self._carry_out(name, needs, ActionInput(text)))

    async def _carry_out(self, name: str, needs: Sequence[BoardNeed], words: ActionInput) -> None:
        """Answer one request after the other, also after a failure. The daemon refuses those that have changed."""
        call, failures = ACTIONS[name].call, list[str]()
        assert call is not None
        for number, need in enumerate(needs, 1):
            self._app.tell(f"{name}: {number} of {len(needs)} …")
            wanted = call(Target(need=need), words)
            try:
                await asyncio.to_thread(self._client.post, wanted.path, wanted.body, key=new_key())
            except SmError as error:
                self._answered.discard(need.key)
                failures.append(f"{need.key}: {error.message}")
        first = f"; failed: {failures[0]}" if failures else ""
        self._app.tell(f"{_DONE[name]}: {len(needs) - len(failures)} of {len(needs)}{first}")
        self._app.reload()

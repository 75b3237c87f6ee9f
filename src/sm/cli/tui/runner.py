"""Carries out the actions of `sm top` on a selection: asks for what they need, and tells the result."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from rich.cells import cell_len
from textual.app import SuspendNotSupported

from sm.board import (
    ACTIONS,
    ActionInput,
    BoardNeed,
    FieldKind,
    NeedKind,
    Target,
    command_to_copy,
)
from sm.board.actions import proposes_completion
from sm.board.details import target_lines
from sm.board.guard import DEAD_S
from sm.board.prediction import predicted
from sm.board.tabs import TABS
from sm.cli.attached_files import delete_uploads, read_files, uploaded
from sm.cli.tui import proposals, texts
from sm.cli.tui.action_calls import carry_out
from sm.cli.tui.board_app import BoardApp
from sm.cli.tui.equal_answers import EqualAnswers
from sm.cli.tui.forms import ActionForm, Done, FormProblem, no_form
from sm.cli.tui.key_hints import page_hints
from sm.cli.tui.page_tabs import PageTabs
from sm.cli.tui.pages import FollowPage
from sm.cli.tui.screens import KeyQuestion, LinePrompt, TextPage
from sm.cli.tui.start_sheet import StartDrafts, StartSheet
from sm.cli.tui.suggestions import entered, suggested_sessions
from sm.cli.tui.task_files import FILES, paths_in
from sm.cli.tui.texts import Hint
from sm.client.http import Client
from sm.core.request_lines import verdict
from sm.core.text import omission
from sm.errors import SmError

ACTION_KEYS = {action.key: name for name, action in ACTIONS.items()}
_DECISIONS = frozenset({"approve", "deny", "answer", "always"})


class ActionRunner:
    def __init__(self, app: BoardApp, client: Client) -> None:
        self._app = app
        self._client = client
        self.page_tabs = PageTabs(app.board, client, app.source, lambda: app.found)
        self._drafts: dict[str, str] = {}
        self._start_drafts = StartDrafts()
        self._undo: tuple[str, Target, float] | None = None
        """The action, its target, and the time until which it is possible."""
        self._answered: set[str] = set()
        """The requests that were answered here."""
        self.equal = EqualAnswers(app, client, self._answered)

    def act(
        self,
        name: str,
        words: ActionInput | None = None,
        target: Target | None = None,
        *,
        is_on_page: bool = False,
    ) -> None:
        """Begin an action on the target, by default the selection. `is_on_page`: a page shows the target in full."""
        app = self._app
        target = target or app.target
        action = ACTIONS[name]
        if name in _DECISIONS and target.need is None and target.row is not None and target.row.requests:
            self._select_request(target.row.requests[0])
            return
        if reason := action.refusal(target):
            app.tell(f"not possible: {reason}")
            return
        if action.call is not None and app.is_lost:
            app.tell("not possible: no daemon")
            return
        if name in _DECISIONS and target.need is not None:
            if app.needs.guard.is_dead(target.need.key, time.monotonic()):
                app.tell(f"too early: {target.need.key} has just appeared or changed; press again")
                return
            if name == "approve" and not (is_on_page or self._is_shown_whole(target.need)):
                self.show_details(target)
                return
        if name == "answer" and words is None:
            self._ask_answers(target, ())
        elif name in ("deny", "send") and words is None:
            self._ask_words(name, target)
        elif words is None and (action.fields or action.question is not None):
            self._ask_fields(name, target)
        elif name == "attach":
            self._attach_terminal(target)
        elif name in ("output", "why"):
            self.show_session(target, name)
        elif name == "copy-id":
            self._copy(target.session_id or "")
        else:
            self._carry_out(name, target, words or ActionInput())

    def show_details(self, target: Target | None = None) -> None:
        """Show the target, by default the selection, on a page where the keys of the actions apply to it."""
        app, opened_s = self._app, time.monotonic()
        target = target or app.target
        if target.need is None or target.need.kind in (NeedKind.FAILURE, NeedKind.DONE):
            if target.row is not None:
                self.show_session(target)
            return

        def now_s() -> float:
            return app.board.now_s(time.monotonic())

        has_changes, width = proposals.has_changes(target), app.size.width - 2
        counting = proposals.COUNTING if has_changes else None
        lines = target_lines(target, now_s(), width, counting)
        if not lines:
            return
        possible = {a.key: name for name, a in ACTIONS.items() if a.refusal(target) is None}
        digits = "123456789" if "t" in possible else ""
        shown = "  ".join(f"{key}: {name}" for key, name in possible.items())
        if has_changes:
            digits, shown = proposals.CHANGES_KEY, f"{proposals.CHANGES_KEY}: changes  {shown}"

        def pressed(key: str | None) -> None:
            if has_changes and key == proposals.CHANGES_KEY:
                self.show_session(target, "changes", is_from_request=True)
            elif key is not None and key.isdecimal():
                self.answer_with(int(key), target, is_on_page=True)
            elif key is not None:
                self.act(possible[key], target=target, is_on_page=True)

        page = TextPage(
            f"{target.need.key} (Esc: back)",
            [*lines, "", shown],
            "".join(possible) + digits,
            is_dead=lambda: time.monotonic() - opened_s < DEAD_S,
            about=_request_key(target),
            later=partial(proposals.counted_lines, self._client, target, now_s, width, shown)
            if has_changes
            else None,
        )
        app.ask(page, pressed)

    def show_session(self, target: Target, tab: str = TABS[0].name, *, is_from_request: bool = False) -> None:
        """Show a session on a page with tabs, where the keys of the actions apply to it.

        `is_from_request`: the page of the target's request comes back after it.
        """
        app, before = self._app, target
        target = Target(target.row, None, target.workspace, target.audience, target.cwd)

        def now() -> Target:
            row = app.board.rows.get(target.session_id or "")
            return replace(target, row=row or target.row)

        def hints(need: BoardNeed | None) -> Sequence[Hint]:
            return page_hints(replace(now(), need=need), app.found)

        place = [known.name for known in TABS].index(tab)
        page = FollowPage(self.page_tabs.of_session(target), place, hints=hints)

        def pressed(key: str | None) -> None:
            if key is not None:
                name = ACTION_KEYS[key]
                # The request as the person saw it: the daemon refuses an answer if it has changed.
                need = page.need if name in _DECISIONS else None
                self.act(name, target=replace(now(), need=need), is_on_page=need is not None)
            elif is_from_request and before.need in app.found:
                self.show_details(before)

        app.ask(page, pressed)
        if target.row is not None and ACTIONS["seen"].refusal(target) is None:
            app.run_worker(self._mark_seen(target.row.id))

    async def _mark_seen(self, session_id: str) -> None:
        with suppress(SmError):  # the page itself shows that there is no daemon
            await asyncio.to_thread(self._client.post, "/v1/seen", {"sessions": [session_id]})

    def answer_with(self, digit: int, target: Target, *, is_on_page: bool = False) -> None:
        """Answer a question with the option of that number, or show the options if they are not in sight."""
        request = target.request
        assert request is not None
        if not 0 < digit <= len(request["options"]):
            self._app.tell(f"{request['request_id']} has {len(request['options'])} options")
        elif not (is_on_page or self._app.shows_whole(request)):
            self.show_details(target)
        else:
            self.act("answer", ActionInput(answers=(str(digit),)), target)

    def copy_command(self) -> None:
        self._copy(command_to_copy(self._app.target))

    def undo(self) -> None:
        undo, self._undo = self._undo, None
        if undo is None or time.monotonic() >= undo[2]:
            self._app.tell("nothing to undo")
        else:
            self._carry_out(undo[0], undo[1], ActionInput())

    def undo_text(self, clock_s: float) -> str:
        """The bar with the time that is left; empty if there is nothing to undo."""
        if self._undo is None or clock_s >= self._undo[2]:
            return ""
        name, target, until_s = self._undo
        label = target.row.label if target.row is not None else target.session_id
        return f"u: {ACTIONS[name].title.lower()} {label} ({int(until_s - clock_s) + 1} s)"

    def tell_who_was_faster(self, key: str) -> None:
        """Say who answered a request that was selected, or had a dialog, and has vanished."""
        if key.startswith("r") and key not in self._answered:
            self._app.run_worker(self._show_verdict(key))

    def _is_shown_whole(self, need: BoardNeed) -> bool:
        """Return whether the person sees all that the request asks for: its line may be cut."""
        request = need.request
        if request is None:
            return False
        if self._app.shows_whole(request):
            return True
        if request["kind"] == "setup" or request["cut"]:
            return False
        is_whole = request["kind"] != "permission" or not omission(request["tool"], request["arguments"])
        return is_whole and cell_len(need.text) <= self._app.need_text_width

    def _message_title(self, target: Target) -> Callable[[str], str]:
        label = target.row.label if target.row is not None else target.session_id
        return lambda mode: f"Message to {label} ({predicted(target, self._app.found, mode)})"

    def _select_request(self, key: str) -> None:
        """Select a request of the selected session: a decision needs the request in sight."""
        if self._app.select_need(key):
            self._app.tell(f"{key} is selected; press again")
        else:
            self._app.tell(f"{key} is not loaded yet; press again")

    def _ask_words(self, name: str, target: Target) -> None:
        draft = _draft_of(name, target)
        title: str | Callable[[str], str]
        if name == "send":
            title = self._message_title(target)
        else:
            assert target.need is not None
            title = f"Deny {target.need.key} of {target.need.label}. Reason, may be empty:"
        prompt = LinePrompt(
            title,
            self._drafts.get(draft, ""),
            on_escape=lambda text: self._drafts.update({draft: text}),
            modes=name == "send",
            files=name == "send" and target.row is not None and bool(target.row.data["takes_files"]),
            about=_request_key(target) if name == "deny" else "",
        )

        def entered(text: str | None) -> None:
            if text is not None and (text.strip() or name == "deny"):
                self._drafts.pop(draft, None)
                words = ActionInput(text, mode=prompt.mode)
                if name == "deny" and proposes_completion(target):
                    self._deny_completion(target, words)
                elif prompt.has_files:
                    self._ask_files(target, words)
                else:
                    self._carry_out(name, target, words)

        self._app.ask(prompt, entered)

    def _ask_files(self, target: Target, words: ActionInput) -> None:
        """Ask for the files of a message, and send it with them."""

        def entered(text: str | None) -> None:
            paths = paths_in(text or "")
            if paths:
                self._app.run_worker(self._carry_out_with_files("send", target, words, paths, no_form))
            else:  # the message waits for another try
                self._drafts[_draft_of("send", target)] = words.text

        self._app.ask(LinePrompt("Files of the message, paths with commas between them:"), entered)

    def _deny_completion(self, target: Target, words: ActionInput) -> None:
        """Deny a completion, with the person's draft comments if the person agrees."""

        def chosen(drafts: tuple[int, ...] | None) -> None:
            if drafts is None:
                self._drafts[_draft_of("deny", target)] = words.text
            else:
                self._carry_out("deny", target, replace(words, drafts=drafts))

        self._app.run_worker(proposals.choose_drafts(self._app, self._client, target, chosen))

    def _ask_answers(self, target: Target, answers: tuple[str, ...]) -> None:
        """Ask for one text for each question."""
        request = target.request
        assert request is not None
        if len(answers) == len(request["questions"]):
            self._carry_out("answer", target, ActionInput(answers=answers))
            return

        def entered(text: str | None) -> None:
            if text is not None and text.strip():
                self._ask_answers(target, (*answers, text))

        title = texts.question_text(request["questions"][len(answers)])
        self._app.ask(LinePrompt(title, about=_request_key(target)), entered)

    def _ask_fields(self, name: str, target: Target) -> None:
        """Show the form of the action, or only its question if it has no fields."""
        action, app = ACTIONS[name], self._app
        if name == "spawn":
            self._show_start_sheet(target)
            return
        if not action.fields:
            self._ask_question(name, target, ActionInput())
            return
        sessions = suggested_sessions(app.board.rows)

        def submit(given: Mapping[str, str], done: Done) -> None:
            fields = entered(action.fields, given, sessions)
            self._ask_question(name, target, ActionInput(fields=fields), done)

        form = ActionForm(action, target, submit)
        form.suggest(FieldKind.SESSION, list(sessions))
        app.ask(form)

    def _show_start_sheet(self, target: Target) -> None:
        around = target.workspace or (None if target.row is None else target.row.workspace)
        place = Target(workspace=around, cwd=target.cwd)

        def submit(values: Mapping[str, str], done: Done) -> None:
            paths = paths_in(values.get(FILES.name, ""))
            fields = {name: text for name, text in values.items() if name != FILES.name}
            if paths:
                words = ActionInput(fields=fields)
                start = self._carry_out_with_files("spawn", Target(cwd=target.cwd), words, paths, done)
                self._app.run_worker(start)
            else:
                self._carry_out("spawn", Target(cwd=target.cwd), ActionInput(fields=fields), done)

        app = self._app
        app.ask(StartSheet(self._client, place, lambda: app.board.rows, self._start_drafts, submit))

    async def _carry_out_with_files(
        self, name: str, target: Target, words: ActionInput, paths: Sequence[str], done: Done
    ) -> None:
        """Upload files, and carry out the action with them. The uploads are deleted again if it is refused."""

        def upload() -> tuple[str, ...]:
            with uploaded(self._client, read_files(paths)) as ids:
                return tuple(ids)

        try:
            files = await asyncio.to_thread(upload)
        except SmError as error:
            problem = FormProblem(error.message.removeprefix("--file "), FILES.name)
            if words.text:
                self._drafts[_draft_of(name, target)] = words.text
                self._app.tell(f"failed: {problem.words}")
            done(problem)
            return

        def end(problem: FormProblem | None) -> None:
            if problem is not None:
                self._app.run_worker(asyncio.to_thread(delete_uploads, self._client, files))
            done(problem)

        self._carry_out(name, target, replace(words, files=files), end)

    def _ask_question(self, name: str, target: Target, words: ActionInput, done: Done = no_form) -> None:
        """Ask the question of the action, if it has one, and carry it out."""
        action = ACTIONS[name]
        if action.question is None:
            self._carry_out(name, target, words, done)
            return
        wider = action.wider(target)
        more = f", t: {wider}" if wider else ""
        question = f"{action.question(target)} y: yes{more}, Esc: no"

        def chosen(key: str | None) -> None:
            if key is None:
                done(FormProblem())
            else:
                self._carry_out(name, target, replace(words, tree=key == "t"), done)

        self._app.ask(KeyQuestion(question, "yt" if wider else "y"), chosen)

    def _attach_terminal(self, target: Target) -> None:
        argv = [sys.executable, "-m", "sm.cli", *ACTIONS["attach"].command(target, ActionInput())[1:]]
        try:
            with self._app.suspend():
                code = subprocess.run(argv, check=False).returncode
        except SuspendNotSupported:
            self._app.tell("attach needs a terminal")
            return
        self._app.refresh()
        self._app.tell("detached" if code == 0 else f"sm attach failed with exit code {code}")

    def _copy(self, text: str) -> None:
        self._app.copy_to_clipboard(text)
        self._app.tell(f"copied: {text}")

    def _carry_out(self, name: str, target: Target, words: ActionInput, done: Done = no_form) -> None:
        """Carry out the action and tell the result. `done`: gets the reason if the daemon refuses it."""
        self._app.tell(f"{ACTIONS[name].command_line(target, words)} …")
        self._app.run_worker(self._request(name, target, words, done))

    async def _request(self, name: str, target: Target, words: ActionInput, done: Done) -> None:
        action, app, problem = ACTIONS[name], self._app, None
        assert action.call is not None
        call, command = action.call(target, words), action.command_line(target, words)
        decided = target.need.key if target.need is not None and name in _DECISIONS else ""
        self._answered.add(decided)
        try:
            result = await carry_out(self._client, action, target, call, app.tell)
            says_all = name == "send" or bool(call.recipients)
            text = result if says_all else "; ".join(filter(None, (f"done: {command}", result)))
        except SmError as error:
            self._answered.discard(decided)
            if words.text:
                self._drafts[_draft_of(name, target)] = words.text
            hint = f" (hint: {error.hint})" if error.hint else ""
            problem = FormProblem(
                f"{error.message}{hint}", action.field_of(error.hint, error.code, error.message)
            )
            app.tell(f"failed: {problem.words}")
        else:
            if action.undo is not None:
                self._undo = (action.undo, target, time.monotonic() + app.pace.undo_s)
            app.tell(text)
        done(problem)
        app.reload()

    async def _show_verdict(self, key: str) -> None:
        try:
            request = await asyncio.to_thread(self._client.get, f"/v1/requests/{key}")
        except SmError:
            return
        if request["state"] != "open" or request["answer"] is not None:
            self._app.tell(f"{key}: {verdict(request)}")


def _draft_of(name: str, target: Target) -> str:
    """Identifies the words for an action on a target, until they have reached the daemon."""
    return f"{name} {target.need.key if target.need and name == 'deny' else target.session_id}"


def _request_key(target: Target) -> str:
    return target.need.key if target.need is not None and target.request is not None else ""

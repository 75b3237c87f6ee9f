"""Defines shared arguments and options of commands, and shell completion of names."""

import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import click

from sm.cli.instance import RATE_WAIT_S, Instance
from sm.core.durations import seconds_in
from sm.core.lines import JsonObject, line
from sm.core.reference import chosen
from sm.core.statuses import ENDED
from sm.errors import SmError, UsageError

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from click.types import OptionHelpExtra

Command = TypeVar("Command", bound=Callable[..., Any])
COMPLETION_S = 1.0
_DESCRIPTION_MAX = 80
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._")

Completion = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]
Candidate = tuple[Sequence[str], str | None]
"""The words for one object, of which the first fitting one is offered, and their description."""


def _completion(candidates: Callable[[click.Context, str], Iterable[Candidate]]) -> Completion:
    """Build a completion from `candidates`; empty when no daemon runs.

    Omits words with characters that a shell may interpret.
    """

    def complete(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        found: dict[str, str | None] = {}
        try:
            for words, description in candidates(context, incomplete):
                fitting = (w for w in words if w and w.startswith(incomplete) and set(w) <= _SAFE)
                if (word := next(fitting, None)) is not None:
                    found.setdefault(word, description)
        except (SmError, OSError):
            return []
        return [CompletionItem(word, help=description) for word, description in found.items()]

    return complete


def _fetch(path: str, query: Mapping[str, object] | None = None) -> Any:
    return Instance(os.environ).client(start=False).get(path, query, timeout_s=COMPLETION_S)


def _sessions(
    incomplete: str, applies: Callable[[JsonObject], bool] = lambda session: True, *, archived: bool = False
) -> Iterator[Candidate]:
    """The sessions that a name or an id may complete and for which `applies` holds, described by their status.

    `archived`: include archived sessions.
    """
    from sm.cli.display.output import now
    from sm.core.columns import cut
    from sm.core.session_lines import last_words, status_of

    at = now()
    sessions = [s for s in _fetch("/v1/sessions", {"archived": archived, "prefix": incomplete}) if applies(s)]
    short = Counter(map(_short_name, sessions))
    for session in sessions:
        words = [session["friendly_name"] or session["name"], session["session_id"]]
        if words[1] in session.get("label", ""):
            words.reverse()  # only the ID names this session
        elif short[_short_name(session)] == 1:
            words.insert(1, _short_name(session))
        description = ": ".join(filter(None, (status_of(session, at), last_words(session))))
        yield words, cut(description, _DESCRIPTION_MAX)


def _short_name(session: JsonObject) -> str:
    """The --name part of the friendly name; empty without one."""
    prefix, name = f"{session['agent_type'].lower()}-", session["friendly_name"] or ""
    return str(name.removeprefix(prefix)) if name.startswith(prefix) else ""


def _has_process(session: JsonObject) -> bool:
    from sm.core.session_lines import has_process

    return has_process(session)


@_completion
def session_names(context: click.Context, incomplete: str) -> Iterable[Candidate]:
    return _sessions(incomplete)


@_completion
def paused_sessions(context: click.Context, incomplete: str) -> Iterable[Candidate]:
    return _sessions(incomplete, lambda session: session.get("paused") is not None)


@_completion
def running_sessions(context: click.Context, incomplete: str) -> Iterable[Candidate]:
    """Sessions that are live or whose process may run."""
    return _sessions(incomplete, _has_process)


@_completion
def ended_sessions(context: click.Context, incomplete: str) -> Iterable[Candidate]:
    """Sessions whose process has ended, archived ones too."""
    return _sessions(incomplete, lambda session: not _has_process(session), archived=True)


@_completion
def visible_ended_sessions(context: click.Context, incomplete: str) -> Iterable[Candidate]:
    """Ended sessions that can be archived."""
    return _sessions(incomplete, lambda session: session["status"] in ENDED)


@_completion
def archived_sessions(context: click.Context, incomplete: str) -> Iterable[Candidate]:
    return _sessions(incomplete, lambda session: bool(session["archived"]), archived=True)


@_completion
def open_requests(context: click.Context, incomplete: str) -> Iterable[Candidate]:
    """Open requests, and the sessions that have exactly one."""
    requests = _fetch("/v1/requests")
    numbers = Counter(r["session_id"] for r in requests)
    yield from map(_request, requests)
    for r in requests:
        if numbers[r["session_id"]] == 1:
            yield (r["name"] or "", r["session_id"]), f"{r['kind']} {r['request_id']}"


@_completion
def further_requests(context: click.Context, incomplete: str) -> Iterable[Candidate]:
    """Open requests, for the words after the first one, which name no session."""
    yield from map(_request, _fetch("/v1/requests"))


@_completion
def requests_and_sessions(context: click.Context, incomplete: str) -> Iterable[Candidate]:
    """Open requests and sessions; closed requests too when the word is not empty."""
    yield from map(_request, _fetch("/v1/requests", {"all": bool(incomplete)}))
    yield from _sessions(incomplete)


def _request(request: JsonObject) -> Candidate:
    from sm.core.session_lines import label

    return (request["request_id"],), f"{request['kind']} of {label(request)}, {request['state']}"


@_completion
def workspaces(context: click.Context, incomplete: str) -> Iterable[Candidate]:
    return [((workspace["slug"],), workspace["working_dir"]) for workspace in _fetch("/v1/workspaces")]


@_completion
def pair_requests(context: click.Context, incomplete: str) -> Iterable[Candidate]:
    overview = _fetch("/v1/pairings")
    return [((request["request_id"],), request["label"]) for request in overview["requests"]]


@_completion
def paired_users(context: click.Context, incomplete: str) -> Iterable[Candidate]:
    return [((user["user"],), user["label"]) for user in _fetch("/v1/pairings")["users"]]


@_completion
def sandbox_names(context: click.Context, incomplete: str) -> Iterable[Candidate]:
    """Workspaces, and `default`."""
    yield ("default",), "sessions without a workspace"
    for workspace in _fetch("/v1/workspaces"):
        yield (workspace["slug"],), workspace["working_dir"]


@_completion
def agent_types(context: click.Context, incomplete: str) -> Iterable[Candidate]:
    session_id = Instance(os.environ).session_id
    answer = _fetch("/v1/agents", agent_types_query(session_id, context.params.get("workspace")))
    usable = (a for a in answer["agents"] if not a["problem"] and not a["shadowed_by"])
    return [((a["name"],), line(a["description"] or "", _DESCRIPTION_MAX)) for a in usable]


def agent_types_query(session_id: str | None, workspace: str | None) -> dict[str, object]:
    """Build the query of /v1/agents for the agent types that a spawn from here would find."""
    query: dict[str, object] = {"workspace": workspace}
    if session_id is None:
        from sm.core.programs import location_variables

        query |= {name.lower(): os.environ.get(name) for name in location_variables()}
        try:
            query["cwd"] = current_directory()
        except UsageError:
            query["cwd"] = None
    return query


class Option(click.Option):
    """An option whose help omits the range of its number. The error for a number out of range names it."""

    def get_help_extra(self, ctx: click.Context) -> "OptionHelpExtra":
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


class TextCommand(click.Command):
    """A command whose last argument is a text, which may begin with a dash: `sm spawn Engineer "- fix the form"`.

    A word of the command line that begins with a dash and has a blank is a text: no option has a blank in its name.
    For a command whose only argument is the text, words without quotes are one text: `sm note running the tests`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        takes_value = {
            name
            for param in self.params
            if isinstance(param, click.Option) and not param.is_flag
            for name in param.opts
        }
        words, texts, rest = list[str](), list[str](), list(args)
        bare = list[str]()
        """The words that are no options."""
        while rest:
            word = rest.pop(0)
            if word == "--":
                texts += rest
                break
            if _is_text(word):
                texts.append(word)
            elif word == "-" or not word.startswith("-"):
                bare.append(word)
            else:
                words.append(word)
                if word in takes_value and rest:
                    words.append(rest.pop(0))
        if not texts and self._joins(bare):
            bare = [" ".join(bare)]
        words += bare
        words = [*words, "--", *texts] if texts else words
        try:
            return super().parse_args(ctx, list(words))
        except click.UsageError as error:
            if "unexpected extra argument" in error.message:
                raise self._unquoted(ctx, words) from None
            raise

    def _joins(self, bare: Sequence[str]) -> bool:
        """True if the words are one text.

        A word with a blank was quoted, so the others are something else. So are those behind a question.
        """
        arguments = [param for param in self.params if isinstance(param, click.Argument)]
        is_ended = any(_has_blank(word) or word.endswith("?") for word in bare[:-1])
        is_text = len(bare) > 1 and "-" not in bare and not is_ended and not _has_blank(bare[-1])
        return is_text and len(arguments) == 1 and arguments[0].nargs == 1

    def _unquoted(self, ctx: click.Context, words: list[str]) -> UsageError:
        """The error of a text of several words without quotes: `sm spawn Engineer fix the login`."""
        values, rest, _ = self.make_parser(ctx).parse_args(list(words))
        arguments = [
            values[p.name] for p in self.params if isinstance(p, click.Argument) and p.name is not None
        ]
        *before, first = [value for value in arguments if isinstance(value, str)]
        shown = shlex.join([*ctx.command_path.split(), *before, " ".join((first, *rest))])
        return UsageError("the text must be one argument", f"quote the text: {shown}")


def _is_text(word: str) -> bool:
    return word.startswith("-") and _has_blank(word.partition("=")[0])


def _has_blank(word: str) -> bool:
    return any(character.isspace() for character in word)


class _Seconds(click.FloatRange):
    """A number of seconds. A duration with a unit is one too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = seconds_in(value) if isinstance(value, str) else None
        return super().convert(value if seconds is None else seconds, param, ctx)


class WordChoice(click.Choice[str]):
    """A choice that is also found by its words in another case, and by common other words."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        word = chosen(self.choices, value) if isinstance(value, str) else None
        return super().convert(value if word is None else word, param, ctx)


def seconds_option(
    *names: str, least: int = 0, most: int | None = 86_400, default: int | None = None, help: str
) -> Callable[[Command], Command]:
    """Build an option that takes a number of seconds, or a duration such as `5m`."""
    return _range_option(names, _Seconds(least, most), "SECONDS", default, help)


def number_option(
    *names: str, least: int = 0, most: int | None = 10_000, default: int | None = None, help: str
) -> Callable[[Command], Command]:
    """Build an option that takes a whole number."""
    return _range_option(names, click.IntRange(least, most), "NUMBER", default, help)


def _range_option(
    names: Sequence[str], type: click.ParamType[Any], metavar: str, default: int | None, help: str
) -> Callable[[Command], Command]:
    return click.option(
        *names, cls=Option, type=type, metavar=metavar, default=default, show_default=True, help=help
    )


session_argument = click.argument("session", metavar="SESSION", shell_complete=session_names)
"""Takes an id, a unique prefix of an id, a name or a friendly name."""
optional_session = click.argument(
    "session", metavar="[SESSION]", required=False, shell_complete=session_names
)


def sessions_argument(complete: Completion, *, required: bool = True) -> Callable[[Command], Command]:
    """Build an argument that takes several sessions."""
    metavar = "SESSION..." if required else "[SESSION]..."
    return click.argument("sessions", metavar=metavar, nargs=-1, required=required, shell_complete=complete)


REQUEST_NAME = re.compile(r"(?:#[rR]?|[rR])[0-9]+")
request_argument = click.argument("request", metavar="REQUEST|SESSION", shell_complete=open_requests)
"""Takes the name of an open request, or a session that has exactly one."""
rate_wait_option = seconds_option(
    "--rate-wait",
    "rate_wait_s",
    default=round(RATE_WAIT_S),
    help="Longest total wait for a rate limit, which only agents have; then exit code 6.",
)
"""For commands with a rate limit."""
workspace_option = click.option(
    "--workspace",
    metavar="WORKSPACE",
    shell_complete=workspaces,
    help="Only sessions of this workspace; - for sessions without one.",
)
account_option = click.option(
    "--account", metavar="NAME", help="An account in place of sessions, as in sm accounts."
)


def key_value(option: str, pairs: Iterable[str], example: str) -> dict[str, str]:
    """Parse the values of a repeatable KEY=VALUE option. Raises UsageError."""
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"{option} {pair!r} is not KEY=VALUE", example)
        values[key] = value
    return values


def current_directory() -> str:
    """Return the directory of this process. Raises UsageError if somebody deleted it."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise UsageError(
            "the current directory no longer exists", "change to another directory: cd"
        ) from None


def absolute(directory: str) -> str:
    """Make a typed path absolute; `~` is expanded. Raises UsageError as `current_directory`."""
    directory = os.path.expanduser(directory)
    return os.path.normpath(
        directory if os.path.isabs(directory) else os.path.join(current_directory(), directory)
    )

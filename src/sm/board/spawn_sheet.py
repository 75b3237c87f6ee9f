"""The sheet that starts an agent: the values, notes and problems of its fields, and the effects of a start. Pure.

Both live views and `sm spawn` without arguments show it. They keep what the person has entered, and ask for the sheet
again after each change.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field as attribute
from dataclasses import replace
from typing import Any

from sm.board.board_action import ActionInput, InputField, Target
from sm.board.row import BoardRow
from sm.board.spawn_action import COPY, PLACE, SPAWN_ACTION, WORKTREE
from sm.core.dataclass import dataclass
from sm.core.figures import dollars
from sm.core.text import PROMPT_MAX
from sm.core.timestamps import span

Json = Mapping[str, Any]
_DIRECTORY = PLACE.choices[0]
_PLACES: Mapping[str | None, tuple[tuple[str, str], ...]] = {
    "worktree": (_DIRECTORY, (WORKTREE, "a git worktree of its own")),
    "copy": (_DIRECTORY, (COPY, "a copy of its own")),
    "none": (_DIRECTORY,),
    None: PLACE.choices,
}
"""By the `own_place` of the directory, None if it is not known."""
_SHOWN_RULES = 8
_NO_TYPES = ("Define an agent type in config.yaml: sm config --example shows how.",)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A value that a field can have, and what is known of it."""

    value: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class SheetField:
    """A field of the sheet that is shown."""

    field: InputField
    value: str = ""
    """The input of the person, or else the default."""
    hint: str = ""
    """The words that the empty field shows."""
    notes: tuple[str, ...] = ()
    """Sentences below the field."""
    problem: str = ""
    """The reason why no agent can start with the value, or empty."""
    choices: tuple[tuple[str, str], ...] = ()
    """Values and titles of a closed set. The first one is empty."""
    suggestions: tuple[Suggestion, ...] = ()


@dataclass(frozen=True, slots=True)
class SpawnSheet:
    """The fields in order, and what a start does."""

    fields: tuple[SheetField, ...]
    values: Mapping[str, str]
    """The values for the action, without empty ones and without those that sm would choose itself."""
    prediction: str
    """The effects of a start, in one sentence."""
    command: str
    """The equivalent command."""
    takes_files: bool | None
    """True if the agent can be given files with its task. None if the agent type is not known."""

    def problem(self) -> SheetField | None:
        """The first field with a problem, or None if an agent can start."""
        return next((field for field in self.fields if field.problem), None)


def spawn_sheet(
    known: Json | None, given: Mapping[str, str], target: Target, refusals: Mapping[str, str] | None = None
) -> SpawnSheet:
    """The sheet for what a person has entered.

    `known`: the answer of `GET /v1/spawn-choices`, or None until it has come. `given`: the values of the fields that
    the person has changed, with empty ones; directories are absolute. `target`: the workspace and the directory of the
    view. `refusals`: what the daemon has said against a value, by field.
    """
    facts = _Facts(
        known or {}, known is not None, {name: text.strip() for name, text in given.items()}, target
    )
    said = refusals or {}
    fields = tuple(replace(f, problem=said.get(f.field.name) or f.problem) for f in _fields(facts))
    values = {field.field.name: field.value for field in fields if field.value}
    values |= {"prompt": given["prompt"]} if "prompt" in values else {}
    if facts.implies_directory:
        values.pop("working_dir", None)
    if facts.parent:
        values.pop("workspace", None)
    action = ActionInput(fields=values)
    command = SPAWN_ACTION.command(replace(target, workspace=None, row=None), action)
    takes_files = None if facts.kind is None else bool(facts.kind["takes_files"])
    return SpawnSheet(fields, values, _prediction(facts, values), shlex.join(command), takes_files)


def kept_for_another(given: Mapping[str, str]) -> Mapping[str, str]:
    """The values with which the sheet of another agent begins: all but the task and what is unique to one agent."""
    return {name: text for name, text in given.items() if name not in ("prompt", "files", "name", "branch")}


@dataclass(frozen=True, slots=True)
class _Facts:
    """The answer of the daemon and the input of the person, with the defaults on which fields depend."""

    known: Json
    is_known: bool
    given: Mapping[str, str]
    target: Target
    types: Mapping[str, Json] = attribute(init=False)
    agent_type: str = attribute(init=False)
    parent: str = attribute(init=False)
    directory: str = attribute(init=False)
    place: Json = attribute(init=False)
    """The facts of the directory in which the agent starts, or empty if they are not known."""
    workspace: str = attribute(init=False)

    def __post_init__(self) -> None:
        found: dict[str, object] = {}
        found["types"] = types = {kind["name"]: kind for kind in self.known.get("types", ())}
        default = self.known.get("agent_type") or (next(iter(types)) if len(types) == 1 else "")
        given = self.given.get("agent_type", default)
        found["agent_type"] = next((name for name in types if name.lower() == given.lower()), given)
        found["parent"] = self.given.get("parent", "")
        for name, value in found.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "directory", self.given.get("working_dir", self._default_directory()))
        object.__setattr__(self, "place", self._place())
        object.__setattr__(self, "workspace", self._workspace())

    @property
    def kind(self) -> Json | None:
        return self.types.get(self.agent_type)

    @property
    def directories(self) -> Sequence[Json]:
        found: Sequence[Json] = self.known.get("directories", ())
        return found

    def home_of(self, workspace: str | None) -> str:
        """The directory of a workspace, or empty."""
        homes: Sequence[Json] = self.known.get("workspaces", ())
        return next((str(home["working_dir"]) for home in homes if home["slug"] == workspace), "")

    def _default_directory(self) -> str:
        if self.parent:
            return ""
        workspace = self.given.get("workspace") or self.target.workspace
        if workspace:
            return self.home_of(workspace)
        return self.target.cwd or next((str(each["path"]) for each in self.directories), "")

    def _place(self) -> Json:
        asked = self.known.get("directory")
        described = [*self.directories, *([asked] if asked else ())]
        if self.directory:
            return next((each for each in described if each["path"] == self.directory), {})
        return asked or {}

    def _workspace(self) -> str:
        if self.parent or "workspace" in self.given:
            return self.given.get("workspace", "")
        chosen, around = self.target.workspace or "", self.place.get("workspace")
        return "" if around not in (None, chosen) else chosen

    @property
    def lacks_directory(self) -> bool:
        """True if the agent would not know where to start."""
        return self.is_known and not self.directory and not self.place and not self.parent

    @property
    def implies_directory(self) -> bool:
        """True if the agent would start in the directory without being told."""
        if self.parent:
            return not self.directory
        default = self.home_of(self.workspace) if self.workspace else self.target.cwd
        return self.directory == default


def _fields(facts: _Facts) -> Iterator[SheetField]:
    values: dict[str, str] = {}
    for field in SPAWN_ACTION.fields:
        if not field.is_shown(values) or (field.name == "workspace" and facts.parent):
            continue
        shown = _field(facts, field)
        if not shown.problem and shown.value:
            shown = replace(shown, problem=field.problem(shown.value) or "")
        if not shown.problem and not shown.value and field.required:
            shown = replace(shown, problem=field.problem("") or "")
        values[field.name] = shown.value
        yield shown


def _field(facts: _Facts, field: InputField) -> SheetField:
    plain = SheetField(field, facts.given.get(field.name, ""), field.hint)
    match field.name:
        case "prompt":
            return replace(plain, problem=_too_long(plain.value))
        case "agent_type":
            return _type_field(facts, plain)
        case "working_dir":
            return _directory_field(facts, plain)
        case "place":
            return _place_field(facts, plain)
        case "model":
            return _model_field(facts, plain)
        case "budget":
            return replace(plain, notes=_estimate(facts))
        case "parent" if plain.value:
            note = f"{plain.value} is told how the agent ends, and can kill it."
            return replace(plain, notes=(note,))
        case "workspace":
            homes = facts.known.get("workspaces", ())
            suggestions = tuple(Suggestion(home["slug"], home["working_dir"]) for home in homes)
            return replace(plain, value=facts.workspace, suggestions=suggestions)
        case _:
            return plain


def _too_long(text: str) -> str:
    if len(text) <= PROMPT_MAX:
        return ""
    return (
        f"the task has {len(text):,} characters, at most {PROMPT_MAX:,} are possible: write it into a file, "
        "and name the file here"
    )


def _type_field(facts: _Facts, field: SheetField) -> SheetField:
    suggestions = tuple(Suggestion(name, kind["description"] or "") for name, kind in facts.types.items())
    is_empty = facts.is_known and not facts.types
    notes = tuple(_type_notes(facts.kind)) if facts.kind is not None else _NO_TYPES if is_empty else ()
    problem = ""
    if facts.is_known and facts.agent_type and facts.kind is None:
        problem = f"there is no agent type {facts.agent_type} here"
    return replace(
        field,
        value=facts.agent_type,
        hint="none is defined" if is_empty else field.hint,
        notes=notes,
        problem=problem,
        suggestions=suggestions,
    )


def _type_notes(kind: Json) -> Iterator[str]:
    """The purpose of the agent type, its program, and its permissions."""
    if kind["description"]:
        yield kind["description"]
    runs = ", ".join(filter(None, (kind["provider"], kind["model"])))
    mode = f", permission mode {kind['permission_mode']}" if kind["permission_mode"] else ""
    yield f"Runs {runs}{mode}."
    if kind["auto_allow"]:
        yield f"May do without asking: {_rules(kind['auto_allow'])}."
    if kind["auto_deny"]:
        yield f"May never do: {_rules(kind['auto_deny'])}."


def _rules(rules: Sequence[str]) -> str:
    more = f" and {len(rules) - _SHOWN_RULES} more" if len(rules) > _SHOWN_RULES else ""
    return ", ".join(rules[:_SHOWN_RULES]) + more


def _directory_field(facts: _Facts, field: SheetField) -> SheetField:
    place, notes, problem = facts.place, list[str](), ""
    if facts.directory and not facts.directory.startswith("/"):
        problem = "an absolute path is needed, such as /home/me/project"
    elif place.get("problem"):
        problem = f"{place['path']} {place['problem']}"
    elif place:
        around = f"workspace {place['workspace']}" if place["workspace"] else "in no workspace"
        git = {"worktree": "git repository", "copy": "no git repository"}.get(place["own_place"] or "")
        notes.append(", ".join(filter(None, (around, git or _git_words(place)))))
    elif facts.lacks_directory:
        problem = f"a value is missing: {field.field.title}"
    hint = (
        f"empty: the directory of {facts.parent}"
        if facts.parent
        else "an absolute path, such as /home/me/app"
    )
    suggestions = tuple(
        Suggestion(each["path"], f"workspace {each['workspace']}" if each["workspace"] else "")
        for each in facts.directories
    )
    return replace(
        field, value=facts.directory, hint=hint, notes=tuple(notes), problem=problem, suggestions=suggestions
    )


def _git_words(place: Json) -> str:
    return "a git repository without a commit" if place["own_place"] == "none" else ""


def _place_field(facts: _Facts, field: SheetField) -> SheetField:
    own = facts.place.get("own_place")
    choices = _PLACES.get(own, PLACE.choices)
    if facts.lacks_directory or facts.place.get("problem"):
        choices = _PLACES["none"]
    default = WORKTREE if own == "worktree" else ""
    given = facts.given.get(PLACE.name, default)
    value = given if given in dict(choices) else default
    notes = {
        WORKTREE: "Other agents and you do not see its changes until sm merge brings them back.",
        COPY: "Its changes stay in the copy until sm merge brings them back.",
        "": "It changes the files that you and other agents see there."
        if own in ("worktree", "copy")
        else "",
    }
    return replace(field, value=value, choices=choices, notes=tuple(filter(None, (notes[value],))))


def _model_field(facts: _Facts, field: SheetField) -> SheetField:
    model = None if facts.kind is None else facts.kind["model"]
    hint = f"empty: {model}, that of {facts.agent_type}" if model else field.hint
    return replace(field, hint=hint, suggestions=tuple(map(Suggestion, facts.known.get("models", ()))))


def _estimate(facts: _Facts) -> tuple[str, ...]:
    """The cost and the time of similar sessions, from the median to the 90th percentile."""
    if facts.kind is None:
        return ()
    estimate = facts.kind["estimate"]
    if not estimate:
        return ("No estimate: fewer than 5 similar sessions have completed.",)
    parts = []
    if estimate["cost_usd"]:
        parts.append(f"cost {_range(*map(dollars, _ends(estimate['cost_usd'])))}")
    if estimate["seconds"]:
        parts.append(f"took {_range(*map(span, _ends(estimate['seconds'])))}")
    if not parts:
        return ()
    return (f"Similar sessions {' and '.join(parts)} (median and 90th percentile of {estimate['samples']}).",)


def _ends(spread: Json) -> tuple[float, float]:
    return spread["p50"], spread["p90"]


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _prediction(facts: _Facts, values: Mapping[str, str]) -> str:
    """Say what a start does: `Starts Engineer in a new git worktree of /w, in workspace shop, below lead.`"""
    if "agent_type" not in values:
        return "Choose an agent type."
    if facts.lacks_directory:
        return "Choose a directory."
    where = facts.directory or facts.place.get("path") or "its directory"
    own = {WORKTREE: f"a new git worktree of {where}", COPY: f"a copy of {where}"}
    model = f" with {values['model']}" if "model" in values else ""
    place = own.get(values.get(PLACE.name, ""), where)
    workspace = facts.workspace or facts.place.get("workspace")
    team = f", in workspace {workspace}" if workspace and workspace != "-" and not facts.parent else ""
    parent = f", below {facts.parent}" if facts.parent else ""
    waits = "" if "prompt" in values else ". It waits for a message"
    return f"Starts {values['agent_type']}{model} in {place}{team}{parent}{waits}."


def suggested_text(values: Sequence[str], text: str) -> str:
    """The value that a person means by its number from 1, or the text itself."""
    if text.isascii() and text.isdecimal() and len(text) < 5 and 0 < int(text) <= len(values):
        return values[int(text) - 1]
    return text


def choices_query(given: Mapping[str, str], target: Target) -> Mapping[str, str]:
    """The query of `GET /v1/spawn-choices` for what a person has entered; directories are absolute."""
    values = {name: given.get(name, "").strip() for name in ("working_dir", "parent", "model")}
    if values["working_dir"] and not values["working_dir"].startswith("/"):
        values["working_dir"] = ""
    workspace = "" if values["parent"] else given.get("workspace", target.workspace or "").strip()
    query = {**values, "workspace": workspace, "cwd": target.cwd}
    return {name: value for name, value in query.items() if value}


def asked_field(query: Mapping[str, str], code: str) -> str:
    """The field that an error of `GET /v1/spawn-choices` with this code is about, or empty."""
    if code == "not_found":
        return "parent" if "parent" in query else "workspace"
    return SPAWN_ACTION.field_of(None, code)


def session_word(rows: Mapping[str, BoardRow], text: str) -> str:
    """The word by which the daemon finds the session that a person has chosen from a list of labels."""
    for row in rows.values():
        if row.label == text:
            return text if text in (row.data["friendly_name"], row.data["name"]) else row.id
    return text

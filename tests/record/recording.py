"""A recording of one version: a file for each scene, and how two versions differ. Pure, except for its files."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from sm.providers.claude.check.scripted_api import Kind, ModelRequest
from tests.record.placeholders import Placeholders, compact
from tests.record.stage import ClaudeStage

RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"
SAME = "same.txt"
"""Names the scenes of a version that a newer one plays in the same way, with that version."""
_SCENE = ".json"
KINDS = ("said", "hooks", "transcripts", "views", "requests")

Scene = Mapping[str, Sequence[Any]]
"""The recorded things by kind. A view has its rows under `screen`."""

_REQUEST_TEXT_MAX = 300


def scene_of(stage: ClaudeStage, *, whole: bool = False) -> Scene:
    """Collect what a scene left behind, with placeholders for what differs between two runs.

    `whole`: with what begins every conversation (`Placeholders.transcript`).
    """
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    places = Placeholders(stage.program.path, stage.program.version, [stage.pid], today)
    # A Notification comes when a dialog has been open for some seconds.
    known = [hook for hook in stage.hooks() if hook["hook_event_name"] != "Notification"]
    hooks = [places.value(hook) for hook in _by_agent(known)]
    transcripts = [
        places.transcript(
            "agent" if "subagents" in path.parts else "main",
            path.read_text(encoding="utf-8").splitlines(),
            whole=whole,
        )
        for path in stage.transcripts()
    ]
    views = [
        {
            "name": view.name,
            "size": view.size,
            "title": places.title(view.title),
            "state": None if view.state is None else places.value(view.state),
            "screen": places.rows(view.rows),
        }
        for view in stage.views
    ]
    requests = [places.value(request) for request in _requests(stage.api.requests, whole=whole)]
    said = [places.value(text) for text in stage.said]
    return {"said": said, "hooks": hooks, "transcripts": transcripts, "views": views, "requests": requests}


def _by_agent(hooks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Each sub-agent's after those of the agent itself, because they come at any moment."""
    agents = list(dict.fromkeys(str(hook.get("agent_id", "")) for hook in hooks))
    order = {name: number for number, name in enumerate(sorted(agents, key=lambda name: name != ""))}
    return sorted(hooks, key=lambda hook: order[str(hook.get("agent_id", ""))])


def _requests(requests: Sequence[ModelRequest], *, whole: bool) -> Iterator[Mapping[str, Any]]:
    """The form of each request. Those of claude for itself come at any moment, so they are last.

    `whole`: also with the keys, the system prompt and the tools of the first one.
    """
    tools: dict[str, Sequence[str]] = {}
    agents = list(dict.fromkeys(request.agent_id for request in requests))
    ordered = sorted(
        requests,
        key=lambda request: (
            request.kind is not Kind.TURN,
            bool(request.agent_id),
            agents.index(request.agent_id),
        ),
    )
    for request in ordered:
        body = request.body
        about: dict[str, Any] = {
            "kind": request.kind.value,
            "agent": bool(request.agent_id),
            "model": body["model"],
            "status": request.status,
        }
        before = tools.get(request.agent_id, None if whole else request.tools)
        tools[request.agent_id] = request.tools
        if before != request.tools:
            about["keys"] = sorted(body)
            about["system"] = [_shape(block) for block in body.get("system") or ()]
            about["tools"] = sorted(request.tools)
        about["messages"] = list(_newest(body["messages"]))
        yield about


def _newest(messages: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The messages behind the last one of the model."""
    begin = max((at for at, message in enumerate(messages) if message["role"] == "assistant"), default=-1) + 1
    for message in messages[begin:]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        yield {"role": message["role"], "content": [_shape(block) for block in blocks]}


def _shape(block: Mapping[str, Any]) -> str:
    """The kind of a block, with its text or the beginning and the end of a long one."""
    kind = str(block.get("type"))
    text = block.get("text") or block.get("content") or block.get("name") or ""
    if isinstance(text, list):
        text = " | ".join(_shape(inner) for inner in text)
    if kind == "tool_result" and block.get("is_error"):
        kind += " error"
    text = str(text)
    if len(text) > _REQUEST_TEXT_MAX:
        text = f"{text[:120]}<long text>{text[-60:]}"
    return f"{kind}: {text}"


def text_of(scene: Scene) -> str:
    """The text of a file: JSON with one line for each entry, and for each row of a screen.

    Members that all entries of a list have in common stand only once, and so do the rows at the top of a screen that
    the view before has too.
    """
    kinds = [f' "said": {compact(scene["said"])}', f' "hooks": {_list(*_factored(scene["hooks"]))}']
    files = []
    for file in scene["transcripts"]:
        common, _ = _factored([line for line in file["lines"] if _is_entry(line)])
        lines = [
            {name: value for name, value in line.items() if not _is_entry(line) or name not in common}
            for line in file["lines"]
        ]
        files.append(f'{{"of": {compact(file["of"])}, "lines": {_list(common, lines)}}}')
    kinds.append(f' "transcripts": [{", ".join(files)}]')
    published, _ = _factored([view["state"] for view in scene["views"] if view["state"] is not None])
    views, before = [], list[str]()
    for view in scene["views"]:
        state = view["state"]
        rest = None if state is None else {name: state[name] for name in state if name not in published}
        same = sum(
            1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, view["screen"], strict=False))
        )
        head = {**view, "state": rest, "same_rows": same}
        rows = ",\n   ".join(compact(_RUN.sub(_shorter, row)) for row in view["screen"][same:])
        before = view["screen"]
        del head["screen"]
        views.append(f'  {compact(head)[:-1]}, "screen": [\n   {rows}\n  ]}}')
    kinds.append(f' "states": {compact(published)}')
    kinds.append(' "views": [\n' + ",\n".join(views) + "\n ]")
    kinds.append(f' "requests": {_list({}, scene["requests"])}')
    return "{\n" + ",\n".join(kinds) + "\n}\n"


_RUN = re.compile(r"([\u2500\u254c])\1{19,}")
_SHORT_RUN = re.compile(r"\{([\u2500\u254c])\*(\d+)\}")


def _shorter(run: re.Match[str]) -> str:
    return f"{{{run[1]}*{len(run[0])}}}"


def _factored(
    entries: Sequence[Mapping[str, Any]],
) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]:
    """The members that all entries have, and the entries without these."""
    first = entries[0] if len(entries) > 1 else {}
    common = {
        name: value
        for name, value in first.items()
        if all(name in each and each[name] == value for each in entries)
    }
    return common, [{name: value for name, value in each.items() if name not in common} for each in entries]


def _is_entry(line: Mapping[str, Any]) -> bool:
    return "uuid" in line and "timestamp" in line


def _list(common: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> str:
    lines = ",\n".join(f"  {compact(each)}" for each in (common, *entries))
    return f"[\n{lines}\n ]"


def scene_in(text: str) -> Scene:
    """The scene of a text of `text_of`."""
    packed = json.loads(text)
    common, *hooks = packed["hooks"]
    transcripts = []
    for file in packed["transcripts"]:
        entry, *lines = file["lines"]
        transcripts.append(
            {**file, "lines": [{**entry, **line} if _is_entry(line) else line for line in lines]}
        )
    views, before = [], list[str]()
    for view in packed["views"]:
        rows = [_SHORT_RUN.sub(lambda run: run[1] * int(run[2]), row) for row in view["screen"]]
        before = [*before[: view.pop("same_rows")], *rows]
        state = None if view["state"] is None else {**packed["states"], **view["state"]}
        views.append({**view, "state": state, "screen": before})
    return {
        "said": packed["said"],
        "hooks": [{**common, **hook} for hook in hooks],
        "transcripts": transcripts,
        "views": views,
        "requests": packed["requests"][1:],
    }


def store(recordings: Mapping[str, Mapping[str, Scene]], directory: Path = RECORDINGS) -> None:
    """Write all recordings. A scene that a newer version plays in the same way is only named in `same.txt`."""
    kept: dict[str, dict[str, str]] = {}
    for version in _sorted(recordings, newest_first=True):
        folder, own, same = directory / version, dict[str, str](), list[str]()
        for name, text in sorted((name, text_of(scene)) for name, scene in recordings[version].items()):
            other = next((newer for newer, texts in kept.items() if texts.get(name) == text), None)
            if other is None:
                own[name] = text
            else:
                same.append(f"{name} {other}\n")
        kept[version] = own
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.glob(f"*{_SCENE}"):
            if file.stem not in own:
                file.unlink()
        for name, text in own.items():
            (folder / f"{name}{_SCENE}").write_text(text, encoding="utf-8")
        (folder / SAME).write_text("".join(same), encoding="utf-8")


def places(version: str, directory: Path = RECORDINGS) -> dict[str, Path]:
    """The files of the scenes of a recording, by name."""
    found = {file.stem: file for file in (directory / version).glob(f"*{_SCENE}")}
    same = directory / version / SAME
    for line in same.read_text(encoding="utf-8").splitlines() if same.exists() else ():
        name, other = line.split(" ")
        found[name] = directory / other / f"{name}{_SCENE}"
    return dict(sorted(found.items()))


def read(version: str, directory: Path = RECORDINGS) -> dict[str, Scene]:
    """The scenes of a recording, by name."""
    return {
        name: scene_in(file.read_text(encoding="utf-8")) for name, file in places(version, directory).items()
    }


def versions(directory: Path = RECORDINGS) -> list[str]:
    """The recorded versions, the oldest first."""
    return _sorted(folder.name for folder in directory.iterdir() if folder.is_dir())


def _sorted(names: Iterable[str], *, newest_first: bool = False) -> list[str]:
    return sorted(names, key=lambda name: [int(part) for part in name.split(".")], reverse=newest_first)

"""Replaces what differs between two runs of the same claude by stable values of the same form. Pure.

A placeholder keeps the form and the length of what it stands for, so that the readers of the product take it for the
same and a screen keeps its layout.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

ROOT_PREFIX = "/tmp/record-"
"""Eight hexadecimal digits follow: the directory of a scene."""
HOME = "/home/ann/recordings"
"""The directory of a scene in recordings. As long as the real one."""
PROGRAM = "/usr/local/bin/claude"
VERSION = "0.0.0"
PID, STARTED, PORT = 4242, "1000", 54321
AT_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z in milliseconds."""
_AFTER_MS = 1_600_000_000_000
"""A larger number is a time."""
_FIXED = {"procStart": STARTED, "osVersion": "Linux", "slug": "a-random-slug", "runId": "1-2"}
TEXT_MAX = 3_000
_LIST_MAX = 30

_OF_CONVERSATION = frozenset({"user", "assistant", "system", "queue-operation"})
_OF_QUEUE = frozenset({"queued_command", "hook_permission_decision"})
"""Types of lines and attachments whose texts stay whole, because the product reads them."""
_SURROUNDINGS = frozenset(
    [
        "agent_listing_delta",
        "date",
        "deferred_tools_delta",
        "environment",
        "model",
        "prompt_snapshot",
        "remote_session_change",
        "session_context",
        "skill_listing",
    ]
)
"""Attachments at the beginning of each conversation, which have nothing of it."""
_COPIES = frozenset(["api-request", "api-request-blob", "api-request-shape"])
"""Lines that repeat what goes to the API. `last-prompt` repeats a line of the user, and comes only sometimes."""
_HEAD = ("parentUuid", "type", "uuid")

_ROOT = re.compile(r"/tmp/record-[0-9a-f]{8}")
_ROOT_SLUG = re.compile(r"-tmp-record-[0-9a-f]{8}")
_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_OWN_ID = re.compile(r"\b(msg|toolu|req)_[0-9A-Za-z]{8,}")
_SHORT_ID = re.compile(r"\b(?:[ab][0-9a-z]{8}|a[0-9a-f]{16})\b")
_TASK_ID = re.compile(r"(?:(?<=ID: )|(?<=<task-id>)|(?<=/tasks/))b[0-9a-z]{8}\b")
_PLAN_FILE = re.compile(r"\bplans/[a-z0-9-]+\.md")
_PASTED_ID = re.compile(r'(<pasted_content id=")[0-9a-f]+|(</pasted_content id=")[0-9a-f]+')
_ISO = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")
_HEX = re.compile(r"\b(?:[0-9a-f]{20,}|[0-9a-f]{16})\b")
_BUILD = re.compile(r"\b(cc_version=[\d.]+)\.[0-9a-f]{3}\b")
_SOCKET = re.compile(r"\bcc-socks/\d+")
_PID_DOMAIN = re.compile(r"pid:\[\d+\]")
_PORT = re.compile(r"127\.0\.0\.1:\d+")
_NUMBERS_OF_TIME = re.compile(
    r"[dD]uration|^seconds|(?:At|Ms|_ms|[tT]imestamp|[lL]atency|mtime|seconds|elapsed|Seconds)$"
)
_HASHES = re.compile(r"(?:[hH]ash|signature|etag)$")
_NUMBERS_OF_SIZE = re.compile(r"(?:[bB]ytes|[sS]ize|[cC]hars|[lL]ength)$")

_CLOCK = re.compile(r"\b\d{1,2}:\d\d( ?)[AP]M\b", re.IGNORECASE)
_SPENT = re.compile(r"\b(?:\d+m )?\d+(?:\.\d)?s\b")
_SPINNER = re.compile(r"^( *)[·✢✳✶✻✽✺*] [A-Z][\w' -]*?(?:…|\.\.\.)")
_DONE = re.compile(r"^( *)[·✢✳✶✻✽✺] [A-Z][\w-]+ for \d+")
_TITLE_SPINNER = re.compile(r"^[\u2800-\u28ff]|^[◐◑◒◓]")
_TIP = re.compile(r"^( *⎿ +Tip: ).*")
_RUNNING = re.compile(r"^  (?=[A-Z]\w+\()")
"""The bullet before a running tool blinks."""
_EFFORT = re.compile(r" {2,}\S \w+ · /effort$")
"""A hint that disappears after some seconds."""
_RIGHT = re.compile(r" {2,}(?=0s · ↓ 1 tokens$)")
_TOKENS = re.compile(r"[↑↓] ?[\d.]+k? tokens")


class Placeholders:
    """The placeholders of one scene: equal values get equal placeholders, in the order in which they appear."""

    def __init__(self, program: str, version: str, pids: Sequence[int], today: str) -> None:
        self._program, self._version, self._today = program, version, today
        self._pids = {pid: PID + number for number, pid in enumerate(pids)}
        self._ids: dict[str, str] = {}

    def text(self, text: str) -> str:
        """Replace the varying parts of a text."""
        text = _ROOT.sub(HOME, text)
        text = _ROOT_SLUG.sub(HOME.replace("/", "-"), text)
        text = text.replace(self._program, PROGRAM).replace(self._version, VERSION)
        text = _UUID.sub(lambda found: self._id(found[0], "00000000-0000-4000-8000-{:012x}"), text)
        text = _OWN_ID.sub(lambda found: self._id(found[0], f"{found[1]}_{{:08d}}"), text)
        text = _TASK_ID.sub(lambda found: self._id(found[0], "b{:08d}"), text)
        text = _SHORT_ID.sub(lambda found: self._short(found[0]), text)
        text = _PLAN_FILE.sub("plans/plan.md", text)
        text = _PASTED_ID.sub(lambda found: f"{found[1] or found[2]}1234", text)
        text = _ISO.sub("2026-01-01T00:00:00.000Z", text)
        text = text.replace(self._today, "2026-01-01")
        text = _HEX.sub(lambda found: "0123456789abcdef"[: len(found[0])], text)
        text = _BUILD.sub(r"\1.000", text)
        text = _SOCKET.sub(f"cc-socks/{PID}", text)
        text = _PID_DOMAIN.sub("pid:[1]", text)
        return _PORT.sub(f"127.0.0.1:{PORT}", text)

    def _id(self, found: str, form: str) -> str:
        if found not in self._ids:
            kind = form.partition("{")[0]
            number = 1 + sum(known.startswith(kind) for known in self._ids.values())
            self._ids[found] = form.format(number)
        return self._ids[found]

    def _short(self, found: str) -> str:
        """An id of a sub-agent or of a task. A word that only looks like one has no digit."""
        if found not in self._ids and not any(letter.isdigit() for letter in found):
            return found
        return self._id(found, f"{found[0]}{{:0{len(found) - 1}d}}")

    def value(self, value: Any, key: str = "", *, text_max: int = TEXT_MAX, list_max: int = _LIST_MAX) -> Any:
        """Replace the varying parts of a value of JSON, and shorten long texts and lists."""
        match value:
            case Mapping():
                return {
                    self.text(name): self.value(inner, name, text_max=text_max, list_max=list_max)
                    for name, inner in value.items()
                }
            case list():
                kept = [
                    self.value(inner, key, text_max=text_max, list_max=list_max) for inner in value[:list_max]
                ]
                return kept + (["<more>"] if len(value) > list_max else [])
            case str() if key in _FIXED:
                return _FIXED[key]
            case str() if _HASHES.search(key):
                return "0123abcd"
            case str():
                text = self.text(value)
                return text if len(text) <= text_max else f"{text[: text_max // 2]}<long text>"
            case bool() | None:
                return value
            case int() | float() if key in ("pid", "ppid"):
                return self._pids.get(int(value), PID)
            case int() | float() if value > _AFTER_MS:
                return AT_MS
            case int() | float() if _NUMBERS_OF_TIME.search(key):
                return 1 if value else 0
            case int() | float() if _NUMBERS_OF_SIZE.search(key):
                return 1 if value else 0
            case _:
                return value

    def transcript(self, of: str, lines: Sequence[str], *, whole: bool) -> Mapping[str, Any]:
        """The lines of a transcript. The time of each is that of its number.

        `whole`: with what begins every conversation. Otherwise only the heads of these lines are kept.
        """
        entries, about = list[Any](), list[Any]()
        values = [json.loads(line) for line in lines]
        # claude writes lines about the whole conversation at any moment, and again: they are last, and once.
        for value in sorted(_without_farewell(values), key=lambda value: not _is_entry(value)):
            kind, attachment = value.get("type"), value.get("attachment", {}).get("type", "")
            if kind == "last-prompt" or (kind in _COPIES and not whole):
                continue
            if attachment in _SURROUNDINGS and not whole:
                head = {name: value[name] for name in _HEAD if name in value}
                value = {**head, "attachment": {"type": attachment}}
            is_read = kind in _OF_CONVERSATION or attachment in _OF_QUEUE
            made = self.value(value) if is_read else self.value(value, text_max=100, list_max=3)
            if _is_entry(made):
                if "timestamp" in made:
                    number = len(entries)
                    made["timestamp"] = f"2026-01-01T00:{number // 60:02d}:{number % 60:02d}.000Z"
                entries.append(made)
            elif made not in about:
                about.append(made)
        return {"of": of, "lines": entries + sorted(about, key=compact)}

    def rows(self, rows: Sequence[str]) -> list[str]:
        return steady_rows([self.text(row) for row in rows])

    def title(self, title: str) -> str:
        return _TITLE_SPINNER.sub("◐" if title[:1] in "◐◑◒◓" else "⠂", self.text(title))


def _without_farewell(values: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The lines without those about `/exit`: claude ends before it has written them, or after that."""
    texts = [str(value.get("message", {}).get("content", "")) for value in values]
    at = {place for place, text in enumerate(texts) if text.startswith("<command-name>/exit<")}
    around = {near for place in at for near in (place - 1, place + 1) if 0 <= near < len(texts)}
    left_out = at | {place for place in around if texts[place].startswith("<local-command-")}
    return [value for place, value in enumerate(values) if place not in left_out]


def _is_entry(line: Mapping[str, Any]) -> bool:
    """True for a line whose place among the others matters."""
    return "uuid" in line or line.get("type") == "queue-operation"


def steady_rows(rows: Sequence[str]) -> list[str]:
    """The rows of a screen without what moves by itself: the spinner with its random word, clocks, random tips."""
    return [_steady(row) for row in rows]


def _steady(row: str) -> str:
    row = _SPINNER.sub(r"\1✻ Working…", row)
    row = _DONE.sub(r"\1✻ Worked for 0", row)
    row = _RUNNING.sub("● ", row)
    row = _TIP.sub(r"\1of the day", row)
    row = _CLOCK.sub(r"9:00\1PM", row)
    row = _TOKENS.sub("↓ 1 tokens", row)
    row = _SPENT.sub("0s", row).rstrip()
    return _RIGHT.sub("  ", _EFFORT.sub("", row)).rstrip()


def compact(value: object) -> str:
    """The text of a value of JSON in one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

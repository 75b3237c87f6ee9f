"""A storm of messages to real claudes, of tests and of `python -m bench storm`.

Each message must arrive once and unchanged, or be reported as unconfirmed. The sent messages are compared with the
requests that the scripted API received, without help from sm.
"""

import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice, pairwise
from pathlib import Path
from threading import Event, Lock
from typing import Any, Literal

from sm.client.http import Client, DaemonAway, new_key
from tests.claude_instance import ClaudeInstance, calling_session
from tests.instance import until
from tests.integration.special_texts import as_delivered, is_delivered
from tests.scripted_api import ScriptedApi, tool
from tests.waits import raise_failures, waiting

ARRIVED = ("submitted", "acknowledged")
OPEN = ("queued", "delivering")
HEADER = re.compile(r"^\[sm\] from .*, message (\d+)$", re.MULTILINE)
POINTER = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
SHORT_TTL_S = 2.0

Text = tuple[str, str]
"""The text to send, and the text that must arrive below its header."""
Answer = Literal["approve", "deny", "leave"]


@dataclass(frozen=True)
class Sent:
    id: int
    session_id: str
    kind: str
    rendered: str = field(repr=False)
    """The message as it must arrive."""
    short: bool
    """True if the message expires while it is held."""


class Storm:
    """Sends messages, answers dialogs and records both. The daemon may be killed at any time."""

    def __init__(self, claudes: ClaudeInstance, api: ScriptedApi, seed: int) -> None:
        self.claudes = claudes
        self.api = api
        self.rng = random.Random(seed)
        self.sent: dict[int, Sent] = {}
        self.approved: set[str] = set()
        self.dialogs: Counter[str] = Counter()
        self.kills = 0
        self.overtaken = 0
        self._client = Client(str(claudes.socket), on_away=self._wait_for_daemon)
        self._lock = Lock()

    def _wait_for_daemon(self, away: DaemonAway) -> None:
        time.sleep(0.02)  # the killer restarts the daemon, and nothing reports when it is ready

    # One message

    def send(
        self, session_id: str, kind: str, text: Text, mode: str = "auto", ttl_s: float | None = None
    ) -> Sent:
        body = {"to": session_id, "text": text[0], "mode": mode, "ttl_s": ttl_s}
        stored = self._client.post("/v1/messages", body, key=new_key())
        return self._record(stored, session_id, kind, text[1], ttl_s is not None)

    def send_by_command(self, session_id: str, kind: str, text: Text) -> Sent:
        ended = self.claudes.run("send", "--json", "--wait", "30", session_id, "--", text[0])
        assert ended.stdout, ended
        return self._record(json.loads(ended.stdout), session_id, kind, text[1], False)

    def _record(self, stored: dict[str, Any], session_id: str, kind: str, expected: str, short: bool) -> Sent:
        rendered = as_delivered(f"[sm] from operator, message {stored['message_id']}\n{expected}")
        sent = Sent(stored["message_id"], session_id, kind, rendered, short)
        with self._lock:
            self.sent[sent.id] = sent
        return sent

    def fetch(self, sent: Sent, wait_s: int | None = None) -> dict[str, Any]:
        message: dict[str, Any] = self._client.get(f"/v1/messages/{sent.id}", {"wait_s": wait_s})
        return message

    def wait_final(self, *sent: Sent) -> None:
        for message in sent:
            with waiting(f"message {message.id} is final"):
                while self.fetch(message, 20)["status"] in OPEN:
                    raise_failures(f"message {message.id} is final")

    # Many messages to one claude

    def idle(self, session_id: str, kind: str, texts: Sequence[Text]) -> None:
        """Send each text while claude is idle: most after waiting for that, some held by sm until then."""
        for text in texts:
            choice = self.rng.randrange(12)
            if choice > 3:
                self.wait_idle(session_id)
                sent = self.send(session_id, kind, text)
            elif choice > 0:
                sent = self.send(session_id, kind, text, mode="idle")
            else:
                self.wait_idle(session_id)
                sent = self.send_by_command(session_id, kind, text)
            self.wait_final(sent)

    def busy(self, session_id: str, kind: str, texts: Sequence[Text]) -> None:
        """Send all texts within one turn: claude reads the first ones after its tools, the others at its end."""
        self.wait_idle(session_id)
        hold = f"hold-{new_key()}"
        sleeps = "[[then]]".join(["[[tool:Bash:sleep 0.7]]"] * 3)
        work = f"work {sleeps}[[then]][[text:so]][[hold:{hold}]]"
        try:
            first = self.send(session_id, "turn", (work, work))
            self.wait_final(first, *(self.send(session_id, kind, text) for text in texts))
        finally:
            self.api.release(hold)

    def urgent(self, session_id: str, kind: str, texts: Sequence[Text]) -> None:
        """Send the last text as urgent while the others wait in claude's queue. All must arrive."""
        self.wait_idle(session_id)
        hold = f"hold-{new_key()}"
        work = f"work [[text:so]][[hold:{hold}]]"
        try:
            self.wait_final(self.send(session_id, "turn", (work, work)))
            sent = [self.send(session_id, kind, text) for text in texts[:-1]]
            self.wait_final(*sent, self.send(session_id, kind, texts[-1], mode="urgent"))
        finally:
            self.api.release(hold)

    def interrupt(self, session_id: str, kind: str, texts: Sequence[Text]) -> None:
        """Interrupt claude while messages wait in its queue. All must arrive."""
        self.wait_idle(session_id)
        hold = f"hold-{new_key()}"
        work = f"work [[text:so]][[hold:{hold}]]"
        try:
            self.wait_final(self.send(session_id, "turn", (work, work)))
            self.wait_final(*(self.send(session_id, kind, text) for text in texts))
            self.claudes.run("interrupt", session_id)  # which fails when the daemon dies meanwhile
        finally:
            self.api.release(hold)

    def dialog(self, session_id: str, kind: str, texts: Sequence[Text], answer: Answer) -> None:
        """Send the texts around the moment of a permission dialog, then approve or deny it.

        "leave" denies only after the short-lived messages have expired.
        """
        self.wait_idle(session_id)
        name, request = self.ask(session_id, kind, texts, answer)
        if request is None:
            self.dialogs["none"] += 1
            return
        if answer == "leave":  # a message in claude's own queue cannot be withdrawn any more
            short = [sent for sent in self.sent_to(session_id) if sent.short]
            until(lambda: all(self.fetch(sent)["status"] != "queued" for sent in short), "they expire")
        if answer == "approve":
            self.approved.add(name)
        self._answer(request, "approve" if answer == "approve" else "deny")
        self.dialogs[answer] += 1
        self.wait_final(*self.sent_to(session_id))

    def ask(
        self, session_id: str, kind: str, texts: Sequence[Text], answer: Answer
    ) -> tuple[str, str | None]:
        """Ask for a permission; return the file that the command writes, and the request unless claude may not ask."""
        name = f"ran-{new_key()}"
        command = f'python3 -c \'open("{name}", "w")\''
        wait = f"[[wait:{self.rng.uniform(0, 0.8):.2f}]]"
        ask = f"ask {wait}{tool('Bash', command=command, description='d')}[[then]][[text:so]]"
        first = self.send(session_id, kind, (ask, ask))
        self.wait_final(first)
        if self.fetch(first)["status"] not in ARRIVED:
            return name, None
        for number, text in enumerate(texts):
            time.sleep(self.rng.uniform(0, 0.4))  # no synchronisation: any moment will do
            self.send(session_id, kind, text, ttl_s=SHORT_TTL_S if answer == "leave" and number % 2 else None)
        request = until(lambda: self._find_request(session_id, command, name), f"asked about {command}")
        return name, request if request != "passed over" else None

    def _passed_over(self, name: str) -> bool:
        """True if claude sent this prompt together with a later one, which the API answered."""
        turns = self.api.turns()
        newest = [turn for turn in turns if name in turn.prompt]
        return not newest and any(name in text for turn in turns[-20:] for text in turn.user_texts)

    def _find_request(self, session_id: str, command: str, name: str) -> str | None:
        if self._passed_over(name):
            return "passed over"
        requests = self._client.get("/v1/requests", {"session": session_id})
        names = [r["request_id"] for r in requests if (r["arguments"] or {}).get("command") == command]
        return names[0] if names else None

    def _answer(self, request: str, verb: str) -> None:
        """Answer with the real command, which may fail although the answer is stored when the daemon dies."""
        ended = self.claudes.run(verb, request)
        if ended.returncode != 0:
            assert self.kills, ended
            self.claudes.run(verb, request)
        now = until(lambda: self._closed_request(request), f"{request} is closed")
        assert (now["state"], now["answered_by"]) == ("answered", "operator"), (ended, now)

    def _closed_request(self, request: str) -> dict[str, Any] | None:
        now: dict[str, Any] = self._client.get(f"/v1/requests/{request}")
        return now if now["state"] != "open" else None

    def sent_to(self, session_id: str) -> list[Sent]:
        return [sent for sent in list(self.sent.values()) if sent.session_id == session_id]

    def wait_idle(self, session_id: str) -> None:
        self.claudes.idle(session_id)

    # Results

    def messages(self) -> dict[int, dict[str, Any]]:
        log = self._client.get("/v1/messages", {"limit": 10_000})
        return {m["message_id"]: m for m in log if m["message_id"] in self.sent}

    def are_read(self) -> bool:
        return all(message["status"] != "submitted" for message in self.messages().values())

    def conversations(self) -> dict[str, list[int]]:
        """The numbers of the messages in the latest conversation of each session, in order, of which none is wrong."""
        arrived, wrong = self.read_conversations()
        assert not wrong, "\n".join(wrong)
        return arrived

    def read_conversations(self) -> tuple[dict[str, list[int]], list[str]]:
        """The numbers of the messages in the latest conversation of each session, in order, and all faults.

        In each API request each text of sm must be one complete message, and no message may come twice.
        """
        arrived: dict[str, list[int]] = {}
        wrong: dict[str, str] = {}
        numbers_of: dict[str, list[int]] = {}
        for request in self.api.turns():
            for text in request.user_texts:
                if text not in numbers_of:
                    numbers_of[text] = [int(number) for number in HEADER.findall(text)]
                    problem = self._problem(text, numbers_of[text])
                    if problem:
                        wrong[text] = f"messages {numbers_of[text]} {problem}: {text[:1000]!r}"
            numbers = [number for text in request.user_texts for number in numbers_of[text]]
            twice = [number for number, count in Counter(numbers).items() if count > 1]
            if twice:
                wrong[f"{twice}"] = f"messages {twice} doubled"
            if any(self.sent[number].session_id != calling_session(request) for number in numbers):
                wrong[f"{numbers}"] = f"messages {numbers} reached another agent"
            arrived[calling_session(request)] = numbers
        return arrived, [*wrong.values()]

    def _problem(self, text: str, numbers: list[int]) -> str:
        """The reason why a text is not exactly one sent message; empty if it is, or if it is not from sm."""
        if len(numbers) > 1:
            return "merged"
        if numbers and not is_delivered(text, self.sent[numbers[0]].rendered):
            return "changed"
        return ""


@contextmanager
def kill_daemon_during(storm: Storm, total: int, kills: int) -> Iterator[None]:
    """Kill the daemon `kills` times, spread over `total` messages. The next command starts it."""
    over = Event()

    def kill() -> None:
        for number in range(1, kills + 1):
            while len(storm.sent) < number * total / (kills + 1):
                if over.wait(0.02):
                    return
            storm.kills += 1
            storm.claudes.kill_daemon()
            storm.claudes.sm("status")

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(kill)
        try:
            yield
        finally:
            over.set()
        future.result()


def plain_texts(rng: random.Random) -> Iterator[Text]:
    for number in range(10_000):
        words = " ".join(rng.choices(["to", "be", "or", "not", "ünïcode", "\N{SNOWMAN}", "漢字"], k=8))
        shapes = (
            f"{number} {words}",
            f"{number} {words}",
            f"{number} {words}\n\n\tindented by a tab\n  by blanks\n- {words}",
            f"{number} {words} " * 40,
            "\n".join(f"{number} line {n}: {words}" for n in range(40)),
        )
        text = rng.choice(shapes)
        yield text, as_delivered(text)


def chunks(texts: Sequence[Text], size: int) -> list[Sequence[Text]]:
    return [texts[at : at + size] for at in range(0, len(texts), size)]


@dataclass(frozen=True)
class Mix:
    """How many messages of each kind a storm sends to all sessions together."""

    idle: int
    busy: int
    urgent: int
    """Groups of three messages, of which the last is urgent."""
    dialogs: int
    """Groups of a message that makes claude ask for permission, and four more."""
    odd: Sequence[Text] = ()
    interrupts: int = 0
    """Groups of three messages that wait in the queue of a claude when it is interrupted."""


def run_storm(storm: Storm, sessions: Sequence[str], mix: Mix) -> None:
    """Send the messages to all sessions in parallel, in random order."""
    texts = plain_texts(storm.rng)
    acts: list[tuple[Any, ...]] = [
        (storm.idle, "idle", part) for part in chunks([*islice(texts, mix.idle)], 10)
    ]
    acts += [(storm.busy, "busy", part) for part in chunks([*islice(texts, mix.busy)], 10)]
    acts += [(storm.urgent, "urgent", part) for part in chunks([*islice(texts, 3 * mix.urgent)], 3)]
    acts += [(storm.interrupt, "interrupt", part) for part in chunks([*islice(texts, 3 * mix.interrupts)], 3)]
    acts += [
        (storm.dialog, "dialog", part, answer)
        for part, answer in zip(
            chunks([*islice(texts, 4 * mix.dialogs)], 4), cycle(("approve", "deny", "leave")), strict=False
        )
    ]
    for number, part in enumerate(chunks(mix.odd, 5)):
        acts.append((storm.busy if number % 2 else storm.idle, "odd", part))
    storm.rng.shuffle(acts)

    def run(number: int) -> None:
        for act, *arguments in acts[number :: len(sessions)]:
            act(sessions[number], *arguments)
        storm.wait_idle(sessions[number])

    with ThreadPoolExecutor(len(sessions)) as pool:
        for done in [pool.submit(run, number) for number in range(len(sessions))]:
            done.result()


def box(screen: str) -> list[str]:
    """The lines of the input box; none while claude has not drawn it."""
    lines = screen.splitlines()
    rules = [number for number, line in enumerate(lines) if line.startswith("──")]
    return lines[rules[-2] + 1 : rules[-1]] if len(rules) > 1 else []


def is_empty(box: list[str]) -> bool:
    return [line.strip(f"{POINTER}\xa0 ") for line in box] == [""]


def faults(
    storm: Storm, messages: Mapping[int, Mapping[str, Any]], may_be_unconfirmed: bool = False
) -> Iterator[str]:
    """Describe each message whose status is not what the requests of the agents show.

    `may_be_unconfirmed`: a message that arrived may be unconfirmed, for storms in which the daemon is killed.
    """
    conversations, wrong = storm.read_conversations()
    yield from wrong
    arrived = {number for numbers in conversations.values() for number in numbers}
    for number, sent in storm.sent.items():
        fault = ""
        message = messages.get(number, {"status": "missing", "reason": ""})
        match message["status"]:
            case "acknowledged" if number not in arrived:
                fault = "acknowledged, but no request of the agent holds it"
            case "acknowledged":
                pass
            case "submitted" if number in arrived:
                fault = "submitted for ever, though the agent has read it and is idle"
            case "submitted":
                fault = "submitted, but in neither the queue nor the conversation of the idle agent"
            case "unconfirmed" if not message["reason"]:
                fault = "unconfirmed without a reason"
            case "unconfirmed" if number in arrived and not may_be_unconfirmed:
                fault = "unconfirmed, but it arrived whole"
            case "unconfirmed":
                pass
            case "expired" if number in arrived:
                fault = "expired, but it arrived"
            case "expired" if sent.short:
                pass
            case _:
                fault = "lost"
        if fault:
            yield f"message {number} ({sent.kind}) is {fault}: {message['status']}: {message['reason']}"


def check(storm: Storm, pids: dict[str, int]) -> dict[int, dict[str, Any]]:
    """Wait until each message is final, then compare its status with the conversations."""
    storm.wait_final(*storm.sent.values())
    # claude may be idle for a moment while messages wait in its queue.
    until(storm.are_read, "the turn of every message that has arrived has ended")
    for session_id in pids:
        storm.wait_idle(session_id)
    messages = storm.messages()
    wrong = [*faults(storm, messages, may_be_unconfirmed=True)]
    assert not wrong, "\n".join(wrong)
    arrived = storm.conversations()
    for session_id, numbers in arrived.items():
        # A message that comes just at the end of a turn may overtake messages in claude's queue.
        in_turn = [number for number in numbers if storm.sent[number].kind != "urgent"]
        storm.overtaken += sum(after < before for before, after in pairwise(in_turn))
        assert storm.claudes.session(session_id)["pid"] == pids[session_id]
        assert Path(f"/proc/{pids[session_id]}").exists()
        storm.claudes.redraw(session_id)
        until(lambda: is_empty(box(storm.claudes.screen(session_id))), "the input box is empty")  # noqa: B023 - called in this iteration
    assert {path.name for path in storm.claudes.work.iterdir()} == storm.approved | {"README.md"}
    return messages


def summary(storm: Storm, messages: dict[int, dict[str, Any]]) -> str:
    """The counts of a run."""
    lines = [
        f"\n{len(messages)} messages, {storm.kills} kills, dialogs {dict(storm.dialogs)}, "
        f"{storm.overtaken} heard before one that was sent earlier"
    ]
    rows = Counter((storm.sent[number].kind, message["status"]) for number, message in messages.items())
    for kind in sorted({kind for kind, _ in rows}):
        counts = [f"{count} {status}" for (of, status), count in sorted(rows.items()) if of == kind]
        lines.append(f"  {kind}: {', '.join(counts)}")
    lines += [
        f"  message {number} ({storm.sent[number].kind}): {message['reason']}"
        for number, message in messages.items()
        if message["status"] == "unconfirmed"
    ]
    return "\n".join(lines)


def start_sessions(storm: Storm, count: int) -> dict[str, int]:
    """Start `count` idle claudes; return the pid of each session."""
    session_ids = [storm.claudes.spawn("Editor", f"begin {n}")["session_id"] for n in range(count)]
    return {session_id: storm.claudes.idle(session_id)["pid"] for session_id in session_ids}

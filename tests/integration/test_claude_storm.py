"""Many messages to real claudes: each arrives once and as it was written, or its sender is told that it may not have.

What was sent is held against what the API was asked, in which nothing of sm has a part.
"""

import json
import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice, pairwise
from pathlib import Path
from threading import Event, Lock
from typing import Any, Literal

import pytest

from sm.client.http import Away, Client, new_key
from tests.claude_fixtures import scripted_api
from tests.claude_instance import ClaudeInstance, whose
from tests.instance import until
from tests.integration.odd_texts import LONG, as_heard, odd_texts
from tests.load import Limit
from tests.scripted_api import ScriptedApi, tool

LONG_RUN = os.environ.get("SM_LONG") == "1"
KILLS = 5
ARRIVED = ("submitted", "acknowledged")
OPEN = ("queued", "delivering")
HEADER = re.compile(r"^\[sm\] from .*, message (\d+)$", re.MULTILINE)
POINTER = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
WITHIN_S = 60.0
SHORT_TTL_S = 2.0

Text = tuple[str, str]
"""What is sent, and how it must be heard below its header."""
Answer = Literal["approve", "deny", "leave"]


@dataclass(frozen=True)
class Sent:
    id: int
    session_id: str
    kind: str
    letter: str = field(repr=False)
    """As it must be heard."""
    short: bool
    """It is to expire where it is held."""


class Storm:
    """Sends, answers dialogs, and remembers what it did, while somebody may kill the daemon under it."""

    def __init__(self, claudes: ClaudeInstance, api: ScriptedApi, seed: int) -> None:
        self.claudes = claudes
        self.api = api
        self.moment = random.Random(seed)
        self.sent: dict[int, Sent] = {}
        self.approved: set[str] = set()
        self.dialogs: Counter[str] = Counter()
        self.kills = 0
        self.overtaken = 0
        self._client = Client(str(claudes.socket), on_away=self._away)
        self._lock = Lock()

    def _away(self, away: Away) -> None:
        time.sleep(0.02)  # who has killed it starts it again, and nobody tells when it is there

    # One message

    def send(
        self, session_id: str, kind: str, text: Text, mode: str = "auto", ttl_s: float | None = None
    ) -> Sent:
        body = {"to": session_id, "text": text[0], "mode": mode, "ttl_s": ttl_s}
        stored = self._client.post("/v1/messages", body, key=new_key())
        return self._keep(stored, session_id, kind, text[1], ttl_s is not None)

    def send_by_command(self, session_id: str, kind: str, text: Text) -> Sent:
        ended = self.claudes.run("send", "--json", "--wait", "30", session_id, "--", text[0])
        assert ended.stdout, ended
        return self._keep(json.loads(ended.stdout), session_id, kind, text[1], False)

    def _keep(self, stored: dict[str, Any], session_id: str, kind: str, heard: str, short: bool) -> Sent:
        letter = as_heard(f"[sm] from operator, message {stored['message_id']}\n{heard}")
        sent = Sent(stored["message_id"], session_id, kind, letter, short)
        with self._lock:
            self.sent[sent.id] = sent
        return sent

    def found(self, sent: Sent, wait_s: int | None = None) -> dict[str, Any]:
        message: dict[str, Any] = self._client.get(f"/v1/messages/{sent.id}", {"wait_s": wait_s})
        return message

    def final(self, *sent: Sent) -> None:
        """Wait until it is known what became of each."""
        limit = Limit(WITHIN_S)
        for each in sent:
            while (now := self.found(each, 20))["status"] in OPEN:
                assert not limit.is_over, f"{now}\n{self.screen(each.session_id)}"

    # What a claude does meanwhile

    def idle(self, session_id: str, kind: str, texts: Sequence[Text]) -> None:
        """Each while it rests: most wait for that themselves, some are held until then by sm."""
        for text in texts:
            how = self.moment.randrange(12)
            if how > 3:
                self.rest(session_id)
                sent = self.send(session_id, kind, text)
            elif how > 0:
                sent = self.send(session_id, kind, text, mode="idle")
            else:
                self.rest(session_id)
                sent = self.send_by_command(session_id, kind, text)
            self.final(sent)

    def busy(self, session_id: str, kind: str, texts: Sequence[Text]) -> None:
        """All within one turn: the first of them are heard behind its tools, the others at its end."""
        self.rest(session_id)
        hold = f"hold-{new_key()}"
        sleeps = "[[then]]".join(["[[tool:Bash:sleep 0.7]]"] * 3)
        work = f"work {sleeps}[[then]][[text:so]][[hold:{hold}]]"
        try:
            first = self.send(session_id, "turn", (work, work))
            self.final(first, *(self.send(session_id, kind, text) for text in texts))
        finally:
            self.api.release(hold)

    def urgent(self, session_id: str, kind: str, texts: Sequence[Text]) -> None:
        """The last of them interrupts what the others wait for; they are heard as well."""
        self.rest(session_id)
        hold = f"hold-{new_key()}"
        work = f"work [[text:so]][[hold:{hold}]]"
        try:
            self.final(self.send(session_id, "turn", (work, work)))
            sent = [self.send(session_id, kind, text) for text in texts[:-1]]
            self.final(*sent, self.send(session_id, kind, texts[-1], mode="urgent"))
        finally:
            self.api.release(hold)

    def dialog(self, session_id: str, kind: str, texts: Sequence[Text], answer: Answer) -> None:
        """All somewhere around the moment in which a permission is asked for. Then that is approved, or denied, or left
        until those have expired that have no time.
        """
        self.rest(session_id)
        name, request = self.ask(session_id, kind, texts, answer)
        if request is None:
            self.dialogs["none"] += 1
            return
        if answer == "leave":  # but for one that stands below the dialog already: nobody can take it back
            short = [each for each in self.of(session_id) if each.short]
            until(lambda: all(self.found(each)["status"] != "queued" for each in short), "they expire")
        if answer == "approve":
            self.approved.add(name)
        self._answer(request, "approve" if answer == "approve" else "deny")
        self.dialogs[answer] += 1
        self.final(*self.of(session_id))

    def ask(
        self, session_id: str, kind: str, texts: Sequence[Text], answer: Answer
    ) -> tuple[str, str | None]:
        """The file that its command would write, and the request; None where it is not certain to be asked."""
        name = f"ran-{new_key()}"
        command = f'python3 -c \'open("{name}", "w")\''
        wait = f"[[wait:{self.moment.uniform(0, 0.8):.2f}]]"
        ask = f"ask {wait}{tool('Bash', command=command, description='d')}[[then]][[text:so]]"
        first = self.send(session_id, kind, (ask, ask))
        self.final(first)
        if self.found(first)["status"] not in ARRIVED:
            return name, None
        for number, text in enumerate(texts):
            time.sleep(self.moment.uniform(0, 0.4))  # any moment is as good as another
            self.send(session_id, kind, text, ttl_s=SHORT_TTL_S if answer == "leave" and number % 2 else None)
        request = until(lambda: self._asked(session_id, command, name), f"asked about {command}", WITHIN_S)
        return name, request if request != "passed over" else None

    def _passed_over(self, name: str) -> bool:
        """claude has handed it on in one with a later one, which is what the API has answered."""
        turns = self.api.turns()
        newest = [one for one in turns if name in one.prompt]
        return not newest and any(name in text for one in turns[-20:] for text in one.said)

    def _asked(self, session_id: str, command: str, name: str) -> str | None:
        if self._passed_over(name):
            return "passed over"
        found = self._client.get("/v1/requests", {"session": session_id})
        names = [one["request_id"] for one in found if (one["arguments"] or {}).get("command") == command]
        return names[0] if names else None

    def _answer(self, request: str, verb: str) -> None:
        """By the real command. Where the daemon dies over it, the command may not know what came of it."""
        ended = self.claudes.run(verb, request)
        if ended.returncode != 0:
            assert self.kills, ended
            self.claudes.run(verb, request)
        now = until(lambda: self._settled(request), f"{request} is settled")
        assert (now["state"], now["answered_by"]) == ("answered", "operator"), (ended, now)

    def _settled(self, request: str) -> dict[str, Any] | None:
        now: dict[str, Any] = self._client.get(f"/v1/requests/{request}")
        return now if now["state"] != "open" else None

    def of(self, session_id: str) -> list[Sent]:
        return [each for each in list(self.sent.values()) if each.session_id == session_id]

    def rest(self, session_id: str) -> None:
        self.claudes.idle(session_id)

    def screen(self, session_id: str) -> str:
        return self.claudes.tmux("capture-pane", "-p", "-t", f"=claude-{session_id}:")

    # What came of all

    def messages(self) -> dict[int, dict[str, Any]]:
        log = self._client.get("/v1/messages", {"limit": 10_000})
        return {one["message_id"]: one for one in log if one["message_id"] in self.sent}

    def are_read(self) -> bool:
        return all(message["status"] != "submitted" for message in self.messages().values())

    def conversations(self) -> dict[str, list[int]]:
        """Of each session the messages that its conversation holds now, in their order.

        Each request is looked at: no text of it may be anything but one whole message, and none may come twice.
        """
        heard: dict[str, list[int]] = {}
        wrong: dict[str, str] = {}
        numbers_of: dict[str, list[int]] = {}
        for asked in self.api.turns():
            for text in asked.said:
                if text not in numbers_of:
                    numbers_of[text] = [int(number) for number in HEADER.findall(text)]
                    why = self._wrong(text, numbers_of[text])
                    if why:
                        wrong[text] = f"{asked.number} {why}: {text[:1000]!r}"
            numbers = [number for text in asked.said for number in numbers_of[text]]
            twice = [number for number, count in Counter(numbers).items() if count > 1]
            if twice:
                wrong[f"{twice}"] = f"{asked.number} twice: {twice}"
            if any(self.sent[number].session_id != whose(asked) for number in numbers):
                wrong[f"{numbers}"] = f"{asked.number} to another"
            heard[whose(asked)] = numbers
        messages = [self.found(self.sent[number]) for text in wrong for number in numbers_of.get(text, ())]
        assert not wrong, "\n".join([*wrong.values(), *map(str, messages)])
        return heard

    def _wrong(self, text: str, numbers: list[int]) -> str:
        """Why a text is not one message as it was sent; empty: it is, or none at all."""
        if len(numbers) > 1:
            return "merged"
        if numbers and text.rstrip() != self.sent[numbers[0]].letter:
            return "changed"
        return ""


@contextmanager
def killing(storm: Storm, total: int, kills: int) -> Iterator[None]:
    """Kill the daemon so often, spread over the sending of so many messages; and let the next command start it."""
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
        killed = pool.submit(kill)
        try:
            yield
        finally:
            over.set()
        killed.result()


def plain_texts(moment: random.Random) -> Iterator[Text]:
    for number in range(10_000):
        words = " ".join(moment.choices(["to", "be", "or", "not", "ünïcode", "\N{SNOWMAN}", "漢字"], k=8))
        shapes = (
            f"{number} {words}",
            f"{number} {words}",
            f"{number} {words}\n\n\tindented by a tab\n  by blanks\n- {words}",
            f"{number} {words} " * 40,
            "\n".join(f"{number} line {n}: {words}" for n in range(40)),
        )
        text = moment.choice(shapes)
        yield text, as_heard(text)


def chunks(texts: Sequence[Text], size: int) -> list[Sequence[Text]]:
    return [texts[at : at + size] for at in range(0, len(texts), size)]


def blow(
    storm: Storm,
    sessions: Sequence[str],
    *,
    idle: int,
    busy: int,
    urgent: int,
    dialogs: int,
    odd: Sequence[Text],
) -> None:
    """So many of each kind, shared out over the sessions, all of which are at work at once in an order of their own."""
    texts = plain_texts(storm.moment)
    acts: list[tuple[Any, ...]] = [(storm.idle, "idle", each) for each in chunks([*islice(texts, idle)], 10)]
    acts += [(storm.busy, "busy", each) for each in chunks([*islice(texts, busy)], 10)]
    acts += [(storm.urgent, "urgent", each) for each in chunks([*islice(texts, 3 * urgent)], 3)]
    acts += [
        (storm.dialog, "dialog", each, answer)
        for each, answer in zip(
            chunks([*islice(texts, 4 * dialogs)], 4), cycle(("approve", "deny", "leave")), strict=False
        )
    ]
    for number, each in enumerate(chunks(odd, 5)):
        acts.append((storm.busy if number % 2 else storm.idle, "odd", each))
    storm.moment.shuffle(acts)

    def run(number: int) -> None:
        for act, *arguments in acts[number :: len(sessions)]:
            act(sessions[number], *arguments)
        storm.rest(sessions[number])

    with ThreadPoolExecutor(len(sessions)) as pool:
        for done in [pool.submit(run, number) for number in range(len(sessions))]:
            done.result()


def box(screen: str) -> list[str]:
    """The lines of the input box."""
    lines = screen.splitlines()
    rules = [number for number, line in enumerate(lines) if line.startswith("──")]
    return lines[rules[-2] + 1 : rules[-1]]


def check(storm: Storm, pids: dict[str, int]) -> dict[int, dict[str, Any]]:
    """Nothing is left to happen; then what sm says of each message is held against the conversations."""
    storm.final(*storm.sent.values())
    # For a moment claude rests also while messages wait in its queue.
    until(storm.are_read, "the turn of every message that has arrived has ended", WITHIN_S)
    for session_id in pids:
        storm.rest(session_id)
    messages = storm.messages()
    assert messages.keys() == storm.sent.keys()
    heard = storm.conversations()
    everything = {number for numbers in heard.values() for number in numbers}
    for number, message in messages.items():
        sent = storm.sent[number]
        match message["status"]:
            case "acknowledged":
                assert number in everything, f"it says that this has arrived: {message}"
            case "expired":
                assert number not in everything and sent.short, message
            case status:
                assert status == "unconfirmed" and message["reason"], message
    for session_id, numbers in heard.items():
        # claude may take one that comes just when a turn ends before those that wait for that in its queue.
        in_turn = [number for number in numbers if storm.sent[number].kind != "urgent"]
        storm.overtaken += sum(after < before for before, after in pairwise(in_turn))
        assert storm.claudes.session(session_id)["pid"] == pids[session_id]
        assert Path(f"/proc/{pids[session_id]}").exists()
        shown = storm.screen(session_id)
        assert [line.strip(f"{POINTER}\xa0 ") for line in box(shown)] == [""], shown
    assert {path.name for path in storm.claudes.work.iterdir()} == storm.approved | {"README.md"}
    return messages


def told(storm: Storm, messages: dict[int, dict[str, Any]]) -> str:
    """The counts, for a reader of the run."""
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


api = scripted_api("function")


@pytest.fixture
def storm(api: ScriptedApi) -> Iterator[Storm]:
    seed = int(os.environ.get("SM_SEED") or random.randrange(2**32))
    print(f"SM_SEED={seed}")  # noqa: T201 - shown when it fails
    claudes = ClaudeInstance(api)
    (claudes.work / "README.md").write_text("read me\n")
    yield Storm(claudes, api, seed)
    claudes.end()


def begin(storm: Storm, count: int) -> dict[str, int]:
    """So many claudes at their empty prompt, each with its process."""
    found = [storm.claudes.spawn("Editor", f"begin {n}")["session_id"] for n in range(count)]
    return {session_id: storm.claudes.idle(session_id)["pid"] for session_id in found}


@pytest.mark.timeout(300)
def test_messages_at_any_time_and_of_any_text_arrive_once_and_nothing_else_happens(
    storm: Storm, capsys: pytest.CaptureFixture[str]
) -> None:
    pids = begin(storm, 2)
    blow(storm, [*pids], idle=6, busy=10, urgent=1, dialogs=3, odd=[*odd_texts()])
    messages = check(storm, pids)
    with capsys.disabled():
        print(told(storm, messages))  # noqa: T201 - counts that a reader of the run wants
    states = Counter(one["status"] for one in messages.values())
    assert storm.dialogs.total() == 3
    assert states["unconfirmed"] <= 1

    # What is held behind a dialog says so, and what came of it when its claude has ended.
    session_id = next(iter(pids))
    name, request = storm.ask(session_id, "left", [], "leave")
    assert request
    held = storm.send(session_id, "left", ("later", "later"))
    waits = until(lambda: "dialog" in (storm.found(held)["reason"] or "") and storm.found(held), "it is held")
    assert (waits["status"], request in waits["reason"]) == ("queued", True), waits
    storm.claudes.sm("kill", session_id)
    ended = storm.found(held)
    assert (ended["status"], "ended" in ended["reason"] or "killed" in ended["reason"]) == ("failed", True), (
        ended
    )
    assert not (storm.claudes.work / name).exists()
    storm.conversations()


@pytest.mark.timeout(300)
def test_messages_over_three_deaths_of_the_daemon_arrive_once_or_are_said_to_be_uncertain(
    storm: Storm, capsys: pytest.CaptureFixture[str]
) -> None:
    pids = begin(storm, 2)
    with killing(storm, 50, kills := 3):
        blow(storm, [*pids], idle=10, busy=20, urgent=1, dialogs=3, odd=[])
    messages = check(storm, pids)
    with capsys.disabled():
        print(told(storm, messages))  # noqa: T201 - counts that a reader of the run wants
    assert storm.kills == kills
    assert Counter(one["status"] for one in messages.values())["unconfirmed"] <= len(pids) * kills


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [0, KILLS])
@pytest.mark.skipif(not LONG_RUN, reason="it takes minutes: SM_LONG=1 runs it")
def test_five_hundred_messages_to_claudes_under_a_daemon_that_dies(
    storm: Storm, capsys: pytest.CaptureFixture[str], kills: int
) -> None:
    pids = begin(storm, 3)
    texts = [text for text in odd_texts() if text[0] not in LONG]
    odd = [*odd_texts(), *islice(texts, 100)][:100]
    with killing(storm, 500, kills):
        blow(storm, [*pids], idle=200, busy=150, urgent=5, dialogs=10, odd=odd)
    messages = check(storm, pids)
    with capsys.disabled():
        print(told(storm, messages))  # noqa: T201 - counts that a reader of the run wants
    states = Counter(one["status"] for one in messages.values())
    assert len(messages) >= 500
    assert storm.kills == kills
    assert states["unconfirmed"] <= (len(pids) * kills or 5)

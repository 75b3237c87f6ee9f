"""`python -m bench messages`: sends messages of any text to the real claude, and compares their status with the truth.

The truth is in the requests that the scripted API got, and in the queue that claude writes into its transcript. Half of
the messages are sent while claude is busy, so that they wait in its queue.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

from sm.client.http import Client, new_key
from sm.core.text import MESSAGE_MAX, render_message, validate_text
from sm.errors import InvalidText
from sm.providers.claude.box_reader import ClaudeBoxReader
from sm.providers.claude.pasted_text import without_paste_tags
from tests.claude_cli import BINARY
from tests.claude_instance import ClaudeInstance
from tests.integration.special_texts import special_texts
from tests.scripted_api import ScriptedApi
from tests.waits import until

_OPEN = ("queued", "delivering")
_LINES = (1, 2, 3, 4, 5, 7, 10, 15, 25, 40, 60, 100, 150, 250, 400)
_BUSY_AT_ONCE = 3
_FINAL_S = 120
_HIDDEN = (
    "a\u200bb zero width",
    "soft\u00adhyphen",
    "\u0915\u094d\u200d\u0937 \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "tag \U000e0041\U000e0042 end",
    "one\u2028two\u2029three",
    '<pasted_content id="8885">\nquoted\n</pasted_content id="8885">',
    "look at\n/tmp/none.png\n'/tmp/none.jpg' \n/tmp/a.gif /tmp/b.webp\nplease",
    "\N{REGIONAL INDICATOR SYMBOL LETTER D}\N{REGIONAL INDICATOR SYMBOL LETTER E}" * 400,
    "\u1112\u1161\u11ab" * 500,
    "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 200,
    "e\u0301" * 700,
)


@dataclass(slots=True)
class SentLetter:
    """One message, with what sm and claude said of it."""

    id: int
    session_id: str
    rendered: str = field(repr=False)
    busy: bool
    status: str = ""
    reason: str = ""
    arrived: int = 0
    """In how many prompts the model got it unchanged."""
    tagged: bool = False
    """claude marked it, or a part of it, as pasted."""
    false_words: list[str] = field(default_factory=list)


def _texts(rng: random.Random) -> Iterator[str]:
    """Texts of 1 to 400 lines, with every odd text of the tests among their lines."""
    odd = [*_HIDDEN, *(text for text, _ in special_texts() if len(text) < 2_000)]
    rng.shuffle(odd)
    for number, lines in enumerate(cycle(_LINES)):
        rows = [odd[number % len(odd)]]
        while len(rows) < lines:
            words = " ".join(rng.choices(["to", "be", "ünïcode", "\N{SNOWMAN}", "漢字", "x\ty"], k=8))
            rows.append(rng.choice([f"{number} {words}", f"  - {words}", "", rng.choice(odd)[:300]]))
        text = "\n".join(rows)[:MESSAGE_MAX]
        try:
            yield validate_text(text, "message", MESSAGE_MAX)
        except InvalidText:  # cut between two combining marks
            continue


class Post:
    """Sends messages to one session."""

    def __init__(self, instance: ClaudeInstance, api: ScriptedApi, session_id: str) -> None:
        self.instance, self.api, self.session_id = instance, api, session_id
        self.client = Client(str(instance.socket))
        self.letters: list[SentLetter] = []

    def send(self, text: str, *, busy: bool = False) -> SentLetter:
        body = {"to": self.session_id, "text": text, "mode": "auto"}
        stored = self.client.post("/v1/messages", body, key=new_key())
        number = stored["message_id"]
        letter = SentLetter(number, self.session_id, render_message("operator", number, text), busy)
        self.letters.append(letter)
        return letter

    def fetch(self, letter: SentLetter) -> dict[str, Any]:
        deadline_s = time.monotonic() + _FINAL_S
        while True:
            found: dict[str, Any] = self.client.get(f"/v1/messages/{letter.id}", {"wait_s": 20})
            letter.status, letter.reason = found["status"], found["reason"] or ""
            if letter.status not in _OPEN or time.monotonic() > deadline_s:
                return found

    def send_idle(self, text: str) -> None:
        self.instance.idle(self.session_id)
        self.fetch(self.send(text))

    def send_busy(self, texts: Sequence[str]) -> None:
        """Send texts in a turn that ends only when all have been looked at."""
        self.instance.idle(self.session_id)
        name = f"hold-{new_key()}"
        self.fetch(self.send(f"work [[text:so]][[hold:{name}]]"))
        self.api.wait_for_hold(name)
        letters = [self.send(text, busy=True) for text in texts]
        for letter in letters:
            self.fetch(letter)
            if letter.status == "acknowledged":
                letter.false_words.append("acknowledged before the turn ended")
            if letter.status == "submitted" and letter.id not in self._in_queue():
                letter.false_words.append("submitted, and neither in the queue nor in the conversation")
        self.api.release(name)

    def _in_queue(self) -> set[int]:
        """The numbers of the messages in the queue operations of the transcript, after a moment to write them."""
        deadline_s = time.monotonic() + 5
        found: set[int] = set()
        while time.monotonic() < deadline_s:
            (path,) = (self.instance.claude_home / "projects").glob("*/*.jsonl")
            whole = path.read_text().rpartition("\n")[0]  # claude may be in the middle of a line
            queue = [v for line in whole.split("\n") if (v := json.loads(line)).get("operation") == "enqueue"]
            texts = [without_paste_tags(v.get("content") or "")[0].lstrip() for v in queue]
            found = {each.id for each in self.letters if any(_begins(text, each) for text in texts)}
            if all(each.id in found for each in self.letters if each.busy and each.status == "submitted"):
                break
            time.sleep(0.1)
        return found

    def judge(self) -> None:
        """Compare each message with the prompts that the model got."""
        self.instance.idle(self.session_id)
        form = ClaudeBoxReader().accepted_form
        texts = {text for request in self.api.turns() for text in request.user_texts}
        for letter in self.letters:
            self.fetch(letter)
            for text in texts:
                bare, tagged = without_paste_tags(text)
                if not _begins(bare.lstrip(), letter):
                    continue
                letter.tagged |= tagged
                same = form(bare) == form(letter.rendered)
                letter.arrived += same or (
                    tagged and _squeezed(form(bare)) == _squeezed(form(letter.rendered))
                )
            if letter.status == "unconfirmed" and letter.arrived:
                letter.false_words.append("unconfirmed, and arrived whole")
            if letter.status in ("submitted", "acknowledged") and not letter.arrived:
                letter.false_words.append(f"{letter.status}, and did not arrive whole")


def _begins(text: str, letter: SentLetter) -> bool:
    return text.startswith(letter.rendered.partition("\n")[0] + "\n")


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _long_texts() -> dict[str, str]:
    lines = "\n".join(f"line {n:03} {'y' * 40}" for n in range(1000)).ljust(MESSAGE_MAX, "z")[:MESSAGE_MAX]
    return {"1,000 lines": lines, "one line": ("word " * 10_000)[:MESSAGE_MAX]}


def _seconds_of_long(post: Post) -> Iterator[tuple[str, float, float]]:
    """Seconds of a 50,000 character message of sm, and of the same text as one paste of a person."""
    for name, text in _long_texts().items():
        post.instance.idle(post.session_id)
        began = time.monotonic()
        letter = post.send(text)
        post.fetch(letter)
        pieces_s = time.monotonic() - began
        post.instance.idle(post.session_id)
        seen = len(post.api.turns())
        began = time.monotonic()
        _paste(post, f"by a person\n{text}")
        post.api.wait_for(lambda seen=seen: post.api.turns()[seen:], "the request for the paste")  # type: ignore[misc]
        yield name, pieces_s, time.monotonic() - began


def _paste(post: Post, text: str) -> None:
    """Paste a text of any size and press Enter, as a person does."""
    tmux, to = post.instance.tmux, f"=claude-{post.session_id}:"
    file = post.instance.home / "pasted"
    file.write_text(text)
    tmux("load-buffer", "-b", "person", str(file))
    tmux("paste-buffer", "-p", "-r", "-d", "-b", "person", "-t", to)
    until(lambda: "Pasted text" in post.instance.screen(post.session_id), "the box shows the paste")
    tmux("send-keys", "-t", to, "Enter")


def main(arguments: Sequence[str]) -> int:
    """Print one line for each message that sm reported wrongly, and the sums. Return 0 when there is none."""
    parser = argparse.ArgumentParser(prog="python -m bench messages")
    parser.add_argument("--claude", default=str(BINARY), metavar="PATH", help="the program to test")
    parser.add_argument("--count", type=int, default=60, help="messages to send (default: 60)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-long", action="store_true", help="skip the messages of 50,000 characters")
    given = parser.parse_args(arguments)
    texts = [*islice(_texts(random.Random(given.seed)), given.count)]
    with ScriptedApi() as api, ClaudeInstance(api, program=given.claude) as instance:
        post = Post(instance, api, instance.spawn("Editor", "begin")["session_id"])
        while texts:
            post.send_idle(texts.pop())
            for text in (texts.pop() for _ in range(min(len(texts), _BUSY_AT_ONCE))):
                post.send_idle(text)
            busy = [texts.pop() for _ in range(min(len(texts), _BUSY_AT_ONCE + 1))]
            if busy:
                post.send_busy(busy)
            print(f"  {len(texts)} left", file=sys.stderr, flush=True)
        post.judge()
        letters = [*post.letters]
        _print(letters)
        for name, pieces_s, paste_s in () if given.no_long else _seconds_of_long(post):
            print(f"50,000 characters, {name}: {pieces_s:.2f} s by sm, {paste_s:.2f} s as one paste")
    return int(any(letter.false_words for letter in letters))


def _print(letters: Sequence[SentLetter]) -> None:
    wrong = [letter for letter in letters if letter.false_words]
    for letter in wrong:
        where = "busy" if letter.busy else "idle"
        print(f"message {letter.id} ({where}): {'; '.join(letter.false_words)}: {letter.reason}")
        print(f"    {letter.rendered[:200]!a}")
    for letter in letters:
        if letter.status == "unconfirmed":
            print(f"message {letter.id} is unconfirmed: {letter.reason}")
    states = Counter(letter.status for letter in letters)
    print(
        f"{len(letters)} messages: {', '.join(f'{count} {status}' for status, count in sorted(states.items()))}; "
        f"{sum(letter.tagged for letter in letters)} marked as pasted; {len(wrong)} reported wrongly"
    )

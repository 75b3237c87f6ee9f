"""Writes `tests/data/v17.db`, a database of the current schema version: `python -m tests.golden`.

Run only until version 17 is released. After that the file never changes, so that later versions prove they can read it.
"""

import asyncio
import os
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from sm.capabilities.accounts import tables as accounts
from sm.capabilities.accounts.model import Account, Park, ParkKind
from sm.capabilities.budgets.model import Amounts, Budget, Spent
from sm.capabilities.budgets.tables import PART as BUDGET_PART
from sm.capabilities.completion.model import CompletionTimer
from sm.capabilities.files.model import OperatorFile
from sm.capabilities.files.tables import PART as FILE_PART
from sm.capabilities.pairing.model import Pairing, PairRequest, PairState
from sm.capabilities.pairing.tables import PART as PAIRING_PART
from sm.capabilities.reviews.model import Comment, CommentPlace, Round, Side
from sm.capabilities.reviews.tables import PART as REVIEW_PART
from sm.core.messages import Message
from sm.core.models import Capabilities, Exit, Process, Session, Workspace
from sm.core.next_process import Restarts
from sm.core.observation import Activity, Observation, Source
from sm.core.pauses import Pause
from sm.core.requests import BY_RULE, Answer, Question, Request
from sm.core.states import BridgeLevel, MessageMode, MessageState, Mode, RequestKind, RequestState, TrustLevel
from sm.core.statuses import Status
from sm.core.telegram_model import (
    BotMethod,
    CardDraft,
    Need,
    NewCall,
    Outgoing,
    TelegramChange,
    TelegramChat,
    WatchedText,
)
from sm.core.telegram_threads import ForumFacts, ProgressCard, Topic, TopicState
from sm.core.timers import Timer
from sm.core.turns import ReportedEnd, TurnWork
from sm.core.usage import FilePosition, ToolUse, Usage
from sm.store import Store
from sm.wire_types.budget import BudgetState
from tests.samples import AT, LAUNCH, session

DATA = Path(__file__).parent / "data"
REPORTED_END = ReportedEnd(
    "aaaa1111",
    1,
    Observation(
        Source.HOOK, Activity.IDLE, 1.5, "the turn ended", "t1", final=True, answer="Döne.", finished=True
    ),
    TurnWork("Fix the parser", "", 3, 1, last_tool_failed=False, whole=True),
)
INSTANCE = "77b1c5a4-5d0e-4c39-9a53-3f3b0c2d9e33"
ACCOUNT_KEY = "5a" * 32
HOME = "/home/u/.claude/projects/-home-u-app"
TRANSCRIPTS = {
    f"{HOME}/5e55.jsonl": FilePosition(4711, 90_210),
    f"{HOME}/5e55/subagents/agent-a1.jsonl": FilePosition(4712, 1_234),
    f"{HOME}/7e55.jsonl": FilePosition(0, 0),
}
USAGE = (
    Usage("msg_1", "claude-opus-4-8", AT, 11, 101, 1000, 5007, 7),
    Usage("msg_2", "claude-opus-4-8", AT, 2, 20, 200, 2000),
    Usage("msg_3", "claude-haiku-4-5", AT, 3, 30, sidechain=True),
)
SUMS = [
    Usage("", "claude-haiku-4-5", "", 3, 30, sidechain=True),
    Usage("", "claude-opus-4-8", "", 13, 121, 1200, 7007, 7),
]
"""The sums of USAGE."""
TOOLS = (
    ToolUse("toolu_1", "Bash", AT),
    ToolUse("toolu_2", "Agent", AT),
    ToolUse("toolu_3", "Bash", AT, sidechain=True),
)
FACTS = {
    "transcript": f"{HOME}/7e55.jsonl",
    "model": "claude-opus-4-8[1m]",
    "todo": [{"content": "mäasure", "status": "in_progress", "id": "1"}],
    "context_tokens": 2222,
    "last_tool": {"name": "Bash", "args": {"command": "npm test"}, "timestamp": AT},
}
RUNNING: Session = replace(
    session("aaaa1111", status=Status.RUNNING),
    provider="claude",
    model="opus",
    process=Process(4242, "5f7b/123456"),
    conversation="7e55",
    transcript=f"{HOME}/7e55.jsonl",
    token_hash="0" * 64,
    workspace="web",
    worktree="/home/u/app/.sm/worktrees/login",
    branch="sm/login",
)
PAUSED: Session = replace(
    session("aaaa4444", parent="aaaa1111", status=Status.IDLE),
    paused=Pause(AT, "operator", "too dear", AT, cut_off=True),
    restarts=Restarts(5, (AT, AT), 2, 7, AT, None, 9),
)
LEFT: Session = replace(session("aaaa5555"), lost_parent="aaaa1111")
COMPLETED: Session = replace(
    session("aaaa2222", parent="aaaa1111", status=Status.COMPLETED),
    exit=Exit(0, None),
    completed_at=AT,
    completion_status="completed",
)
SEEN: Session = replace(session("aaaa6666", status=Status.ERROR), seen_at=AT, told_operator=True)
VERSIONED: Session = replace(session("aaaa7777"), provider="claude", program_version="2.1.332")
MESSAGE = Message(1, "aaaa1111", "operator", MessageMode.AUTO, MessageState.QUEUED, AT, AT)
WITH_FILE = Message(2, "aaaa1111", "operator", MessageMode.AUTO, MessageState.QUEUED, AT, AT, own_lines=1)
FILE = OperatorFile("f-0123456789abcdef", "shöt.png", 12_345, "image/png", AT, "aaaa1111", WITH_FILE.id)
UPLOAD = OperatorFile("f-fedcba9876543210", "notes", 9, "application/octet-stream", AT)
COLOURS = Question("Which cölours?", ("Red", "S, small"), multiple=True)
OFFERED = Request(
    id=1,
    session_id="aaaa1111",
    kind=RequestKind.QUESTION,
    state=RequestState.OPEN,
    created_at=AT,
    state_at=AT,
    expires_at=AT,
    tool="AskUserQuestion",
    arguments={"questions": [{"question": "Which cölours?", "n": 1.5, "x": "a\nb\x00"}]},
    questions=(COLOURS, Question("Which size?")),
    answer=Answer(True, ("Red, S, small", "any"), "said"),
    answered_by="operator",
    hook="6b1f0c2d",
    tool_use="toolu_1",
    agent="a1",
)
RULED = Request(
    id=2,
    session_id="aaaa1111",
    kind=RequestKind.PERMISSION,
    state=RequestState.ANSWERED,
    created_at=AT,
    state_at=AT,
    tool="Write",
    arguments={"content": "x"},
    answer=Answer(False),
    answered_by=BY_RULE,
    reason="a rule",
    taken_at=AT,
    hook="6b1f0c2e",
    cut=True,
)
WORKSPACES = (
    Workspace(
        "web",
        "/home/u/äpp",
        AT,
        TrustLevel.DIRECT,
        Capabilities(mcps=("files", "web"), agents=()),
        strict_mcps=True,
        sandbox={"memory": "2g", "pids": 512, "mounts": ["/srv/data"]},
    ),
    Workspace("old", "/home/u/old", AT, deleted_at=AT),
)
SUPERVISED = Workspace("night", "/home/u/night", AT, lifecycle=Mode.SUPERVISED)
FOUND = Request(
    id=3,
    session_id="aaaa1111",
    kind=RequestKind.QUESTION,
    state=RequestState.OPEN,
    created_at=AT,
    state_at=AT,
    questions=(Question("Shall I go ön?"),),
    evidence="completion",
)
TIMERS = (
    Timer("aaaa1111", CompletionTimer.COMPLETION, AT, 10.0, {"text": "döne"}),
    Timer("claude 1", CompletionTimer.UNCLEAR, AT),
)


ACCOUNT = Account("claude-1a2b3c4d", "claude", "/home/ü/.claude", "1a2b3c4d" * 4, AT)
PARKS = (
    Park(ParkKind.QUOTA, "session limit", 1.5, 2.5, tries=1, account=ACCOUNT.name, first="aaaa1111"),
    Park(ParkKind.QUOTA, "Opus limit", 1.5, None, "opus", account=ACCOUNT.name),
)

CHAT = TelegramChat(-1_001_000_000_001, "supergroup", "Flöte", AT, closed_until=1.5)
MIGRATED = TelegramChat(-500, "group", "Flöte", AT, CHAT.chat_id)
CALL = NewCall(
    CHAT.chat_id,
    BotMethod.SEND_MESSAGE,
    {"text": "hällo"},
    Need.REQUEST,
    subject="progress aaaa1111",
    about="session aaaa1111",
)
OUTGOING = Outgoing(
    1,
    CALL.chat_id,
    CALL.method,
    CALL.parameters,
    CALL.need,
    AT,
    subject=CALL.subject,
    about=CALL.about,
)
DRAFT = CardDraft("request r1", 1001, ("Ä", "2"), (1, 3), 2, 4711)
TEXT = WatchedText(7, 1001, 502, None, "telegram:1001", is_told=True)
TOPIC = Topic("aaaa1111", CHAT.chat_id, TopicState.MADE, 1, 77, "engineer-lögin", is_closed=True)
CARD = ProgressCard("aaaa1111", CHAT.chat_id, 78, "<b>engineer-lögin</b>")
FORUM = ForumFacts(CHAT.chat_id, is_forum=True, can_manage=False, owners=(4711,), is_told=True)
PAIRED: Session = replace(session("aaaa3333"), created_by="telegram:4711", paired_user="telegram:4711")
PAIRING = Pairing("telegram:4711", "Ädä", BridgeLevel.DIRECT, "web", AT, "operator")
BUDGET = Budget(
    "aaaa1111",
    Amounts(usd=5.5, tokens=2_000_000),
    90,
    Amounts(usd=0.5),
    Spent(1.25, 3000, 60.5, 7),
    BudgetState.SOFT,
    AT,
    request=1,
    reports={"aaaa2222": 1},
)
COMMENT = Comment(
    0, "aaaa1111", "operator", 0, 0, CommentPlace("ä.py", Side.OLD, 3, 4), "-x = 1", "Why, Böb?"
)
REVIEW_ROUND = Round("aaaa1111", 1, "operator", 1, AT, "4b" * 20, "7c" * 20, "7c" * 20, 1)
PAIR_REQUEST = PairRequest(1, "telegram:4712", "Böb", PairState.DENIED, AT, AT)


async def write(path: str) -> None:
    async with await Store.open(path, lambda: AT) as store, store.transaction() as tx:
        for workspace in (*WORKSPACES, SUPERVISED):
            tx.put_workspace(workspace)
        await tx.insert(RUNNING, LAUNCH, "a prompt")
        await tx.insert(COMPLETED, LAUNCH, None)
        await tx.insert(PAIRED, LAUNCH, None)
        await tx.insert(PAUSED, LAUNCH, None)
        await tx.insert(LEFT, LAUNCH, None)
        await tx.insert(SEEN, LAUNCH, None)
        await tx.insert(VERSIONED, LAUNCH, None)
        tx.mail.add_message(MESSAGE, "päth\nand more")
        tx.mail.add_message(WITH_FILE, "look\n[sm] file 1: /home/u/shöt.png (image/png, 12 kB)")
        for file in (FILE, UPLOAD):
            tx.part(FILE_PART).put(file)
        for request in (OFFERED, RULED, FOUND):
            tx.mail.add_request(request)
        for timer in TIMERS:
            tx.timers.set(timer)
        tx.part(accounts.PART).put(ACCOUNT)
        for park in PARKS:
            tx.part(accounts.PART).park(park)
        tx.part(PAIRING_PART).put(PAIRING)
        tx.part(PAIRING_PART).put_request(PAIR_REQUEST)
        for chat in (CHAT, MIGRATED):
            tx.telegram.put_chat(chat)
        tx.telegram.threads.put_topic(TOPIC)
        tx.telegram.threads.put_card(CARD)
        tx.telegram.threads.put_forum(FORUM)
        await tx.telegram.queue(CALL)
        await tx.telegram.apply(TelegramChange(drafts=[DRAFT], watched=[TEXT]))
        tx.chat_preferences.follow(1001, RUNNING.id)
        await tx.telegram.record_update(4242, 900_001)
        for name, position in TRANSCRIPTS.items():
            tx.measures.set_position(RUNNING.id, name, position)
        tx.usage.add(RUNNING.id, USAGE)
        tx.usage.add(COMPLETED.id, USAGE[:1])
        tx.measures.tools(RUNNING.id, TOOLS)
        tx.measures.facts(RUNNING.id, FACTS)
        tx.turn_ends.keep(REPORTED_END)
        tx.part(BUDGET_PART).put(BUDGET)
        tx.part(REVIEW_PART).keep_round(REVIEW_ROUND, [tx.part(REVIEW_PART).put(COMMENT)])
        tx.part(REVIEW_PART).put(COMMENT)


def main() -> None:
    target = DATA / "v17.db"
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "sm.db")
        asyncio.run(write(path))
        target.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as db:
            db.execute("UPDATE meta SET value = ? WHERE name = 'instance'", (INSTANCE,))
            db.execute("UPDATE meta SET value = ? WHERE name = 'account_key'", (ACCOUNT_KEY,))
            db.commit()
            db.execute("VACUUM INTO ?", (str(target),))


if __name__ == "__main__":
    main()

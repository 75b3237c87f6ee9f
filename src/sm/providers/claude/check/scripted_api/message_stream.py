"""Encodes the scripted answer of a model: its content blocks, and the events of its stream."""

import json
from collections.abc import Iterator
from typing import Any

from sm.core.dataclass import dataclass
from sm.providers.claude.check.scripted_api.script import (
    Cut,
    Hold,
    Response,
    Silence,
    Step,
    Text,
    Thinking,
    TokenUsage,
    ToolStep,
)


@dataclass(slots=True)
class SentAnswer:
    """The answer sent with one message id."""

    message_id: str
    model: str
    usage: TokenUsage
    whole: bool = False  # the complete answer was sent


@dataclass(slots=True)
class Block:
    """A content block: its start event, its complete form and its steps. Without `start`, only time passes."""

    start: dict[str, Any]
    whole: dict[str, Any]
    steps: list[Step]


def blocks_of(steps: tuple[Step, ...], stamp: str) -> Iterator[Block]:
    """Group steps into blocks. Consecutive texts are one block, also with pauses between them."""
    text: Block | None = None
    start: dict[str, Any]
    for number, step in enumerate(steps):
        match step:
            case Text():
                if text is None:
                    text = Block({"type": "text", "text": ""}, {"type": "text", "text": ""}, [])
                text.whole["text"] += step.text
                text.steps.append(step)
            case Thinking():
                if text:
                    yield text
                    text = None
                start = {"type": "thinking", "thinking": "", "signature": ""}
                yield Block(start, {**start, "thinking": step.text, "signature": stamp}, [step])
            case ToolStep():
                if text:
                    yield text
                    text = None
                start = {
                    "type": "tool_use",
                    "id": f"toolu_{stamp}{number:02x}",
                    "name": step.name,
                    "input": {},
                }
                yield Block(start, {**start, "input": step.input}, [step])
            case Silence() | Hold() | Cut():
                if text:
                    text.steps.append(step)
                else:
                    yield Block({}, {}, [step])
    if text:
        yield text


def events_of(response: Response, answer: SentAnswer, blocks: list[Block]) -> Iterator[dict[str, Any] | Step]:
    """The events of a stream, mixed with the steps in which time passes."""
    first: dict[str, Any] = {
        "usage": {**response.usage.wire(), "output_tokens": 1},
        "content": [],
        "stop_reason": None,
    }
    start: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**head_of(answer), **first}},
        {"type": "ping"},
    ]
    index = 0
    for block in blocks:
        if block.start:
            yield from start
            start = []
            yield {"type": "content_block_start", "index": index, "content_block": block.start}
        for step in block.steps:
            if isinstance(step, Silence | Hold | Cut):
                yield step
            for delta in _deltas(step, answer.message_id):
                yield {"type": "content_block_delta", "index": index, "delta": delta}
        if block.start:
            yield {"type": "content_block_stop", "index": index}
            index += 1
    yield from start
    ending = {"stop_reason": response.stopped_by, "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": response.usage.wire()}
    yield {"type": "message_stop"}


def _deltas(step: Step, signature: str) -> Iterator[dict[str, str]]:
    match step:
        case Text(text):
            yield {"type": "text_delta", "text": text}
        case Thinking(text):
            yield {"type": "thinking_delta", "thinking": text}
            yield {"type": "signature_delta", "signature": signature}
        case ToolStep():
            written = json.dumps(step.input)
            for at in range(0, len(written), 1000):
                yield {"type": "input_json_delta", "partial_json": written[at : at + 1000]}
        case _:
            pass


def head_of(answer: SentAnswer) -> dict[str, Any]:
    return {
        "id": answer.message_id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "stop_sequence": None,
    }

"""The language of scripted answers: a prompt contains markers `[[word:arguments]]`, in order.

A script is one or more responses, separated by `[[then]]`. The first answers the marked prompt, the second answers the
results of its tools, and so on. After the last response, and for a prompt without markers, the answer is `DONE`. Text
outside of markers is ignored. A compaction removes the prompt from the conversation, with the rest of its script.

A model function (`ScriptedApi.when`) returns its answer to one request in the same language.

Parts of a response, in the order in which they are streamed:

    [[text:Hello]]             text; consecutive texts are deltas of one block
    [[words:40:0.1]]           the same as 40 texts of one word with a wait of 0.1 s after each
    [[think:Hm]]               a thinking block
    [[tool:Bash:sleep 2]]      a tool call; Bash accepts a bare command
    [[tool:Write:{"file_path": "/x", "content": "y"}]]    any other tool: its input as JSON, see `tool`
    [[wait:0.5]]               0.5 s of silence; as the first part it delays the first byte
    [[hold:NAME]]              silence until somebody calls `release("NAME")`
    [[cut]]                    cuts the connection, the first time; `[[cut:3]]`, `[[cut:*]]` as with errors

Settings of the whole response, at any position:

    [[usage:input=11,output=101,cache_read=1000,cache_creation=5000,cache_creation_1h=7]]   omitted: 0
    [[stop:max_tokens]]        the stop reason, if it is not end_turn or tool_use
    [[error:529]]              an error in place of the response, for the first request
    [[error:529:3]]            for the first three requests; `*`: always
    [[error:429:1:2]]          with `retry-after: 2`
    [[refuse:401:Revoked]]     always this status, with this message
    [[limit:five_hour:EPOCH]]  always the usage limit of this kind, which resets at EPOCH (seconds). Only a claude that
                               is logged in with CLAUDE_CODE_OAUTH_TOKEN takes the answer for a limit of its account
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field, fields, replace
from typing import Any

from sm.core.dataclass import dataclass

_MARKER = re.compile(r"\[\[([a-z]+)(:|\]\])")
ALWAYS = 1_000_000


class ScriptError(ValueError):
    """An invalid marker: a mistake of the script's author."""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Numbers of tokens, by kinds with different prices."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_creation: int = 0  # kept for five minutes
    cache_creation_1h: int = 0

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            *(getattr(self, each.name) + getattr(other, each.name) for each in fields(TokenUsage))
        )

    def wire(self) -> dict[str, Any]:
        """The usage object of the API, where `cache_creation_input_tokens` is the sum of both lifetimes."""
        return {
            "input_tokens": self.input,
            "output_tokens": self.output,
            "cache_read_input_tokens": self.cache_read,
            "cache_creation_input_tokens": self.cache_creation + self.cache_creation_1h,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.cache_creation,
                "ephemeral_1h_input_tokens": self.cache_creation_1h,
            },
            "service_tier": "standard",
        }


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    text: str


@dataclass(frozen=True, slots=True)
class ToolStep:
    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Silence:
    seconds: float


@dataclass(frozen=True, slots=True)
class Hold:
    name: str


@dataclass(frozen=True, slots=True)
class Cut:
    times: int = 1


Step = Text | Thinking | ToolStep | Silence | Hold | Cut


@dataclass(frozen=True, slots=True)
class Failure:
    status: int
    times: int = 1
    retry_after_s: str | None = None
    message: str = "scripted"
    headers: Mapping[str, str] = field(default_factory=dict)


def usage_limit(claim: str, resets_at: int) -> Failure:
    """The answer to every request of an account whose limit of this kind is used up (measured)."""
    short = {"five_hour": "5h", "seven_day": "7d"}.get(claim, claim)
    unified = {
        "status": "rejected",
        "reset": str(resets_at),
        "representative-claim": claim,
        f"{short}-status": "rejected",
        f"{short}-reset": str(resets_at),
        f"{short}-utilization": "1.0",
        "overage-status": "rejected",
        "overage-disabled-reason": "org_level_disabled",
    }
    headers = {f"anthropic-ratelimit-unified-{name}": value for name, value in unified.items()}
    return Failure(
        429, ALWAYS, message="This request would exceed your account's rate limit.", headers=headers
    )


@dataclass(frozen=True, slots=True)
class Response:
    steps: tuple[Step, ...] = ()
    usage: TokenUsage = TokenUsage(input=10, output=5)
    stop_reason: str | None = None
    failure: Failure | None = None

    @property
    def stopped_by(self) -> str:
        called = any(isinstance(step, ToolStep) for step in self.steps)
        return self.stop_reason or ("tool_use" if called else "end_turn")


DONE = Response((Text("done"),))


def tool(name: str, **input: Any) -> str:
    """The marker of a tool call. The input may contain markers, for example in the prompt of a sub-agent."""
    return f"[[tool:{name}:{json.dumps(input)}]]"


def usage(used: TokenUsage) -> str:
    """The marker of this usage."""
    return (
        "[[usage:" + ",".join(f"{each.name}={getattr(used, each.name)}" for each in fields(TokenUsage)) + "]]"
    )


def parse(prompt: str) -> tuple[Response, ...]:
    """The responses of a prompt's markers; empty without a marker."""
    responses = [Response()]
    found = False
    for word, argument in _markers(prompt):
        found = True
        if word == "then":
            responses.append(Response())
        else:
            responses[-1] = _with(responses[-1], word, argument)
    return tuple(responses) if found else ()


def _markers(prompt: str) -> Iterator[tuple[str, Any]]:
    """Each word with its argument: a text, or a `ToolStep`, whose JSON may contain brackets and markers."""
    at = 0
    while marker := _MARKER.search(prompt, at):
        word, at = marker[1], marker.end()
        if marker[2] == "]]":
            yield word, ""
            continue
        input: Any = None
        name = re.compile(r"([A-Za-z0-9_-]+):(?=\{)").match(prompt, at) if word == "tool" else None
        if name:
            try:
                input, at = json.JSONDecoder().raw_decode(prompt, name.end())
            except json.JSONDecodeError as error:
                raise ScriptError(f"the input of {name[1]} is no JSON: {error}") from error
        end = prompt.find("]]", at)
        if end < 0:
            raise ScriptError(f"[[{word}: has no end")
        argument = prompt[at:end]
        at = end + 2
        yield word, ToolStep(name[1], input) if name else argument


def _with(response: Response, word: str, argument: Any) -> Response:
    try:
        match word:
            case "usage":
                numbers = dict(part.split("=") for part in argument.split(","))
                return replace(
                    response, usage=TokenUsage(**{key.strip(): int(n) for key, n in numbers.items()})
                )
            case "stop":
                return replace(response, stop_reason=argument)
            case "error":
                status, times, after = [*argument.split(":"), None, None][:3]
                return replace(response, failure=Failure(int(status), _times(times), after))
            case "refuse":
                status, _, message = argument.partition(":")
                return replace(response, failure=Failure(int(status), ALWAYS, message=message))
            case "limit":
                claim, resets_at = argument.split(":")
                return replace(response, failure=usage_limit(claim, int(resets_at)))
            case _:
                return replace(response, steps=response.steps + _steps(word, argument))
    except (ValueError, TypeError) as error:
        raise ScriptError(f"[[{word}:{argument}]]: {error}") from error


def _times(written: str | None) -> int:
    return ALWAYS if written == "*" else int(written or 1)


def _steps(word: str, argument: Any) -> tuple[Step, ...]:
    match word:
        case "text":
            return (Text(argument),)
        case "words":
            count, seconds = argument.split(":")
            return tuple(
                step for n in range(int(count)) for step in (Text(f"word{n} "), Silence(float(seconds)))
            )
        case "think":
            return (Thinking(argument),)
        case "tool" if isinstance(argument, ToolStep):
            return (argument,)
        case "tool" if argument.startswith("Bash:"):
            command = argument.removeprefix("Bash:")
            return (ToolStep("Bash", {"command": command, "description": "scripted"}),)
        case "tool":
            raise ScriptError("only Bash takes a bare command, every other tool its input as JSON")
        case "wait":
            return (Silence(float(argument)),)
        case "hold":
            return (Hold(argument),)
        case "cut":
            return (Cut(_times(argument)),)
        case _:
            raise ScriptError("no such word")

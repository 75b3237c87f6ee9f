"""Starts `sm mcp` once and measures it, for `sm doctor`."""

import json
import os
import select
import subprocess
import sys
import time
from typing import Any, NamedTuple

from sm.cli.instance import Instance
from sm.errors import ExternalError, SmError, WaitTimeout, from_wire

_WITHIN_S = 20.0
_VERSION = "2025-11-25"


class PumpTimes(NamedTuple):
    """The milliseconds from the start of `sm mcp` to its first answer, and the number of tools."""

    first_answer_ms: int
    tools: int


def measure(instance: Instance) -> PumpTimes:
    """Raises SmError when the daemon refuses MCP or the command does not work."""
    own = f"{instance.paths.bin}/sm"
    command = [own] if os.access(own, os.X_OK) else [sys.executable, "-m", "sm.cli"]
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            [*command, "mcp", "--operator"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**instance.environ, "SM_SOCKET": instance.socket_path},
        )
    except OSError as error:
        raise ExternalError(f"cannot run {command[0]}: {error.strerror}", "sm daemon restart") from None
    with process:
        try:
            client = {"name": "sm doctor", "version": "1"}
            parameters = {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": client}
            _ask(process, "initialize", parameters, began)
            first_answer_ms = round(1000 * (time.monotonic() - began))
            listed = _ask(process, "tools/list", {}, began)
            return PumpTimes(first_answer_ms, len(listed["tools"]))
        finally:
            process.kill()


def _ask(process: "subprocess.Popen[bytes]", method: str, params: object, began: float) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    message = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
    line = b""
    try:
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        while not line.endswith(b"\n"):
            left_s = began + _WITHIN_S - time.monotonic()
            if left_s <= 0 or not select.select([process.stdout], [], [], left_s)[0]:
                raise WaitTimeout(f"no answer within {_WITHIN_S:.0f} s", "sm daemon logs")
            piece = os.read(process.stdout.fileno(), 65536)
            if not piece:
                raise ExternalError("the command ended without an answer", "sm mcp --operator --verbose")
            line += piece
    except BrokenPipeError:
        raise ExternalError("the command ended at its start", "sm mcp --operator --verbose") from None
    answer = json.loads(line)
    if "error" in answer:
        raise _refusal(answer["error"])
    return answer["result"]


def _refusal(error: Any) -> SmError:
    data = error.get("data") or {}
    return from_wire(str(data.get("code", "")), str(error.get("message", "")), data.get("hint"))

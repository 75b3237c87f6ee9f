"""The errors that users see, with their codes, HTTP statuses and exit codes.

    SmError
    ├── InternalError            1  a bug in sm, with an id to find in the log
    ├── UsageError               2  invalid request
    │   ├── UnknownAgentType
    │   ├── NameTaken
    │   ├── InvalidText
    │   ├── InvalidPath
    │   └── ConfigError
    ├── NotFound                 3  no such session or request
    ├── IllegalState             4  not possible in this state
    │   ├── IllegalTransition
    │   ├── ShownChanged             a request is no longer as the person saw it
    │   └── AnswersQuestion          a text would answer a question, and its sender wants to be asked before
    ├── NotPermitted             5
    │   └── Unauthenticated          the token belongs to no session
    ├── LimitReached             6
    │   ├── RateLimited              has the delay before the next try
    │   │   └── SandboxBusy          the container has no memory or processes left for another agent
    │   └── StorageFull
    ├── DaemonUnavailable        7  no daemon, or the daemon cannot start
    │   ├── AlreadyRunning
    │   └── DatabaseRefused
    ├── ProtocolMismatch         8
    ├── ExternalError            9  tmux, an agent or the platform failed
    │   ├── AgentStartFailed
    │   │   ├── SetupRequired        the agent CLI would wait in a dialog of its first start
    │   │   │   ├── DirectoryNotTrusted
    │   │   │   └── BypassNotAccepted
    │   │   └── ProgramMissing       there is no such program
    │   ├── SandboxUnavailable
    │   │   ├── SandboxUnreachable   the engine runs, and its answer did not come
    │   │   ├── EngineMissing        there is no engine: its socket does not exist
    │   │   ├── ImageMissing         the engine has no image of sandboxes
    │   │   └── FallbackOver         a session ran on the host for want of a sandbox, which is there now
    │   ├── PlatformUnsupported
    │   └── TerminalError
    │       ├── NoServer             no tmux server runs
    │       ├── TerminalUnreachable  no answer: the state of the terminal is unknown
    │       ├── NoTerminal           the server runs, this terminal does not exist
    │       └── TerminalBusy         the terminal takes no keys now, and no key was sent
    └── WaitTimeout             10  the operation itself continues

The hook loads this module, so it imports nothing.
"""


class SmError(Exception):
    """Base class. `hint` is the command to type next, in the words of a shell.

    For the doors of the daemon it is a `Hint` of `sm.operations.hints`, if it names an operation.
    """

    code = "error"
    http_status = 500
    exit_code = 1
    recorded = False
    """Already written to the audit log."""

    def __init_subclass__(cls, *, code: str = "", http_status: int = 0, exit_code: int = 0) -> None:
        """Set the statuses and the code, and register the code for `from_wire`. Missing values are inherited."""
        cls.code = code or cls.code
        cls.http_status = http_status or cls.http_status
        cls.exit_code = exit_code or cls.exit_code
        if code:
            BY_CODE[code] = cls

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


BY_CODE: dict[str, type[SmError]] = {SmError.code: SmError}


class InternalError(SmError, code="bug"): ...


class UsageError(SmError, code="usage", http_status=400, exit_code=2): ...


class UnknownAgentType(UsageError, code="unknown_agent_type"): ...


class NameTaken(UsageError, code="name_taken", http_status=409): ...


class InvalidText(UsageError, code="text_refused"): ...


class InvalidPath(UsageError, code="path_refused"): ...


class ConfigError(UsageError, code="config"): ...


class NotFound(SmError, code="not_found", http_status=404, exit_code=3): ...


class IllegalState(SmError, code="illegal_state", http_status=409, exit_code=4): ...


class IllegalTransition(IllegalState, code="illegal_transition"): ...


class ShownChanged(IllegalState, code="shown_changed"): ...


class AnswersQuestion(IllegalState, code="answers_question"):
    """`request_id` is the name of the question, such as r57."""

    def __init__(self, message: str, hint: str | None = None, *, request_id: str = "") -> None:
        super().__init__(message, hint)
        self.request_id = request_id


class NotPermitted(SmError, code="not_permitted", http_status=403, exit_code=5): ...


class Unauthenticated(NotPermitted, code="unauthenticated", http_status=401): ...


class LimitReached(SmError, code="limit_reached", http_status=429, exit_code=6): ...


class RateLimited(LimitReached, code="rate_limited"):
    """`retry_after_s` is the delay in seconds before the next try."""

    def __init__(self, message: str, hint: str | None = None, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message, hint)
        self.retry_after_s = retry_after_s


class SandboxBusy(RateLimited, code="sandbox_busy"): ...


class StorageFull(LimitReached, code="storage_full", http_status=507): ...


class DaemonUnavailable(SmError, code="daemon_unavailable", http_status=503, exit_code=7): ...


class AlreadyRunning(DaemonUnavailable, code="already_running"): ...


class DatabaseRefused(DaemonUnavailable, code="database_refused"): ...


class ProtocolMismatch(SmError, code="protocol", http_status=426, exit_code=8): ...


class ExternalError(SmError, code="outside_failed", http_status=502, exit_code=9): ...


class AgentStartFailed(ExternalError, code="agent_start_failed"): ...


class SetupRequired(AgentStartFailed, code="setup_required", http_status=409): ...


class DirectoryNotTrusted(SetupRequired, code="directory_not_trusted"):
    """`directory` is the absolute path of the directory; empty if unknown."""

    def __init__(self, message: str, hint: str | None = None, *, directory: str = "") -> None:
        super().__init__(message, hint)
        self.directory = directory


class BypassNotAccepted(SetupRequired, code="bypass_not_accepted"): ...


class ProgramMissing(AgentStartFailed, code="program_missing"): ...


class SandboxUnavailable(ExternalError, code="sandbox_unavailable"): ...


class SandboxUnreachable(SandboxUnavailable, code="sandbox_unreachable"): ...


class EngineMissing(SandboxUnavailable, code="engine_missing"): ...


class ImageMissing(SandboxUnavailable, code="image_missing"): ...


class FallbackOver(SandboxUnavailable, code="fallback_over", http_status=409): ...


class PlatformUnsupported(ExternalError, code="platform_unsupported"): ...


class TerminalError(ExternalError, code="terminal"): ...


class NoServer(TerminalError, code="terminal_no_server"): ...


class TerminalUnreachable(TerminalError, code="terminal_could_not_ask"): ...


class NoTerminal(TerminalError, code="terminal_not_there"): ...


class TerminalBusy(TerminalError, code="terminal_held"): ...


class WaitTimeout(SmError, code="not_in_time", http_status=504, exit_code=10): ...


def from_wire(
    code: str,
    message: str,
    hint: str | None,
    retry_after_s: object = None,
    directory: object = None,
    request_id: object = None,
) -> SmError:
    """The error for the daemon's error code; an unknown code gives a plain `SmError`."""
    error = BY_CODE.get(code, SmError)(message, hint)
    if isinstance(error, RateLimited) and isinstance(retry_after_s, int | float) and retry_after_s >= 0:
        error.retry_after_s = float(retry_after_s)
    if isinstance(error, DirectoryNotTrusted) and isinstance(directory, str):
        error.directory = directory
    if isinstance(error, AnswersQuestion) and isinstance(request_id, str):
        error.request_id = request_id
    return error

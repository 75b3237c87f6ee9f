"""Claude Code as an agent: what it is started with, and what its end means. Pure but for making ids.

The command line is (CC 2): the program, the model and the configured options, then what sm sets for this process,
then `--` and the prompt. An option of several values (`--allowedTools A B`) so always has another option behind it.
"""

import json
import os.path
import re
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence

from sm.config import AgentConfig, Claude, ModelArgs
from sm.core.models import Exit, Session, Signal, SpawnRequest
from sm.core.states import SignalKind
from sm.core.statuses import Status
from sm.core.text import folded
from sm.core.usage import Usage
from sm.errors import IllegalState, UsageError
from sm.providers.base import AgentPlan, CapabilitySources, InputMethod, PlanContext, Provider
from sm.providers.claude import trouble
from sm.providers.claude.briefing import TEMPLATE, briefing
from sm.providers.claude.composer import ClaudeComposer
from sm.providers.claude.definitions import ClaudeDefinitions
from sm.providers.claude.home import ClaudeHome
from sm.providers.claude.hooks import ClaudeHookReader, conversation_id
from sm.providers.claude.options import BYPASS, excused, gathered, kept
from sm.providers.claude.permissions import bypasses, capped
from sm.providers.claude.pricing import context_window, cost_usd
from sm.providers.claude.settings import session_settings
from sm.providers.claude.setup import ClaudeSetup
from sm.providers.claude.state import ClaudeStateReader
from sm.providers.claude.summarizer import ClaudeSummarizer
from sm.providers.claude.terminal import ClaudeScreenReader
from sm.providers.claude.transcript import ClaudeTranscriptReader
from sm.providers.readers import Readers

_NEVER_INHERITED = frozenset({
    # What a claude gives to all that it starts. With these another claude takes itself for a part of that one:
    # no transcript, no state file, no resuming (CC 2.4).
    "CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SESSION_KIND",
    "CLAUDE_CODE_SESSION_NAME", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_EXECPATH", "CLAUDE_CODE_AGENT",
    "CLAUDE_CODE_SSE_PORT", "CLAUDE_AGENT_SDK_VERSION", "CLAUDE_EFFORT", "CLAUDE_ENV_FILE", "CLAUDE_JOB_DIR",
    "CLAUDE_PROJECT_DIR", "AI_AGENT",
    # With these claude asks tmux's global environment, which is that of whoever started the server.
    "TMUX", "TMUX_PANE", "CLAUDE_CODE_TMUX_SESSION", "CLAUDE_CODE_TMUX_PREFIX",
    # The same as options that are refused: no hooks, no transcript, an end that nobody asked for.
    "CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_SAFE_MODE", "CLAUDE_CODE_SKIP_PROMPT_HISTORY",
    "CLAUDE_CODE_EXIT_AFTER_STOP_DELAY", "CLAUDE_CODE_EXIT_AFTER_FIRST_RENDER",
})  # fmt: skip

_SUBCOMMANDS = frozenset({
    "agents", "auth", "auto-mode", "daemon", "doctor", "gateway", "install", "mcp", "plugin", "plugins", "project",
    "setup-token", "ultrareview", "update", "upgrade",
})  # fmt: skip

_MODEL = re.compile(r"[A-Za-z0-9][\w.:/@+\[\]-]{0,199}", re.ASCII)
_ENDS_CLAUDE = frozenset({"exit", "quit", ":q", ":q!", ":wq", ":wq!"})


class ClaudeProvider(Provider):
    """Starts Claude Code for the agent types under `claude.agent_configs`.

    `agents` are their names; what they say, and what files define, comes with each `PlanContext`. `is_root`: the
    daemon's user is. `inherited`: the variables that agents get from a shell. `template`: the briefing's.
    """

    name = "claude"
    has_turns = True
    interrupt_key = "Escape"
    never_inherited = _NEVER_INHERITED
    composer = ClaudeComposer()
    readers = Readers(ClaudeHookReader(), ClaudeStateReader(), ClaudeTranscriptReader(), ClaudeScreenReader())

    def __init__(
        self,
        claude: Claude,
        agents: Sequence[str],
        *,
        is_root: bool,
        inherited: Collection[str] = (),
        template: str = TEMPLATE,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._claude = claude
        self._agents = tuple(agents)
        self._is_root = is_root
        # A launcher of somebody's own comes from elsewhere.
        named = os.path.basename(claude.default_command[0])
        self.install_hint = trouble.INSTALL if named == "claude" else None
        self.definitions = ClaudeDefinitions(claude.env)
        self.setup = ClaudeSetup(claude, self._agents, inherited)
        self.summarizer = ClaudeSummarizer(claude.what, claude.default_command)
        self._template = template
        self._new_id = new_id

    @property
    def agent_types(self) -> tuple[str, ...]:
        return self._agents

    def configured(self, agent_type: str) -> AgentConfig | None:
        return self._claude.agent_configs.get(agent_type)

    def capability_sources(self, environment: Mapping[str, str], around: Sequence[str]) -> CapabilitySources:
        environment = {**environment, **self._claude.env}
        home = ClaudeHome(environment)
        places = (home.directory, *(f"{each.rstrip('/')}/.claude" for each in around))
        return CapabilitySources(
            names=(".claude", ".mcp.json"),
            user_mcps=home.state,
            project_mcps={each: f"{each.rstrip('/')}/.mcp.json" for each in around},
            skills=tuple(f"{each}/skills" for each in places),
            commands=tuple(f"{each}/commands" for each in places),
        )

    def plan(self, request: SpawnRequest, start: PlanContext) -> AgentPlan:
        """The prompt arrives as text: also one that claude would take for a slash command (`/review`), for one of
        its subcommands (`doctor`) or for the wish to end (`exit`).
        """
        agent, preset = start.agent, self._preset(request.preset)
        # No other built-in tools than these, and no permission for them. An empty text is none at all, unknown names
        # count for nothing, and the tools of MCP servers stay (measured).
        only = () if agent.tools is None else ("--tools", ",".join(agent.tools))
        options = gathered(
            (
                (None, self._claude.default_args),
                (agent.model, (*agent.args, *only)),
                (preset.model, preset.args),
                (None, request.extra_args),
                (request.model, ()),
            )
        )
        model = () if options.model is None else ("--model", options.model)
        flags, warnings = self._allowed((*self._claude.default_command, *model, *options.arguments), start)
        conversation = self._new_id()
        prompt, prompt_file = request.prompt or "", None
        if prompt.strip() and self._claude.prompt_via == "file":
            prompt_file = prompt
            prompt = f"Read the file {start.prompt_file} (SM_PROMPT_FILE names it): your task stands there."
        ours = self._ours(start, reads=None if prompt_file is None else start.prompt_file)
        argv = (*flags, "--session-id", conversation, *ours)
        return AgentPlan(
            (*argv, "--", as_text(prompt)) if prompt.strip() else argv,
            self._claude.env,
            prompt_file=prompt_file,
            flags=flags,
            model=options.model,
            conversation=conversation,
            warnings=(*options.warnings, *warnings),
        )

    def resume(self, start: PlanContext, flags: Sequence[str], conversation: str, *, fork: bool) -> AgentPlan:
        """claude finds a conversation again only in the directory that it was in (CC 2).

        Raises IllegalState for what is no id of one: the agent has said it, and could choose an option.
        """
        if conversation_id(conversation) is None:
            raise IllegalState(
                f"session {start.session.id} says that it is in conversation {folded(conversation, 80)!r}, which is "
                "no id of one",
                "sm spawn starts a new one",
            )
        flags, warnings = self._allowed(tuple(flags) or self._claude.default_command, start)
        argv = (*flags, *_model(flags, start.session.model), "--resume", conversation)
        if fork:
            conversation = self._new_id()
            argv += ("--fork-session", "--session-id", conversation)
        return AgentPlan(
            (*argv, *self._ours(start)),
            self._claude.env,
            flags=flags,
            model=start.session.model,
            conversation=conversation,
            warnings=warnings,
        )

    def flags_of(self, argv: Sequence[str]) -> tuple[str, ...]:
        """What goes on with the conversation of a claude that somebody else has started so is started with.

        The options that it had and no others; the program is that of the configuration.
        """
        return (*self._claude.default_command, *kept(_words(argv)[1:]))

    def read_exit(
        self, exit: Exit, emitted_at: str, *, screen: Sequence[str] = (), session: Session
    ) -> Signal:
        """Code 0 is what it ends with for `/exit`, whatever it was doing."""
        if exit.code == 0 and session.status is Status.IDLE:
            return Signal(SignalKind.EXITED, "process", "its process exited with code 0", emitted_at, exit)
        # No lines: the terminal could not be asked, which is not the same as an empty one.
        why = trouble.explain(screen, working_dir=session.working_dir, exited=True) if screen else None
        if why is not None:
            reason = f"{why.message}; hint: {why.hint}"
        elif exit.code == 0:
            reason = "it ended in the middle of a turn (exit code 0)"
        else:
            reason = f"its process ended: {exit}"
        return Signal(SignalKind.CRASHED, "process", reason, emitted_at, exit)

    def adopts(self, argv: Sequence[str]) -> bool:
        """As the shell starts it, or node; a run of `--print` or a subcommand has no input box to speak to."""
        words = _words(argv)
        if not words:
            return False
        names = {"claude", "claude.exe"}
        if len(self._claude.default_command) == 1:
            names.add(os.path.basename(self._claude.default_command[0]))
        is_claude = os.path.basename(words[0]) in names or "/@anthropic-ai/claude-code/" in words[0]
        speaks = not {"-p", "--print"} & set(words) and not _SUBCOMMANDS & set(words[1:2])
        return is_claude and speaks

    def cost_usd(self, usages: Sequence[Usage]) -> float | None:
        return cost_usd(usages, self._claude.prices)

    def context_window(self, model: str) -> int:
        return context_window(model)

    def input_of(self, agent_type: str) -> InputMethod:
        return InputMethod.COMPOSER

    def _preset(self, name: str | None) -> ModelArgs:
        if name is None:
            return ModelArgs()
        preset = self._claude.presets.get(name)
        if preset is None:
            known = ", ".join(sorted(self._claude.presets)) or "none"
            raise UsageError(f"there is no preset {name!r}", f"claude.presets in config.yaml has: {known}")
        return preset

    def _ours(self, start: PlanContext, *, reads: str | None = None) -> tuple[str, ...]:
        """What sm sets for every process of a session; in the user's own settings nothing is changed."""
        text = briefing(start.session, start.parent, start.agent_types, start.agent.prompt, self._template)
        return (
            *(("--mcp-config", start.given.mcp_file) if start.given.mcp_file is not None else ()),
            *(("--strict-mcp-config",) if start.given.strict_mcps else ()),
            "--settings",
            json.dumps(session_settings(start.sm, reads, start.given), separators=(",", ":")),
            "--name",
            start.session.display_name,
            "--append-system-prompt",
            text,
        )

    def _allowed(self, flags: tuple[str, ...], start: PlanContext) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The flags with no more permissions than the parent, and warnings. Raises UsageError for a root's bypass."""
        warnings: tuple[str, ...] = ()
        if start.at_most is not None:
            program = self._claude.default_command
            # Of one that was started by another program it is not known where its options begin.
            behind = len(program) if flags[: len(program)] == program else len(flags)
            flags, warnings = capped(flags, start.at_most, program=behind)
        if not self._is_root or not bypasses(flags) or excused({**start.environment, **self._claude.env}):
            return flags, warnings
        raise UsageError(
            f"claude refuses to bypass permissions as root: agent type {start.session.agent_type} is started with "
            f"--permission-mode {BYPASS}",
            "run sm as another user, or configure another permission mode (acceptEdits); only if this machine is "
            'a sandbox, in config.yaml: claude: {env: {IS_SANDBOX: "1"}}, then: sm daemon restart',
        )


def _words(argv: Sequence[str]) -> Sequence[str]:
    """The command line without what runs the program."""
    return argv[1:] if argv and os.path.basename(argv[0]) in ("node", "bun") else argv


def _model(flags: Sequence[str], model: str | None) -> tuple[str, ...]:
    """The model that the session has run on, where its options name none: a resumed claude takes the user's own one
    and forgets the size of the window (`[1m]`; measured). The agent has said it, and could choose an option.
    """
    named = any(each.partition("=")[0] == "--model" for each in flags)
    return () if named or model is None or not _MODEL.fullmatch(model) else ("--model", model)


def as_text(prompt: str) -> str:
    """The positional prompt that reaches the model as `prompt` (all of it measured with 2.1.197).

    `/x y` is a slash command, and lost when there is none. A single word may be a subcommand (`doctor`, `mcp`),
    also behind `--`, and so may one of a later version. Both are text behind a blank, which claude keeps. A blank
    does not help for `exit` and its like, which end claude. `@file`, `#`, `?`, `-x` and a backslash at the end
    are text anyway; `!` too, but what is typed so is run, so nothing is left to chance.
    """
    if prompt.strip() in _ENDS_CLAUDE:
        return prompt.strip() + "."
    if prompt.startswith(("/", "!")) or not re.search(r"\s", prompt):
        return " " + prompt
    return prompt

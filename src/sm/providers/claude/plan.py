"""Plans the processes of Claude Code, and interprets their exit. Pure, except for new ids.

The command line: program, model and configured options, then the options that sm sets for this process, then
`--` and the prompt. So another option always follows an option with several values (`--allowedTools A B`).
"""

import json
import os.path
import re
import shlex
import signal
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal, TypeAlias

from sm.config import AgentConfig, ModelArgs
from sm.core.models import Exit, PermissionMode, Session, Signal, SpawnRequest
from sm.core.states import SignalKind, TrustLevel
from sm.core.statuses import Status
from sm.core.text import folded
from sm.core.usage import Usage
from sm.errors import IllegalState, UsageError
from sm.operations.hints import Hint, Use
from sm.operations.session_operations import SPAWN
from sm.providers.base import (
    AgentPlan,
    CapabilitySources,
    Fork,
    InputCommand,
    InputMethod,
    PlanContext,
    ProgramFacts,
    Provider,
)
from sm.providers.claude import dialect, trouble
from sm.providers.claude.abilities import Abilities, abilities_of, own_environment
from sm.providers.claude.box_reader import ClaudeBoxReader
from sm.providers.claude.briefing import TEMPLATE, briefing
from sm.providers.claude.commands import COMPACT, read_command, require_start_command
from sm.providers.claude.container import home_files
from sm.providers.claude.definitions import ClaudeDefinitions
from sm.providers.claude.dialect import current
from sm.providers.claude.home import ClaudeHome
from sm.providers.claude.hooks import ClaudeHookReader, conversation_id
from sm.providers.claude.options import BYPASS, is_sandbox_environment, merge_options, resumable_arguments
from sm.providers.claude.permissions import (
    AUTO,
    DEFAULT,
    bypasses,
    canonical,
    limit_to_parent,
    mode_of,
    mode_word_in,
    ranks,
    shown_mode,
    with_mode,
)
from sm.providers.claude.pricing import context_window, cost_usd, knows_price, prices_as_of
from sm.providers.claude.program_help import is_own_program
from sm.providers.claude.readiness import is_claude
from sm.providers.claude.section import ClaudeSection
from sm.providers.claude.settings import session_settings
from sm.providers.claude.setup import ClaudeSetup
from sm.providers.claude.state import ClaudeStateReader
from sm.providers.claude.summarizer import ClaudeSummarizer
from sm.providers.claude.terminal import ClaudeScreenReader
from sm.providers.claude.transcript import ClaudeTranscriptReader
from sm.providers.readers import Readers

ResumeChoice: TypeAlias = Literal["full", "summary", "ask"]
_OF_USER = "permissions.defaultMode of your claude settings"
_MODEL = re.compile(r"[A-Za-z0-9][\w.:/@+\[\]-]{0,199}", re.ASCII)
_BLANKS_AROUND = re.compile(r"^[\s\ufeff]+|[\s\ufeff]+$")
"""All that claude, a JavaScript program, trims."""


def resume_environment(choice: ResumeChoice) -> Mapping[str, str]:
    """The variables with which claude resumes a long and old conversation without a question, unless one is wanted.

    Source: claude 2.1.197 and 2.1.332. The question depends on the account. It comes when the last message is older
    than 70 minutes and the conversation has 100,000 tokens or more; two variables move these limits. 2.1.332 asks only
    if it has made a summary before its process ended, for which the account needs two further feature flags:
    tests/integration/test_claude_restore.py has what each choice does with both versions.
    """
    return {} if choice == "ask" else current().table("environment.resumes_whole")


class ClaudeProvider(Provider):
    """Starts Claude Code for the agent types under `claude.agent_configs`.

    `agents`: the names of these agent types; each `PlanContext` has the settings of one. `is_root`: the daemon runs as
    root. `inherited`: variables that agents inherit from a shell. `template`: the template of the briefing.
    """

    name = "claude"
    has_turns = True
    interrupt_key = "Escape"
    stop_background_keys = (
        "C-x",
        "C-k",
        "C-x",
        "C-k",
    )  # twice within 3 s (measured); Escape stops only the turn
    sandbox_environment: Mapping[str, str] = MappingProxyType(
        # The program belongs to the image, which is read-only, and not to ~/.local/bin, where claude looks for it.
        {"CLAUDE_CODE_SANDBOXED": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_INSTALLATION_CHECKS": "1"}
    )
    """The first one answers the question about trust in the directory (measured)."""
    box_reader = ClaudeBoxReader()
    compact = COMPACT
    readers = Readers(ClaudeHookReader(), ClaudeStateReader(), ClaudeTranscriptReader(), ClaudeScreenReader())

    def __init__(
        self,
        claude: ClaudeSection,
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
        # The hint does not apply to a custom launcher.
        program = os.path.basename(claude.default_command[0])
        self.install_hint = trouble.INSTALL if program == "claude" else None
        self.definitions = ClaudeDefinitions(claude.env)
        self.setup = ClaudeSetup(claude, self._agents, inherited)
        self.summarizer = ClaudeSummarizer(claude.what, claude.default_command)
        self._template = template
        self._new_id = new_id

    @property
    def never_inherited(self) -> frozenset[str]:
        return frozenset(dialect.current().texts("environment.never_inherited"))

    @property
    def prices_as_of(self) -> str:
        return prices_as_of()

    @property
    def agent_types(self) -> tuple[str, ...]:
        return self._agents

    def agent_config(self, agent_type: str) -> AgentConfig | None:
        return self._claude.agent_configs.get(agent_type)

    def permission_mode(self, agent: AgentConfig, program: ProgramFacts) -> PermissionMode | None:
        try:
            options = merge_options(((None, self._claude.default_args), (None, agent.args)))
        except UsageError:
            return None  # no session of this type can start
        mode = mode_of(options.arguments)
        if mode is not None:
            return PermissionMode(shown_mode(mode), "")
        mode, source = self._default_mode(program.permission_mode, abilities_of(program))
        return PermissionMode(shown_mode(mode), source)

    def capability_sources(self, environment: Mapping[str, str], around: Sequence[str]) -> CapabilitySources:
        environment = {**environment, **self._claude.env}
        home = ClaudeHome(environment)
        places = (home.directory, *(f"{directory.rstrip('/')}/.claude" for directory in around))
        return CapabilitySources(
            names=(".claude", ".mcp.json"),
            user_mcps=home.state,
            project_mcps={directory: f"{directory.rstrip('/')}/.mcp.json" for directory in around},
            skills=tuple(f"{place}/skills" for place in places),
            commands=tuple(f"{place}/commands" for place in places),
        )

    def own_server(self, sm: str) -> Mapping[str, object]:
        """With tool search, claude shows the model only the names of a server's tools, unless it always loads them."""
        return {"command": sm, "args": ["mcp"], "alwaysLoad": True}

    def home_files(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        return home_files(environment)

    def plan(self, request: SpawnRequest, start: PlanContext) -> AgentPlan:
        """Pass the prompt as text (`as_text`), also one that claude would run: `/review`, `doctor`, `exit`.

        Only with `as_command` claude runs it.
        """
        agent, preset = start.agent, self._preset(request.preset)
        # Limits the built-in tools without granting permissions. An empty text means no tools, unknown names have no
        # effect, and the tools of MCP servers stay (measured).
        tools = () if agent.tools is None else ("--tools", ",".join(agent.tools))
        layers = {
            "claude.default_args": (None, self._claude.default_args),
            f"agent type {request.agent_type}": (agent.model, (*agent.args, *tools)),
            f"--preset {request.preset}": (preset.model, preset.args),
            "--args": (None, request.extra_args),
            "--model": (request.model, ()),
        }
        options = merge_options(layers.values())
        # The last layer with a mode, as for the merged options.
        modes = [name for name, layer in layers.items() if mode_of(merge_options((layer,)).arguments)]
        model = () if options.model is None else ("--model", options.model)
        command = (*self._claude.default_command, *model, *options.arguments)
        flags, warnings, permission = self._permitted(command, start, source=modes[-1] if modes else "")
        prompt = request.prompt or ""
        if request.as_command and request.prompt is not None:
            argument = require_start_command(prompt)
        else:
            argument = as_text(prompt)
        plan = self._begin(start, flags, self._new_id(), prompt, argument)
        warnings = (*options.warnings, *warnings, *_unasked_warnings(agent, mode_of(flags)))
        return replace(plan, flags=flags, model=options.model, warnings=warnings, permission=permission)

    def begin_again(
        self, start: PlanContext, flags: Sequence[str], conversation: str, prompt: str
    ) -> AgentPlan:
        flags, warnings, permission = self._permitted(tuple(flags) or self._claude.default_command, start)
        model = start.session.model
        plan = self._begin(start, (*flags, *_model(flags, model)), conversation, prompt, as_text(prompt))
        return replace(plan, flags=flags, model=model, warnings=warnings, permission=permission)

    def _begin(
        self, start: PlanContext, command: Sequence[str], conversation: str, prompt: str, argument: str
    ) -> AgentPlan:
        """Plan the process that begins a conversation. A blank prompt is none.

        `argument`: the prompt as claude gets it, unless it is in a file. A command is never in a file.
        """
        prompt_file = None
        if prompt.strip() and self._claude.prompt_via == "file" and argument == as_text(prompt):
            prompt_file = prompt
            argument = f"Your task is in the file {start.prompt_file} (SM_PROMPT_FILE). Read that file first."
        mode = mode_of(command) or DEFAULT
        own = self._session_options(start, mode, reads=() if prompt_file is None else (start.prompt_file,))
        argv = (*command, "--session-id", conversation, *own)
        return AgentPlan(
            (*argv, "--", argument) if prompt.strip() else argv,
            self._environment,
            prompt_file=prompt_file,
            conversation=conversation,
        )

    def resume(self, start: PlanContext, flags: Sequence[str], conversation: str, *, fork: bool) -> AgentPlan:
        """claude finds a conversation only from its original directory (measured).

        Raises IllegalState for an invalid id: the agent reports the id and could inject an option.
        """
        if conversation_id(conversation) is None:
            raise IllegalState(
                f"session {start.session.id} reported an invalid conversation id: {folded(conversation, 80)!r}",
                Hint("start a new session: ", Use(SPAWN, "AGENT_TYPE")),
            )
        flags, warnings, permission = self._permitted(tuple(flags) or self._claude.default_command, start)
        argv = (*flags, *_model(flags, start.session.model), "--resume", conversation)
        if fork:
            own = start.session.conversation
            conversation = self._new_id() if own is None or own == conversation else own
            argv += ("--fork-session", "--session-id", conversation)
        return AgentPlan(
            (*argv, *self._session_options(start, permission.mode)),
            self._environment,
            flags=flags,
            model=start.session.model,
            conversation=conversation,
            warnings=warnings,
            permission=permission,
        )

    def fork_in(self, argv: Sequence[str]) -> Fork | None:
        """`argv`: as `resume` builds it."""
        for at in range(len(argv) - 4):
            resume, original, fork, own, copy = argv[at : at + 5]
            if (resume, fork, own) == ("--resume", "--fork-session", "--session-id"):
                return Fork(original, copy)
        return None

    def flags_of(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The configured program, with the options of an adopted claude that are kept."""
        return (*self._claude.default_command, *resumable_arguments(_without_interpreter(argv)[1:]))

    def read_exit(
        self, exit: Exit, emitted_at: str, *, screen: Sequence[str] = (), session: Session
    ) -> Signal:
        """claude exits with code 0 after `/exit` even during a turn, so only an idle agent has completed."""
        if exit.code == 0 and session.status is Status.IDLE:
            return Signal(SignalKind.EXITED, "process", "the process exited with code 0", emitted_at, exit)
        # No lines: the terminal was unreachable, which differs from an empty screen.
        why = trouble.explain(screen, working_dir=session.working_dir, exited=True) if any(screen) else None
        if why is None and session.status in (Status.SPAWNED, Status.STARTING):
            hint = f"cd {shlex.quote(session.working_dir)} && claude --version"
            reason = f"claude did not start: it ended with {_words(exit)}; hint: {hint}"
        elif why is not None:
            reason = f"{why.message}; hint: {why.hint}"
        elif exit.code == 0:
            reason = "claude ended in the middle of a turn (exit code 0)"
        else:
            reason = f"the process ended with {exit}"
        return Signal(SignalKind.CRASHED, "process", reason, emitted_at, exit)

    def adopts(self, argv: Sequence[str]) -> bool:
        """Recognizes claude started directly or by node. `--print` and subcommands have no input box."""
        words = _without_interpreter(argv)
        if not words:
            return False
        names = {"claude", "claude.exe"}
        if len(self._claude.default_command) == 1:
            names.add(os.path.basename(self._claude.default_command[0]))
        is_claude = os.path.basename(words[0]) in names or "/@anthropic-ai/claude-code/" in words[0]
        is_interactive = not {"-p", "--print"} & set(words) and not {
            *dialect.current().texts("commands.of_program")
        } & {*words[1:2]}
        return is_claude and is_interactive

    def cost_usd(self, usages: Sequence[Usage]) -> float | None:
        return cost_usd(usages, self._claude.prices)

    @property
    def program(self) -> str | None:
        command = self._claude.default_command[0]
        return command if is_claude(command) else None

    @property
    def checks_programs(self) -> bool:
        return self._claude.check_new_versions

    def program_notes(self, version: str | None, outcomes: Mapping[str, bool]) -> Sequence[str]:
        return dialect.current().notes(dialect.Known(dialect.version_in(version or ""), outcomes or None))

    def is_own_program(self, path: str) -> bool:
        return is_own_program(path)

    def knows_price(self, model: str) -> bool:
        return knows_price(model, self._claude.prices)

    def context_window(self, model: str, version: str = "") -> int:
        return context_window(model, version)

    def input_of(self, agent_type: str) -> InputMethod:
        return InputMethod.COMPOSER

    def input_command(self, text: str) -> InputCommand | None:
        return read_command(text)

    def _preset(self, name: str | None) -> ModelArgs:
        if name is None:
            return ModelArgs()
        preset = self._claude.presets.get(name)
        if preset is None:
            known = ", ".join(sorted(self._claude.presets)) or "none"
            raise UsageError(f"unknown preset {name!r}", f"presets in config.yaml (claude.presets): {known}")
        return preset

    def _session_options(
        self, start: PlanContext, mode: str, *, reads: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """The options that sm sets for every process of a session, in place of a change to the user's settings.

        `mode`: the permission mode of the process.
        """
        text = briefing(
            start.session,
            start.parent,
            start.agent_types,
            start.agent.prompt,
            self._template,
            place=start.place,
            additions=start.additions,
            has_tools=start.granted.own_server,
        )
        if start.files:
            reads = (*reads, f"{start.files}/**")
        abilities = abilities_of(start.program)
        own = abilities.own_settings(may_message=self._claude.sessions_may_message)
        default_mode = abilities.answered_mode(mode, start.program.permission_mode)
        return (
            *(("--mcp-config", start.granted.mcp_file) if start.granted.mcp_file is not None else ()),
            *(("--strict-mcp-config",) if start.granted.strict_mcps else ()),
            *abilities.own_options,
            "--settings",
            json.dumps(
                {**session_settings(start.sm, reads, start.granted, default_mode), **own},
                separators=(",", ":"),
            ),
            *(("--name", start.session.display_name) if abilities.may_pass("--name") else ()),
            "--append-system-prompt",
            text,
        )

    @property
    def summarizes_at_resume(self) -> bool:
        return self._claude.resume == "summary"

    @property
    def _environment(self) -> Mapping[str, str]:
        return {**own_environment(), **resume_environment(self._claude.resume), **self._claude.env}

    def _permitted(
        self, flags: tuple[str, ...], start: PlanContext, *, source: str = ""
    ) -> tuple[tuple[str, ...], tuple[str, ...], PermissionMode]:
        """The flags with a permission mode, within the parent's permissions; warnings; and the mode.

        Without an option claude would take its mode from the settings of the project, which agents can write, or use
        `auto`, in which it asks a model and not the operator (measured with 2.1.332). `source`: of the mode in `flags`.
        Raises UsageError if root would bypass permissions.
        """
        warnings: tuple[str, ...] = ()
        command, wanted = self._claude.default_command, mode_of(flags)
        # With another program it is unknown where the options begin, so the mode goes to the end.
        program = len(command) if flags[: len(command)] == command else len(flags)
        if start.at_most is not None:
            flags, warnings = limit_to_parent(
                flags,
                start.at_most,
                start.parent_mode,
                is_attended=start.is_parent_attended,
                program=program,
            )
            source = source if mode_of(flags) == wanted else "its parent"
        abilities, mode = abilities_of(start.program), mode_of(flags)
        if mode is None:
            mode, source = self._default_mode(start.program.permission_mode, abilities)
            flags = with_mode(flags, abilities.mode_word(mode), program=program)
        elif abilities.mode_word(mode) != mode_word_in(flags):
            flags = with_mode(flags, abilities.mode_word(mode), program=program)
        if self._is_refused_to_root(flags, start):
            of = f"agent type {start.session.agent_type} has --permission-mode"
            of = f"{_OF_USER} is" if source == _OF_USER else of
            raise UsageError(
                f"claude refuses to bypass permissions as root: {of} {BYPASS}",
                "run sm as another user, or use another permission mode, such as acceptEdits; only if this machine is "
                'a sandbox, set in config.yaml: claude: {env: {IS_SANDBOX: "1"}}',
            )
        return flags, warnings, PermissionMode(shown_mode(mode), source)

    def _default_mode(self, of_user: str, abilities: Abilities) -> tuple[str, str]:
        """The mode of a session for which nothing has one, and its source."""
        mode = canonical(of_user)
        if mode in ranks() and abilities.knows_mode(mode):
            return mode, _OF_USER
        return DEFAULT, "the default of sm"

    def _is_refused_to_root(self, flags: Sequence[str], start: PlanContext) -> bool:
        return (
            self._is_root
            and start.session.effective_mode is not TrustLevel.SANDBOXED  # no agent in a container is root
            and bypasses(flags)
            and not is_sandbox_environment({**start.environment, **self._claude.env})
        )


def _unasked_warnings(agent: AgentConfig, mode: str | None) -> tuple[str, ...]:
    """Warn that rules of the agent type do not apply where claude asks nobody."""
    if not agent.auto_deny or mode not in (AUTO, BYPASS):
        return ()
    return (
        f"auto_deny has no effect on what claude does without a question, and in permission mode {mode} it asks "
        "for little or nothing",
    )


def _words(exit: Exit) -> str:
    """The exit with the name of its signal, such as `signal 11 (Segmentation fault)`."""
    known = exit.signal is not None and exit.signal in set(signal.Signals)
    return f"{exit} ({signal.strsignal(exit.signal)})" if known and exit.signal is not None else str(exit)


def _without_interpreter(argv: Sequence[str]) -> Sequence[str]:
    """The command line without the interpreter."""
    return argv[1:] if argv and os.path.basename(argv[0]) in ("node", "bun") else argv


def _model(flags: Sequence[str], model: str | None) -> tuple[str, ...]:
    """The session's model as an option, unless `flags` name one.

    A resumed claude otherwise uses the user's default model and forgets the window size (`[1m]`; measured). The agent
    reports the model and could inject an option, hence the pattern.
    """
    has_model = any(flag.partition("=")[0] == "--model" for flag in flags)
    return () if has_model or model is None or not _MODEL.fullmatch(model) else ("--model", model)


def as_text(prompt: str) -> str:
    """Escape a positional prompt so that it reaches the model as text (measured with 2.1.197 and 2.1.332).

    `/x y` is a slash command. A single word may be a subcommand (`doctor`, `mcp`, or one of a later version), even
    behind `--`, or end claude (`exit`). `!` runs a command in the input box. The first words prevent all of these. A
    leading blank does not: 2.1.332 removes it, and what else JavaScript trims. `@file`, `#`, `?`, `-x` and a final
    backslash are text anyway.
    """
    text = _BLANKS_AROUND.sub("", prompt)
    is_text = not text.startswith(("/", "!")) and re.search(r"\s", text)
    return prompt if is_text else f"Task: {text}"

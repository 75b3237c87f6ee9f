"""Checks the installation of claude on this machine, and trusts directories.

The checks run only `claude --version` and read no credentials. Measured with 2.1.197.
"""

import asyncio
import json
import os
import shlex
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from sm.errors import ExternalError, UsageError
from sm.providers.base import (
    TYPED_LINES_MAX,
    Finding,
    InstalledProgram,
    Login,
    ProgramFacts,
    TranscriptRetention,
    TrustEntry,
)
from sm.providers.checks import is_older, version_of
from sm.providers.claude.container import require_login
from sm.providers.claude.home import ClaudeHome, config_dir, read_object
from sm.providers.claude.options import is_sandbox_environment, merge_options
from sm.providers.claude.permissions import bypasses
from sm.providers.claude.program_help import OLDEST, ProgramHelp, find_installed
from sm.providers.claude.project import project_effects
from sm.providers.claude.readiness import (
    LOG_IN,
    NO_LOGIN,
    RUN_ONCE,
    SET_UP,
    accepts_bypass,
    asks_about_key,
    default_mode,
    is_claude,
    is_onboarded,
    is_trusted,
    login_of,
    login_outside,
    login_setting,
    read_settings,
    require_installed,
    require_ready,
)
from sm.providers.claude.section import ClaudeSection
from sm.providers.claude.settings_files import MANAGED, HooksOff, hooks_off, settings_files
from sm.providers.claude.trouble import INSTALL
from sm.providers.claude.trust import accept_bypass, trust
from sm.providers.readers import SetupQuestion
from sm.providers.values import mapping, string
from sm.sandboxes.home import ContainerHome

_STATE_MAX_BYTES = 8 * 1024 * 1024
_DAYS_KEY = "cleanupPeriodDays"
_DEFAULT_DAYS = 30


def login_of_agent(environment: Mapping[str, str], home: ContainerHome | None) -> Login:
    """The login, as claude chooses it: a variable or a command of its settings, else the account of `/login`.

    The name of that account is public: claude refreshes its credentials, and they stay unread.
    """
    if home is not None:
        directory = home.host_path(config_dir(environment)) or home.directory
        name = login_setting({}, environment)
        identity = environment.get(name, "") if name else _account_in(_state_inside(environment, home))
        return Login(directory, identity)
    files = ClaudeHome(environment)
    settings = read_settings(files)
    name = login_setting(settings, environment)
    if name is None:
        return Login(files.directory, _account_in(_state(files)))
    own = mapping(settings.get("env"))
    return Login(
        files.directory, string(own.get(name)) or environment.get(name) or string(settings.get(name))
    )


def _state(files: ClaudeHome) -> Mapping[str, object]:
    try:
        return read_object(files.state)[0]
    except (OSError, ExternalError):
        return {}


def _state_inside(environment: Mapping[str, str], home: ContainerHome) -> Mapping[str, object]:
    path = home.host_path(ClaudeHome(environment).state)
    try:
        value = json.loads(home.read(path, _STATE_MAX_BYTES).data) if path is not None else None
    except (OSError, ValueError, RecursionError):
        return {}
    return mapping(value)


def _account_in(state: Mapping[str, object]) -> str:
    return string(mapping(state.get("oauthAccount")).get("accountUuid"))


def retention(
    environment: Mapping[str, str],
    working_dir: str,
    home: ContainerHome | None = None,
    *,
    managed: str = MANAGED,
) -> TranscriptRetention:
    """Read after how many days claude deletes transcripts. `home`: of the session's container, None on this host.

    Each start of claude deletes the transcripts of its user that nobody has written to for `cleanupPeriodDays` days (1
    or more, by default 30).
    """
    found = TranscriptRetention(_DEFAULT_DAYS)
    for path, settings in settings_files(environment, working_dir, home, managed):
        days = settings.get(_DAYS_KEY)
        # claude refuses other values, and then deletes nothing while they are there.
        if isinstance(days, int) and not isinstance(days, bool) and days >= 1:
            found = TranscriptRetention(days, path)
    return found


class ClaudeSetup:
    """`Setup` for claude. `inherited`: variables that agents inherit from a shell."""

    def __init__(self, claude: ClaudeSection, agents: Sequence[str], inherited: Collection[str]) -> None:
        self._claude = claude
        self._agents = agents
        self._inherited = {"HOME", *inherited}
        self._help = ProgramHelp()

    def project_effects(self, directory: str) -> Iterator[str]:
        return project_effects(directory)

    def trust(self, environ: Mapping[str, str], directory: str) -> TrustEntry:
        home = ClaudeHome(self._agent_environment(environ))
        if not os.path.lexists(home.state):
            require_installed(self._claude.default_command[0], environ)
        return trust(home, directory)

    def accept_bypass(self, environ: Mapping[str, str]) -> TrustEntry:
        return accept_bypass(ClaudeHome(self._agent_environment(environ)))

    def approve(self, environment: Mapping[str, str], question: SetupQuestion, directory: str) -> None:
        home = ClaudeHome(environment)
        match question:
            case SetupQuestion.TRUST:
                trust(home, directory)
            case SetupQuestion.BYPASS:
                accept_bypass(home)
            case _:
                assert_never(question)

    def login(self, environment: Mapping[str, str], home: ContainerHome | None) -> Login:
        return login_of_agent(environment, home)

    def require_ready(
        self,
        environment: Mapping[str, str],
        argv: Sequence[str],
        directory: str,
        project_of: Callable[[str], str],
    ) -> None:
        require_ready(environment, argv, directory, project_of)

    async def program(self, environment: Mapping[str, str], home: ContainerHome | None) -> ProgramFacts:
        if home is not None:
            return ProgramFacts()
        environment = {**environment, **self._claude.env}
        facts = await self._help.ask(self._claude.default_command[0], environment)
        mode = await asyncio.to_thread(default_mode, ClaudeHome(environment))
        return replace(facts, permission_mode=mode)

    def installed(self, environment: Mapping[str, str]) -> InstalledProgram | None:
        return find_installed(self._claude.default_command[0], {**environment, **self._claude.env})

    def require_login(
        self, environment: Mapping[str, str], argv: Sequence[str], home: ContainerHome, container: str
    ) -> None:
        require_login(environment, argv, home, container)

    def session_warnings(
        self, environment: Mapping[str, str], working_dir: str, home: ContainerHome | None
    ) -> tuple[str, ...]:
        off = hooks_off(environment, working_dir, home)
        return () if off is None else (_hooks_off(off),)

    def runs_hooks(
        self, environment: Mapping[str, str], working_dir: str, home: ContainerHome | None
    ) -> bool:
        return hooks_off(environment, working_dir, home) is None

    def retention(
        self, environment: Mapping[str, str], working_dir: str, home: ContainerHome | None
    ) -> TranscriptRetention:
        return retention(environment, working_dir, home)

    def _agent_environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables of an agent spawned from this shell. Its claude may use other files than the operator's."""
        return {name: value for name, value in environ.items() if name in self._inherited} | self._claude.env

    def checks(self, environ: Mapping[str, str], current_dir: str) -> Iterator[Finding]:
        if not self._agents:
            return
        program = self._claude.default_command[0]
        path = shutil.which(program, path=environ.get("PATH"))
        if path is None:
            types = ", ".join(self._agents)
            yield Finding(
                False,
                f"claude is not installed: there is no {program} on your PATH, so direct agents of type {types} cannot "
                "start",
                SET_UP,
            )
            return
        yield _version(path)
        given = self._agent_environment(environ)
        home = ClaudeHome(given)
        try:
            state, _ = read_object(home.state)
        except FileNotFoundError:
            yield Finding(
                False,
                f"claude has never been started: {home.state} does not exist",
                RUN_ONCE,
            )
            return
        except (OSError, ExternalError) as error:
            yield Finding(False, f"claude: {home.state} cannot be read: {error}", RUN_ONCE)
            return
        if is_onboarded(state):
            yield Finding(True, f"claude is set up ({home.state})")
        else:
            yield Finding(False, "claude has not finished its first-time setup", RUN_ONCE)
        settings = read_settings(home)
        off = hooks_off(given, current_dir)
        if off is not None:
            yield Finding(False, f"claude: {_hooks_off(off)}", f"remove {off.key} from {off.path}")
        yield _retention(retention(given, current_dir))
        yield _login(home, state, settings, given, environ)
        yield _trust(state, given, current_dir, path)
        yield from self._bypass(given, accepted=accepts_bypass(state, settings))

    def _bypass(self, given: Mapping[str, str], *, accepted: bool) -> Iterator[Finding]:
        """Check agent types that bypass permissions: claude refuses this to root, and asks other users once."""
        bypassing = []
        for name in self._agents:
            try:
                options = merge_options(
                    ((None, self._claude.default_args), (None, self._claude.agent_configs[name].args))
                )
            except UsageError as error:
                yield Finding(False, f"{name}: {error.message}", "edit config.yaml")
                continue
            if bypasses(options.arguments):
                bypassing.append(name)
        if not bypassing:
            return
        types = ", ".join(bypassing)
        if os.geteuid() == 0 and not is_sandbox_environment(given):
            yield Finding(
                False,
                f"claude refuses to bypass permissions as root: direct agents of type {types} cannot start",
                "run sm as another user, or choose another --permission-mode in config.yaml; only if this machine is a "
                'sandbox: claude: {env: {IS_SANDBOX: "1"}}',
            )
        elif not accepted:
            yield Finding(
                False,
                f"claude has not been allowed to bypass permissions: {types} would wait for an answer",
                "sm trust --bypass",
            )


def _version(path: str) -> Finding:
    if not is_claude(path):
        return Finding(True, f"agents are started with {path}; sm does not check its version")
    try:
        version = version_of(path)
    except ExternalError as error:
        return Finding(False, error.message, INSTALL)
    if is_older(version, OLDEST):
        oldest = ".".join(map(str, OLDEST))
        too_old = f"claude {version} at {path} is too old, sm needs {oldest} or newer"
        return Finding(False, too_old, "claude update")
    return Finding(True, f"claude {version} at {path}")


def _retention(kept: TranscriptRetention) -> Finding:
    where = "is not set" if kept.source is None else f"in {kept.source}"
    days = "1 day" if kept.days == 1 else f"{kept.days} days"
    return Finding(
        True,
        f"claude deletes a transcript {days} after its last line (cleanupPeriodDays {where}); archives of sm keep it",
    )


def _hooks_off(off: HooksOff) -> str:
    return (
        f"hooks are turned off in {off.path} ({off.key}): sm cannot answer permissions of claude, only a person at its "
        "terminal can; the first request of an agent may have no tools of sm if its prompt has more than "
        f"{TYPED_LINES_MAX} lines"
    )


def _login(
    home: ClaudeHome,
    state: Mapping[str, object],
    settings: Mapping[str, object],
    given: Mapping[str, str],
    environ: Mapping[str, str],
) -> Finding:
    login = login_of(home, settings, given)
    if login == home.credentials:
        return Finding(True, f"claude has a login ({login})")
    if login == "ANTHROPIC_API_KEY" and asks_about_key(state, given):
        return Finding(
            False, f"claude has not been allowed to use {login}", "run claude in a terminal and choose Yes"
        )
    if login is not None:
        return Finding(True, f"claude logs in with {login}")
    outside = login_outside(environ)
    if outside is not None:
        todo = f"add {outside} to sessions.inherit_environment_vars in config.yaml"
        return Finding(False, f"claude has no login: sm does not pass {outside} to agents", todo)
    return Finding(False, NO_LOGIN, LOG_IN)


def _trust(state: Mapping[str, object], given: Mapping[str, str], current_dir: str, program: str) -> Finding:
    directory = os.path.realpath(current_dir)
    if is_trusted(state, given, directory, program):
        return Finding(True, f"claude trusts {directory}")
    return Finding(
        False,
        f"claude does not trust {directory}: agents there would wait at its trust dialog",
        f"sm trust {shlex.quote(directory)}",
    )

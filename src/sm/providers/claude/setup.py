"""claude as it is set up on this machine: what would hold up its agents, and which directories it trusts."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from sm.config import Claude
from sm.providers.base import Finding, Trusted
from sm.providers.claude.doctor import checks
from sm.providers.claude.home import ClaudeHome
from sm.providers.claude.trust import trust


class ClaudeSetup:
    """`Setup` for claude. `inherited`: the variables that the configuration hands from a shell to agents."""

    def __init__(self, claude: Claude, agents: Sequence[str], inherited: Collection[str]) -> None:
        self._claude = claude
        self._agents = agents
        self._inherited = {"HOME", *inherited}

    def checks(self, environ: Mapping[str, str], current_dir: str) -> Iterator[Finding]:
        return checks(self._claude, self._agents, self._given(environ), environ, current_dir)

    def trust(self, environ: Mapping[str, str], directory: str) -> Trusted:
        return trust(ClaudeHome(self._given(environ)), directory)

    def _given(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What decides where claude looks and how it logs in, as an agent gets it that is spawned from this shell.

        So the claudes of agents may look elsewhere than the person's own does.
        """
        return {name: value for name, value in environ.items() if name in self._inherited} | self._claude.env

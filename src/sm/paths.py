"""Paths of the files of an instance. Pure: the caller passes the environment."""

from sm.wire import SANDBOX_STATE

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from collections.abc import Mapping

# sockaddr_un.sun_path holds 108 bytes with its NUL on Linux (unix(7)); 104 bytes fit on every platform.
SOCKET_PATH_MAX_BYTES = 104


INSIDE_HOME = "/home/sandbox"
"""The home directory in a container. The next constants also are paths in a container."""
INSIDE_CLIENT = "/opt/sm"
INSIDE_LAUNCH = "/run/sm/launch"
INSIDE_SOCKET_DIR = "/run/sm/socket"
INSIDE_SCRATCH = "/scratch"
INSIDE_VAULT = "/vault"
INSIDE_CA_FILE = "/etc/ssl/certs/ca-certificates.crt"
"""The certificates that programs in a container trust. Node has its own ones, unless NODE_EXTRA_CA_CERTS adds these."""
INSIDE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH of Debian's images."""


FILES_SUFFIX = ".files"
"""The end of the directory of a session's files, behind the id of the session."""


def is_within(path: str, directory: str) -> bool:
    """Return whether `path` is the directory or lies in it. Both are absolute and normalized."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


class SandboxPaths:
    """The files of a workspace's container on the host. `socket_dir` holds the agent socket and nothing else."""

    def __init__(self, base: str, socket: str) -> None:
        self.base = base
        self.home = base + "/home"
        """The home directory of the container."""
        self.spool = self.home + SANDBOX_STATE + "/spool"
        self.launch = base + "/launch"
        self.socket = socket
        self.socket_dir = socket.rpartition("/")[0]


class AgentPaths:
    """Paths of a session's files, as its agent sees them: on the host or in its container."""

    def __init__(self, session_id: str, *, bin: str, launch: str, socket: str) -> None:
        self.bin = bin
        """The directory of the command `sm`."""
        self.socket = socket
        self.token_file = f"{launch}/{session_id}.token"
        self.prompt_file = f"{launch}/{session_id}.prompt"
        self.mcp_file = f"{launch}/{session_id}.mcp.json"
        """The MCP servers of a session, with their secrets: mode 0600."""
        self.files = f"{launch}/{session_id}{FILES_SUFFIX}"
        """The directory of the files that messages name."""


class InstancePaths:
    """The paths of one instance. `state` has mode 0700."""

    def __init__(self, config: str, state: str) -> None:
        self.config = config
        self.home = config.rpartition("/")[0]
        """The directory of config.yaml and of the operator's other files (`agents/`)."""
        self.rules = self.home + "/rules.yaml"
        """The permission rules that sm writes."""
        self.state = state
        self.database = state + "/sm.db"
        self.lock = state + "/sm.lock"
        self.stopped = state + "/stopped"
        """Marker left by `sm daemon stop`: no command starts the daemon while it exists."""
        self.run = state + "/run"
        self.socket = state + "/run/sm.sock"
        self.bin = state + "/bin"
        self.log = state + "/log"
        self.audit = state + "/log/audit.jsonl"
        """JSON lines: caller, action, decision."""
        self.launch = state + "/launch"
        self.client = state + "/client"
        """A copy of the client for containers, which mount it."""
        self.spool = state + "/spool"
        self.seen_processes = state + "/seen-processes.json"
        """The processes that were seen below agents without a cgroup, for when they leave their trees."""
        self.agreements = state + "/agreements.json"
        """The items of workspaces' files to which the operator agreed."""
        self.views = state + "/views.json"
        """The operator's choices in `sm top`."""
        self.web = state + "/web"
        """The logins of browsers, and the address of the running `sm web`."""
        self.checks = state + "/checks"
        """The outcomes of `sm check`."""
        self.programs = state + "/programs"
        """The versions of agent CLIs that `sm provider use` keeps."""
        self.uploads = state + "/uploads"
        """Files that no message has named yet."""
        self.archives = state + "/archives"
        """Terminal output of ended sessions."""

    def agent_socket(self, workspace: str | None) -> str:
        """The socket for containers of a workspace, or of sessions without a workspace if None.

        Containers mount its directory, so the directory holds nothing else. A slug would make the path too long.
        """
        import hashlib

        return f"{self.run}/w/{hashlib.sha256((workspace or '').encode()).hexdigest()[:16]}/s"

    def sandbox(self, workspace: str | None) -> SandboxPaths:
        """The files of the container of a workspace, or of that for sessions without a workspace if None."""
        base = "/ws-default" if workspace is None else f"/ws/{workspace}"
        return SandboxPaths(self.state + base, self.agent_socket(workspace))

    def agent_paths(self, session_id: str, *, sandboxed: bool) -> AgentPaths:
        """The paths that the agent of a session uses, as it sees them."""
        if sandboxed:
            return AgentPaths(
                session_id,
                bin=INSIDE_CLIENT + "/bin",
                launch=INSIDE_LAUNCH,
                socket=INSIDE_SOCKET_DIR + "/s",
            )
        return AgentPaths(session_id, bin=self.bin, launch=self.launch, socket=self.socket)

    def token_file(self, session_id: str) -> str:
        return f"{self.launch}/{session_id}.token"

    def prompt_file(self, session_id: str) -> str:
        return f"{self.launch}/{session_id}.prompt"

    def mcp_file(self, session_id: str) -> str:
        """The MCP servers of a session, with their secrets: mode 0600."""
        return f"{self.launch}/{session_id}.mcp.json"


def instance_paths(environ: "Mapping[str, str]") -> InstancePaths:
    """Find the instance: `SM_HOME`, else the XDG directories of the user (XDG Base Directory 0.8).

    Ignores a relative `SM_HOME` or XDG path, as the specification demands.
    """
    home = environ.get("SM_HOME", "")
    if home.startswith("/"):
        home = home.rstrip("/") or "/"
        return InstancePaths(home + "/config.yaml", home + "/state")
    user = environ.get("HOME", "/")
    config = environ.get("XDG_CONFIG_HOME", "")
    state = environ.get("XDG_STATE_HOME", "")
    config = config if config.startswith("/") else user + "/.config"
    state = state if state.startswith("/") else user + "/.local/state"
    return InstancePaths(config + "/sm/config.yaml", state + "/sm")

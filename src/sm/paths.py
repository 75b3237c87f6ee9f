"""Paths of the files of an instance. Pure: the caller passes the environment."""

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from collections.abc import Mapping

# sockaddr_un.sun_path holds 108 bytes with its NUL on Linux (unix(7)); 104 bytes fit on every platform.
SOCKET_PATH_MAX_BYTES = 104


class InstancePaths:
    """The paths of one instance. `state` has mode 0700."""

    def __init__(self, config: str, state: str) -> None:
        self.config = config
        self.home = config.rpartition("/")[0]
        """The directory of config.yaml and of the operator's other files (`agents/`)."""
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
        self.spool = state + "/spool"
        self.agreements = state + "/agreements.json"
        """The items of workspaces' files to which the operator agreed."""
        self.archives = state + "/archives"
        """Terminal output of ended sessions."""

    def agent_socket(self, workspace: str | None) -> str:
        """The socket for containers of a workspace; None: of sessions without a workspace.

        Containers mount its directory, so the directory holds nothing else. A slug would make the path too long.
        """
        import hashlib

        return f"{self.run}/w/{hashlib.sha256((workspace or '').encode()).hexdigest()[:16]}/s"

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

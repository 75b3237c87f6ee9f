"""Names of environment variables that sandboxed agents and their servers must not get from outside."""

DENIED_IN_SANDBOX = (
    "LD_*", "GCONV_PATH", "GLIBC_TUNABLES",  # the dynamic loader loads code from these paths
    "NODE_OPTIONS", "NODE_PATH", "BUN_OPTIONS", "PYTHON*", "PERL5*", "RUBYOPT", "RUBYLIB",  # as do interpreters
    "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS",
    "BASH_ENV", "BASH_FUNC_*", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "ZDOTDIR",  # and shells
    "GIT_*", "SSH_*",  # git and ssh run the commands in these variables
)  # fmt: skip
"""Variables removed from what runs in a sandbox, because each can make a program run other code. A name, or a prefix
with `*`. `direct` sessions run as the user, who may set them.
"""


def denied_in_sandbox(name: str) -> bool:
    """Return whether a variable of this name must not be passed into a sandbox."""
    return any(
        name.startswith(denied[:-1]) if denied.endswith("*") else name == denied
        for denied in DENIED_IN_SANDBOX
    )

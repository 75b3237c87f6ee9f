"""Write the archive of an ended session to a file.

The file has what the session did: its terminal output, transcripts with those of sub-agents, messages, events,
checkpoints, requests and usage. Only you can read the file (0600). Prompts, source code and secrets that the agent saw
may be in it, so agents cannot export archives.

\b
Examples:
  sm export engineer-login login.tar.gz
"""

import os
from contextlib import suppress

import click

from sm.cli.call import Call, json_option
from sm.cli.options import session_argument
from sm.client.http import session_path
from sm.core.session_lines import label
from sm.errors import UsageError

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@click.command(help=__doc__)
@session_argument
@click.argument("file", metavar="FILE")
@click.option("--force", "-f", is_flag=True, help="Replace FILE if it exists.")
@json_option
def command(session: str, file: str, force: bool, call: Call) -> None:
    if os.path.lexists(file) and not force:
        raise UsageError(f"{file} exists", "use --force to replace it")
    client = call.client
    found = client.get(session_path(session))
    # Written beside its place, so that FILE is never a part of an archive.
    new = f"{file}.{os.urandom(4).hex()}.part"
    try:
        descriptor = os.open(new, _NEW_FILE, 0o600)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None
    try:
        with open(descriptor, "wb") as target:
            client.download(session_path(found["session_id"], "/export"), target.write)
            size = target.tell()
        if force:
            os.rename(new, file)
        else:
            os.link(new, file)  # fails if another program has made FILE
    except FileExistsError:
        raise UsageError(f"{file} exists", "use --force to replace it") from None
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None
    finally:
        with suppress(OSError):
            os.unlink(new)
    call.show_value(
        {"session_id": found["session_id"], "file": os.path.abspath(file), "bytes": size},
        lambda done: [f"Wrote the archive of {label(found)} to {file} ({done['bytes']:,} bytes)"],
    )

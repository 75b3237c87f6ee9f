"""Requests for pairing in the database of an instance whose daemon does not run."""

from sm.capabilities.pairing.pairings import Pairings
from sm.capabilities.pairing.tables import PART
from sm.daemon.main import make_directories
from sm.paths import instance_paths
from sm.sessions.authorizer import Authorizer
from sm.sessions.chat_users import ChatUsers
from sm.store import Store
from sm.store.audit import Audit
from tests.instance import Instance


async def ask_to_pair(instance: Instance, *users: tuple[str, str]) -> list[str]:
    """Ask as each of `users` (name and label) does by /start; return the names of the requests."""
    paths = instance_paths(instance.env)
    make_directories(paths)
    async with await Store.open(paths.database) as store:
        async with store.transaction() as tx:
            at = tx.now
        audit = Audit(paths.audit, lambda: at)
        pairings = Pairings(
            store, Authorizer(store, audit.record), ChatUsers(store, audit.record, ()), audit.record
        )
        for user, label in users:
            await pairings.ask(user, label, None)
        names = [request.name for request in store.part(PART).rows.requests.values()]
    audit.close()
    return names

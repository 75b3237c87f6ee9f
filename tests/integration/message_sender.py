"""An agent that sends numbered messages: `python -m tests.integration.message_sender NAME COUNT RECIPIENT...`

Each message is retried with the same Idempotency-Key until it is stored, while the daemon may be killed.
"""

import os
import sys
import time

from sm.client.http import Client, DaemonAway, new_key


def main() -> None:
    name, count, *recipients = sys.argv[1:]
    client = Client(os.environ["SM_SOCKET"])
    for number in range(int(count)):
        body = {"to": recipients[number % len(recipients)], "text": f"{name}:{number}"}
        key = new_key()
        while True:
            try:
                client.post("/v1/messages", body, key=key)
                break
            except DaemonAway:
                time.sleep(0.02)  # nothing reports when a daemon is back


if __name__ == "__main__":
    main()

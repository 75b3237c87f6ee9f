"""An agent that sends numbered messages: `python -m tests.integration.mail_sender NAME COUNT RECIPIENT...`

Each is sent with one Idempotency-Key until it is stored, however often the daemon dies over it.
"""

import os
import sys
import time

from sm.client.http import Away, Client, new_key
from tests.load import Limit


def main() -> None:
    name, count, *recipients = sys.argv[1:]
    client = Client(os.environ["SM_SOCKET"])
    for number in range(int(count)):
        body = {"to": recipients[number % len(recipients)], "text": f"{name}:{number}"}
        key, limit = new_key(), Limit(90)
        while True:
            try:
                client.post("/v1/messages", body, key=key)
                break
            except Away:
                if limit.is_over:
                    raise
                time.sleep(0.02)  # nobody tells when a daemon is back


if __name__ == "__main__":
    main()

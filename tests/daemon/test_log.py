"""The formats of the log: no record shows a secret, wherever a library put it."""

import json
import logging
import sys

import pytest

from sm.daemon.log import JsonLines, RedactedFormatter, Redaction

TOKEN = "4242:AAtest-token_of-the-tests-0123456789abc"


def record(message: str, *arguments: object, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("httpx", logging.INFO, __file__, 1, message, arguments, None)
    vars(made).update(fields)
    return made


def failure() -> logging.LogRecord:
    made = record("failed")
    try:
        raise OSError(f"cannot reach https://api.telegram.org/bot{TOKEN}/getMe")
    except OSError:
        made.exc_info = sys.exc_info()
    return made


@pytest.mark.parametrize("formatter", [JsonLines(Redaction([TOKEN])), RedactedFormatter(Redaction([TOKEN]))])
@pytest.mark.parametrize(
    "logged",
    [
        record(f"HTTP Request: POST https://api.telegram.org/bot{TOKEN}/getMe"),
        record("to %s", f"https://api.telegram.org/bot{TOKEN.replace(':', '%3A')}/getMe"),
        record("secret %r", TOKEN.partition(":")[2]),
        record("failed", sm_session=f"bot{TOKEN}"),
        failure(),
    ],
)
def test_log_shows_no_token_in_messages_arguments_fields_and_tracebacks(
    formatter: logging.Formatter, logged: logging.LogRecord
) -> None:
    text = formatter.format(logged)
    assert TOKEN.partition(":")[2] not in text
    assert "[token]" in text or (isinstance(formatter, RedactedFormatter) and "failed" in text)


def test_log_without_secrets_is_unchanged() -> None:
    line = json.loads(JsonLines(Redaction([""])).format(record("started %s", "0.1", sm_session="aaaa1111")))
    assert (line["message"], line["sm_session"]) == ("started 0.1", "aaaa1111")

"""Telegram: a front door for owners with a phone. Loaded only when `telegram.token_file` is configured."""

"""Telegram: a front door for people with a phone. Loaded only when `telegram.token_file` is configured."""

"""Every change of state, as functions of a transaction: sessions, messages, requests, notices, endings, quotas."""

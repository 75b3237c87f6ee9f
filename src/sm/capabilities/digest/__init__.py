"""The digest: what happened since a time, worst first, on request and once a day."""

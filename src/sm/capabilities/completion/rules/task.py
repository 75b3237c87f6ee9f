"""The words of a task that say what is to be done, without numbers of issues and addresses in front of them. Pure."""

import re

TASK_MAX = 400
"""Characters of a task that are weighed."""
_NUMBERED = (
    r"(?:fix(?:es)?|issue|ticket|bug|task|case|pr|mr|gh|close[sd]?|resolves?|re|behebe|corrige|aufgabe|"
    r"tarea|tâche)"
)
_IN_FRONT = re.compile(
    rf"\s*(?:\[[^\[\]\n]{{1,30}}\]\s*[:–—-]?|(?:{_NUMBERED}\s+)?"
    rf"(?:#\d{{1,9}}|[a-z]{{2,10}}-\d{{1,7}}|\d{{1,9}})\s*[:–—-]|"
    r"\(#?\d{1,9}\)|\d{1,3}[.)]|@[\w-]{1,40}[,:]?|(?!https?:)[^\W\d_]{1,20}(?: [^\W\d_]{1,20})?:(?=\s)|"
    r"(?:hi|hey|hello|hallo|hola|bonjour|salut|liebe[rs]?|dear)(?: [^\W\d_]{1,20}){0,2}[,!]|"
    r"[^\W\d_]{2,20},(?= (?:please|bitte|por favor|s'il te plaît|can you|could you|kannst du|puedes|peux-tu)\b))\s*",
    re.IGNORECASE,
)
_IN_FRONT_MAX = 3
_IDS = re.compile(
    r"#\d{1,9}|\b[a-z]{2,10}-\d{1,7}\b|\bhttps?://\S{1,200}|"
    r"\b(?:issue|ticket|bug|task|case|pr|mr|version|port|line|step|chapter|release|python|node|java|django|http|"
    r"fehler|aufgabe|zeile|tarea|error|erreur|ligne)\s+#?v?\d[\d.]{0,12}|\bv?\d{1,4}(?:\.\d{1,4}){1,3}\b|\b\d{4,}\b",
    re.IGNORECASE,
)


def plain_task(task: str) -> str:
    """`task` without what stands in front of it, such as `Fix #1042: `, `[web]` or a name."""
    text = task.strip()
    for _ in range(_IN_FRONT_MAX):
        front = _IN_FRONT.match(text)
        if front is None or front.end() == len(text):
            break
        text = text[front.end() :]
    return text


def without_numbers(task: str) -> str:
    """The begin of a task in which numbers of issues, versions and addresses are missing: they say nothing of it."""
    return _IDS.sub(" ", task[:TASK_MAX])

"""Parses the agent's todo list and its changes. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from sm.core.dataclass import dataclass
from sm.core.usage import Todo
from sm.providers import values

TODOS_MAX = 200
"""Maximum entries in memory."""
_CREATED = {"id", "subject", "description"}


@dataclass(frozen=True, slots=True)
class TodoList:
    """A complete list that replaces the previous one."""

    items: tuple[Todo, ...]


@dataclass(frozen=True, slots=True)
class TodoChange:
    """A new or changed entry in the list of the Task tools, or None if it is unchanged."""

    id: str
    content: str | None
    status: str | None
    """`deleted`: removed from the list."""


def _todo(value: object) -> Todo | None:
    about = values.mapping(value)
    content = values.string(about.get("content")) or values.string(about.get("subject"))
    status = values.name(about.get("status"))
    if not content or not status or values.mapping(about.get("metadata")).get("_internal"):
        return None
    return Todo(values.cut(content, values.ARGUMENT_MAX), status, values.name(about.get("id")) or None)


def todo_list(entries: Sequence[object]) -> TodoList:
    """Parse a list from a tool or a reminder. Skips invalid entries."""
    return TodoList(tuple(todo for entry in entries[:TODOS_MAX] if (todo := _todo(entry)) is not None))


def task_change(result: Mapping[str, Any]) -> TodoList | TodoChange | None:
    """Parse the structured result of a Task tool. The line does not name the tool, so the shape must identify it.

    TaskCreate: {task: {id, subject}}, in 2.1.332 with a description, TaskGet: {task: {id, subject, status, blockedBy,
    ...}}, TaskList: {tasks: [{id, subject, status, blockedBy}]}, TaskUpdate: {taskId, updatedFields, statusChange:
    {to}}.
    """
    tasks = result.get("tasks")
    if isinstance(tasks, list):
        return todo_list(tasks) if all("blockedBy" in values.mapping(task) for task in tasks) else None
    task = values.mapping(result.get("task"))
    id, subject = values.name(task.get("id")), values.string(task.get("subject"))
    if id and subject and (task.keys() <= _CREATED or "blockedBy" in task):
        return TodoChange(
            id, values.cut(subject, values.ARGUMENT_MAX), values.name(task.get("status")) or "pending"
        )
    id = values.name(result.get("taskId"))
    status = values.name(values.mapping(result.get("statusChange")).get("to"))
    return TodoChange(id, None, status) if id and status and "updatedFields" in result else None


def apply_change(todos: tuple[Todo, ...], change: TodoList | TodoChange) -> tuple[Todo, ...]:
    """Apply a change. The result has at most TODOS_MAX entries."""
    if isinstance(change, TodoList):
        return change.items
    if change.status == "deleted":
        return tuple(todo for todo in todos if todo.id != change.id)
    if any(todo.id == change.id for todo in todos):
        return tuple(
            Todo(change.content or todo.content, change.status or todo.status, todo.id)
            if todo.id == change.id
            else todo
            for todo in todos
        )
    content = change.content or f"task {change.id}"
    return (*todos, Todo(content, change.status or "pending", change.id))[-TODOS_MAX:]

"""The agent's todo list, and what changes it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sm.core.usage import Todo
from sm.providers.claude import values

TODOS_MAX = 200
"""Entries of a list that may stay in memory."""


@dataclass(frozen=True, slots=True)
class TodoList:
    """The whole list, in place of the one before."""

    items: tuple[Todo, ...]


@dataclass(frozen=True, slots=True)
class TodoChange:
    """One entry of the Task tools' list: new, or changed in what is not None."""

    id: str
    content: str | None
    status: str | None
    """`deleted`: it is on the list no more."""


def _todo(value: object) -> Todo | None:
    about = values.mapping(value)
    content = values.string(about.get("content")) or values.string(about.get("subject"))
    status = values.name(about.get("status"))
    if not content or not status or values.mapping(about.get("metadata")).get("_internal"):
        return None
    return Todo(values.cut(content, values.ARGUMENT_MAX), status, values.name(about.get("id")) or None)


def todo_list(entries: Sequence[object]) -> TodoList:
    """The list of what a tool or a reminder gives as one; an entry of an odd shape is left out."""
    return TodoList(tuple(todo for entry in entries[:TODOS_MAX] if (todo := _todo(entry)) is not None))


def task_change(result: Mapping[str, Any]) -> TodoList | TodoChange | None:
    """What the structured result of a Task tool says; its line does not name the tool, so the shape must be right.

    TaskCreate: {task: {id, subject}}, TaskGet: {task: {id, subject, status, blockedBy, ...}},
    TaskList: {tasks: [{id, subject, status, blockedBy}]}, TaskUpdate: {taskId, updatedFields, statusChange: {to}}.
    """
    tasks = result.get("tasks")
    if isinstance(tasks, list):
        return todo_list(tasks) if all("blockedBy" in values.mapping(task) for task in tasks) else None
    task = values.mapping(result.get("task"))
    id, subject = values.name(task.get("id")), values.string(task.get("subject"))
    if id and subject and (len(task) == 2 or "blockedBy" in task):
        return TodoChange(
            id, values.cut(subject, values.ARGUMENT_MAX), values.name(task.get("status")) or "pending"
        )
    id = values.name(result.get("taskId"))
    status = values.name(values.mapping(result.get("statusChange")).get("to"))
    return TodoChange(id, None, status) if id and status and "updatedFields" in result else None


def changed(todos: tuple[Todo, ...], change: TodoList | TodoChange) -> tuple[Todo, ...]:
    """The list after the change, at most 200 entries."""
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

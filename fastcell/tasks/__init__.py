"""Regressions by name; `chains` has tasks of tokens, as generators only."""

from ..errors import TaskError
from .adding import ADDING
from .sine import SINE
from .task import Data, Examples, Task

TASKS: dict[str, Task] = {task.name: task for task in (ADDING, SINE)}

__all__ = ["TASKS", "Data", "Examples", "Task", "find_task"]


def find_task(name: str) -> Task:
    """The task of that name. Raises TaskError when there is none."""
    if name not in TASKS:
        raise TaskError(f"task: expected one of {', '.join(TASKS)}; found {name!r}")
    return TASKS[name]

"""A cell as a drawing: what flows from the input and the old states on the left to the new ones."""

from .svg import draw

__all__ = ["draw"]

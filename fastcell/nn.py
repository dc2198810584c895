"""Recurrent modules, as torch.nn has them, for any cell."""

from .recurrent import Recurrent

__all__ = ["Recurrent"]

"""Every error that fastcell raises on purpose.

FastcellError
├── LanguageError   a cell's text is not in the language (line, column, found, expected)
├── ShapeError      a tensor or a size does not fit the cell
├── BackendError    a backend can't do what was asked
├── KeyLimitError   a cell is too large or too symmetric for a canonical key
├── CodeError       an integer is not the code of a cell of the search space, or a cell has none
├── StoreError      the result store is missing, locked, too old or unwritable
├── TaskError       a task, a protocol or a run option is unknown or out of range
└── ExtraError      a package that an extra installs is not there

Each message is one line: what was expected, what was found, and the mend.
"""


class FastcellError(Exception):
    """Base of every error of fastcell's own."""


class LanguageError(FastcellError, ValueError):
    """Text outside the language; `line` and `column` count from 1."""

    def __init__(self, line: int, column: int, found: str, expected: str) -> None:
        self.line, self.column, self.found, self.expected = line, column, found, expected
        super().__init__(f"line {line}, column {column}: found {found}, expected {expected}")


class ShapeError(FastcellError, ValueError, RuntimeError):
    """A tensor or a size that does not fit; torch's modules raise now the one, now the other."""


class BackendError(FastcellError, RuntimeError):
    """A backend that can't do what was asked."""


class KeyLimitError(FastcellError, ValueError):
    """A cell too large or too symmetric for a canonical key."""


class CodeError(FastcellError, ValueError):
    """An integer that codes no cell, or a cell outside the search space."""


class StoreError(FastcellError, RuntimeError):
    """A result store that can't be opened, read or written."""


class TaskError(FastcellError, ValueError):
    """An unknown task, or a protocol value out of range."""


class ExtraError(FastcellError, ImportError):
    """A package that is needed and that only an extra installs."""

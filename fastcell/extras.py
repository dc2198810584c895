"""Packages that only a part of fastcell needs, and an extra installs."""

from collections.abc import Iterator
from contextlib import contextmanager

from .errors import ExtraError


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Around imports of what the extra installs. Raises ExtraError when one is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ExtraError(
            f"expected the package {error.name}, found none: pip install fastcell[{name}]"
        ) from None

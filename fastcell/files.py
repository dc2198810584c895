"""Files that are written whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path

from .errors import StoreError


def write_whole(path: Path, content: bytes) -> None:
    """Replaces the file once all of it is on the disk.

    Raises StoreError when it can't be written; what was there is there still.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise StoreError(f"{path}: expected a file that can be written, found {error}") from None

"""Generated modules on the disk, where Triton reads them and so may you.

They are in $FASTCELL_CACHE_DIR, else in fastcell/ in $XDG_CACHE_HOME or ~/.cache. The name of a
file ends in a digest of its text, which says all that the kernel depends on: formulas, H, dtype,
strategy, tile and precision. So no file is ever out of date, and two processes that write the same
file write the same text into it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from ...errors import StoreError
from ...files import write_whole


def folder() -> Path:
    """Where generated modules are kept."""
    if "FASTCELL_CACHE_DIR" in os.environ:
        return Path(os.environ["FASTCELL_CACHE_DIR"])
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "fastcell"


def store(name: str, source: str) -> Path:
    """The file that holds the source, written if there is none.

    Raises StoreError when it can't be written.
    """
    digest = hashlib.blake2b(source.encode(), digest_size=10).hexdigest()
    path = folder() / f"{name}_{digest}.py"
    if not _is_there(path):
        write_whole(path, source.encode())
    return path


def _is_there(path: Path) -> bool:
    """Whether the file is; its folder is then."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.exists()
    except OSError as error:
        expected = "expected a folder for generated kernels, FASTCELL_CACHE_DIR names one"
        raise StoreError(f"{path.parent}: {expected}; found {error}") from None


@lru_cache(maxsize=512)
def load(name: str, source: str) -> ModuleType:
    """The source as a module, from its file."""
    path = store(name, source)
    spec = importlib.util.spec_from_file_location(f"fastcell_generated.{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

"""Results for other programs: CSV, JSON and Parquet, a row a run.

JSON and Parquet have every field of a Result, the protocol as a record, the curve as a list. CSV is
flat: the protocol's fields are columns of their own, and the curve is left out.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from .extras import extra
from .results import Protocol, Result


def to_csv(results: Sequence[Result]) -> bytes:
    """A heading and a line a run; nothing stands for None."""
    own = [field.name for field in fields(Result) if field.name not in ("protocol", "validation")]
    protocol = [f"protocol.{field.name}" for field in fields(Protocol)]
    return write_csv([*own, *protocol], map(_flat, results))


def _flat(result: Result) -> dict[str, Any]:
    row = result.to_dict()
    return {**row, **{f"protocol.{name}": value for name, value in row["protocol"].items()}}


def write_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> bytes:
    """These columns of the rows, with a heading, as RFC 4180 has it."""
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, columns, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def to_json(results: Sequence[Result]) -> bytes:
    """A list of records."""
    rows = [result.to_dict() for result in results]
    return (json.dumps(rows, allow_nan=False, indent=2) + "\n").encode()


def to_parquet(results: Sequence[Result]) -> bytes:
    """One table, typed where a column is empty too. Raises ExtraError without `parquet`."""
    with extra("parquet"):
        import pyarrow
        from pyarrow import parquet
    types = {
        "int": pyarrow.int64(),
        "float": pyarrow.float64(),
        "str": pyarrow.string(),
        "Status": pyarrow.string(),
        "tuple[float, ...]": pyarrow.list_(pyarrow.float64()),
    }

    def columns(record: type[Protocol | Result]) -> list[tuple[str, Any]]:
        kinds = ((field.name, str(field.type)) for field in fields(record))
        return [(name, types[kind.removesuffix(" | None")]) for name, kind in kinds]

    types["Protocol"] = pyarrow.struct(columns(Protocol))
    rows = [result.to_dict() for result in results]
    table = pyarrow.Table.from_pylist(rows, pyarrow.schema(columns(Result)))
    stream = io.BytesIO()
    parquet.write_table(table, stream)
    return stream.getvalue()


FORMATS: dict[str, Callable[[Sequence[Result]], bytes]] = {
    "csv": to_csv,
    "json": to_json,
    "parquet": to_parquet,
}

"""How runs and numbers are told, the same in every table, bar and page."""

from .results import Result, Run


def label(run: Run | Result) -> str:
    """What `fastcell show` takes: the cell's code where its name is the one that all codes have."""
    name = run.cell.name if isinstance(run, Run) else run.name
    return str(run.code) if name == "cell" and run.code is not None else name


def show_nmse(value: float | None) -> str:
    """Eight decimals, fewer digits for what is far off, a dash for none."""
    if value is None:
        return "-"
    return f"{value:.8f}" if value < 1000 else f"{value:.3g}"

"""Progress on stderr: bars with rate and remaining time on a terminal, a line per run anywhere."""

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from ..results import Result, Run
from ..search import Progress as SearchProgress
from ..wording import label, show_nmse


class _Rate(ProgressColumn):
    """Epochs or cells in a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.1f}/s" if task.speed else "")


class Bars(SearchProgress):
    """A bar for the stage, one for all epochs to do and one for each run. A context manager."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)
        self.bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} {task.fields[unit]}"),
            _Rate(),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
            transient=True,
        )
        self.by_run: dict[object, TaskID] = {}
        self.done = self.pending = 0

    def __enter__(self) -> "Bars":
        self.bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bars.stop()

    def stage(self, name: str, total: int) -> None:
        self.total = self.bars.add_task(name, total=total, unit="cells")

    def advance(self, count: int) -> None:
        self.bars.advance(self.total, count)

    def ended(self, name: str, count: int, seconds: float) -> None:
        self.bars.remove_task(self.total)
        rate = f" ({count / seconds / 1e6:.2f} million/s)" if count else ""
        self.say(f"{name}: {count:,} cells in {seconds:.2f} s{rate}")

    def training(self, runs: Sequence[Run], pending: Sequence[Run]) -> None:
        recorded = len(runs) - len(pending)
        known = f"; {recorded} more are recorded" if recorded else ""
        self.say(f"training {len(pending)} runs{known}")
        self.pending, self.done = len(pending), 0
        self.total = self._add("all", sum(run.protocol.epochs for run in pending))

    def _add(self, description: str, epochs: int) -> TaskID:
        return self.bars.add_task(description, total=epochs, unit="epochs")

    def epoch(self, run: Run, epoch: int, nmse: float) -> None:
        if run.id not in self.by_run:
            self.by_run[run.id] = self._add(label(run), run.protocol.epochs)
        description = f"{label(run)} {show_nmse(nmse)}"
        self.bars.update(self.by_run[run.id], completed=epoch, description=description)
        self.bars.advance(self.total)

    def finished(self, result: Result) -> None:
        self.done += 1
        if result.id in self.by_run:
            self.bars.remove_task(self.by_run.pop(result.id))
        # Epochs that an early end spared are done as well.
        self.bars.advance(self.total, result.protocol.epochs - len(result.validation))
        self.say(
            f"{self.done} of {self.pending}: {label(result)}, seed {result.seed}, {result.status},"
            f" test NMSE {show_nmse(result.test)}, {result.seconds:.1f} s"
        )

    def say(self, text: str) -> None:
        """A line that stays, above the bars."""
        self.console.print(text, markup=False, soft_wrap=True)

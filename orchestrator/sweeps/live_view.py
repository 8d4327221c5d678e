"""Progress on a terminal: a bar, a line for each busy phone, why trials wait; results scroll by above."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from orchestrator.entities import Trial, TrialState
from orchestrator.sweeps.describe import activity_text, counts_text, mishap_text, result_text, trial_name, trial_text
from orchestrator.sweeps.follow import View
from orchestrator.sweeps.plain_view import PlainView
from orchestrator.sweeps.progress import FINAL, SweepProgress

STYLES = {TrialState.DONE: "green", TrialState.FAILED: "bold red", TrialState.CANCELLED: "yellow"}
PHONES_SHOWN, REASONS_SHOWN = 16, 4
WIDTH, SMALL_WIDTH = 40, 12  # of bars, cells


@contextmanager
def open_view(console: Console) -> Iterator[View]:
    """A live display on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        yield PlainView(lambda line: console.print(escape(line), soft_wrap=True, highlight=False))
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield LiveView(live)


class LiveView:
    def __init__(self, live: Live) -> None:
        self._live = live

    def update(self, progress: SweepProgress) -> None:
        for event in progress.take_mishaps():
            self._live.console.print(Text(mishap_text(event, progress.trials[str(event.trial_id)]), style="yellow"))
        self._live.update(render(progress))

    def ended(self, trial: Trial) -> None:
        text = Text.assemble((trial.state.value, STYLES[trial.state]), f" {trial_text(trial)}: {result_text(trial)}")
        self._live.console.print(text)


class NoView:
    """Shows nothing."""

    def update(self, progress: SweepProgress) -> None: ...

    def ended(self, trial: Trial) -> None: ...


def render(progress: SweepProgress) -> RenderableType:
    """The whole picture, as tall as there are busy phones and reasons to wait."""
    counts, total = progress.counts, len(progress.trials)
    ended = sum(counts[state] for state in FINAL)
    head = Table.grid(padding=(0, 1))
    head.add_row(ProgressBar(total=total, completed=ended, width=WIDTH), f"{ended}/{total}", counts_text(counts))
    return Group(head, _phones(progress), *_waiting(progress))


def _phones(progress: SweepProgress) -> Table:
    """A line each; where the terminal is narrow the trial's name is cut."""
    table = Table.grid(padding=(0, 2))
    for _ in ("phone", "bar", "activity"):
        table.add_column(no_wrap=True)
    table.add_column()
    for name, activity in sorted(progress.phones.items())[:PHONES_SHOWN]:
        trial = progress.trials[activity.trial_id]
        table.add_row(
            Text(name, style="bold"),
            ProgressBar(total=activity.total or 1, completed=activity.done, width=SMALL_WIDTH),
            Text(activity_text(activity), style="" if activity.connected else "yellow"),
            Text(trial_name(trial), no_wrap=True, overflow="ellipsis"),
        )
    if (hidden := len(progress.phones) - PHONES_SHOWN) > 0:
        table.add_row(Text(f"and {hidden} more phones", style="dim"))
    return table


def _waiting(progress: SweepProgress) -> Iterator[Text]:
    for reason, count in progress.waiting.most_common(REASONS_SHOWN):
        yield Text(f"{count} waiting: {reason}", style="dim", no_wrap=True, overflow="ellipsis")

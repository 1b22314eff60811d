"""What the job prints: headings, tables, progress, checks; with `rich` or without."""

from __future__ import annotations

import itertools
import shutil
import textwrap


class Report:
    """Prints as it goes and remembers the checks.

    Attributes:
      checks: how many were made.
      failed: the names of those that do not hold.
    """

    def __init__(self, steps: int):
        self.checks, self.failed = 0, []
        self._step, self._steps = 0, steps
        self._width = shutil.get_terminal_size((100, 24)).columns
        try:
            from rich import console, progress
        except ImportError:
            self._bar = None
            return
        # Refreshed by hand: a thread that draws would disturb what is measured.
        self._bar = progress.Progress(
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.description}"),
            console=console.Console(
                width=self._width, markup=False, emoji=False, highlight=False
            ),
            auto_refresh=False,
        )
        self._task = self._bar.add_task("", total=steps)

    def __enter__(self):
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, error, *_):
        if not self._bar:
            return
        if error is None:
            self._bar.update(self._task, completed=self._step, description="")
            self._bar.refresh()
        self._bar.stop()

    def line(self, text: str = "", style: str = "") -> None:
        """Prints text; `style` is rich's."""
        if self._bar:
            self._bar.console.print(text, style=style, soft_wrap=True)
        else:
            print(text, flush=True)

    def heading(self, text: str) -> None:
        """Prints the title of a part."""
        self.line()
        self.line(text, style="bold")

    def step(self, text: str) -> None:
        """Says what runs now."""
        if self._bar:
            # The bar shows the steps that are done.
            self._bar.update(self._task, completed=self._step, description=text)
            self._bar.refresh()
        self._step += 1
        if not self._bar:
            print(f"[{self._step}/{self._steps}] {text}", flush=True)

    def check(self, name: str, holds: bool) -> str:
        """Records a check; returns the word that a table shows for it."""
        self.checks += 1
        if not holds:
            self.failed.append(name)
        return "ok" if holds else "FAILED"

    def check_line(self, name: str, holds: bool) -> None:
        """Records a check and prints it."""
        word = self.check(name, holds)
        self.line(f"{word}: {name}", style="green" if holds else "bold red")

    def summary(self) -> None:
        """Says whether all checks hold, and which do not."""
        self.line()
        if not self.failed:
            self.line(f"All {self.checks} checks hold.", style="bold green")
            return
        self.line(f"{len(self.failed)} of {self.checks} checks FAILED:", "bold red")
        for name in self.failed:
            self.line(f"  {name}")

    def table(self, header, rows) -> None:
        """Prints a table of strings; cells that are too long are wrapped."""
        if not self._bar:
            _plain_table(header, rows, self._width)
            return
        from rich import table

        # Without "fold" a word that is too long would be cut.
        grid = table.Table(*(table.Column(name, overflow="fold") for name in header))
        for row in rows:
            grid.add_row(*row, style="bold red" if "FAILED" in row else "")
        self._bar.console.print(grid)


def _plain_table(header, rows, width: int) -> None:
    widths = [max(map(len, column)) for column in zip(header, *rows)]
    while sum(widths) + 2 * (len(widths) - 1) > width and max(widths) > 8:
        widths[widths.index(max(widths))] -= 1  # the widest column gives way
    for row in (header, ["-" * w for w in widths], *rows):
        cells = [textwrap.wrap(cell, w) for cell, w in zip(row, widths)]
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            print("  ".join(p.ljust(w) for p, w in zip(parts, widths)).rstrip())

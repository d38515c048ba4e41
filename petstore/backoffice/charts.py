"""Bar charts of the back office: what Chart.js draws, and the same numbers for who can't see it.

`templates/admin/chart.html` shows one; unfold's script finds its canvas and petstore/charts.js colours it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

LONGEST_LABEL = 22  # Characters that fit beside a chart; the table has the whole name.


class Cell(NamedTuple):
    """One number of the table, and the list behind it."""

    value: str
    link: str  # Empty where there is nothing to list, or only the list of the whole column.


class Row(NamedTuple):
    """One line of the table."""

    label: str
    link: str
    cells: list[Cell]
    total: str


@dataclass(frozen=True)
class Series:
    """The bars of one colour."""

    name: str
    colour: str  # A custom property of backoffice.css, such as `--chart-1`.
    values: Sequence[int]
    link: str = ""  # The list behind all of them.
    links: Sequence[str] = ()  # The list behind each value, if each has its own.
    of_all: int | None = None  # The total, if more is counted than shown.

    @cached_property
    def total(self) -> int:
        """The sum of all bars, or more where some are not shown."""
        return sum(self.values) if self.of_all is None else self.of_all

    @property
    def total_in_words(self) -> str:
        """The sum, as people write it."""
        return f"{self.total:,}"

    def cell(self, index: int) -> Cell:
        """Return a number of the table."""
        value = self.values[index]
        return Cell(f"{value:,}", self.links[index] if self.links and value else "")

    def link_of(self, index: int) -> str:
        """Return the list behind a value."""
        return self.links[index] if self.links else self.link


@dataclass(frozen=True)
class BarChart:
    """Stacked bars: one for each label, in it a part for each series."""

    title: str
    unit: str  # What is counted, in the plural: `requests`.
    heading: str  # What the labels are: `Day`.
    labels: Sequence[str]
    series: Sequence[Series]
    label_links: Sequence[str] = ()
    lying: bool = False  # Bars from left to right, for labels that are names.
    newest_last: bool = False  # The table starts with the last label.

    @cached_property
    def total(self) -> int:
        """The sum of all bars."""
        return sum(series.total for series in self.series)

    @property
    def height(self) -> int:
        """Pixels."""
        return 30 * len(self.labels) + 40 if self.lying else 240

    @property
    def description(self) -> str:
        """The chart in words, for who can't see it."""
        parts = ", ".join(f"{series.name} {series.total:,}" for series in self.series)
        return f"{self.title}: {self.total:,} {self.unit}. {parts}. The table below has every number."

    @property
    def rows(self) -> list[Row]:
        """The lines of the table."""
        rows = [
            Row(
                label,
                self.label_links[index] if self.label_links else "",
                [series.cell(index) for series in self.series],
                f"{sum(series.values[index] for series in self.series):,}",
            )
            for index, label in enumerate(self.labels)
        ]
        return rows[::-1] if self.newest_last else rows

    @property
    def data(self) -> str:
        """What Chart.js draws, as JSON. `colour` and `links` are for petstore/charts.js."""
        numbers = range(len(self.labels))
        return json.dumps(
            {
                "labels": [shortened(label) for label in self.labels],
                "datasets": [
                    {
                        "label": series.name,
                        "data": list(series.values),
                        "backgroundColor": f"var({series.colour})",
                        "colour": series.colour,
                        "links": [series.link_of(index) for index in numbers],
                    }
                    for series in self.series
                ],
            }
        )

    @property
    def options(self) -> str:
        """How Chart.js draws it, as JSON."""
        along, across = ("y", "x") if self.lying else ("x", "y")
        whole: dict[str, Any] = {"precision": 0, "maxTicksLimit": 6}
        return json.dumps(
            {
                "animation": False,
                "responsive": True,
                "maintainAspectRatio": False,
                "indexAxis": along,
                "datasets": {"bar": {"maxBarThickness": 22, "borderRadius": 2}},
                "interaction": {"mode": "index", "axis": along, "intersect": False},
                # The page has a legend, in words and with links; the colours are our own.
                "plugins": {"legend": {"display": False}, "colors": {"enabled": False}},
                "scales": {
                    along: {
                        "stacked": True,
                        "grid": {"display": False},
                        "ticks": {"autoSkip": not self.lying, "maxRotation": 0, "autoSkipPadding": 12},
                    },
                    across: {"stacked": True, "beginAtZero": True, "grid": {}, "ticks": whole},
                },
            }
        )


def shortened(label: str) -> str:
    """Return as much of a label as fits beside a chart."""
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"

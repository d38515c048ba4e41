"""Bar charts of the back office: what Chart.js draws, and the same numbers for who can't see it.

`templates/admin/chart.html` shows one; unfold's script finds its canvas and petstore/charts.js colours it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

LONGEST_LABEL = 22  # Characters that fit beside a chart; the table has the whole name.


class Cell(NamedTuple):
    value: str
    link: str  # Empty where there is nothing to list, or only the list of the whole column.


class Row(NamedTuple):
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

    @property
    def total(self) -> int:
        return sum(self.values) if self.of_all is None else self.of_all


@dataclass(frozen=True)
class BarChart:
    """Stacked bars: one for each label, in it a part for each series."""

    title: str
    unit: str  # What is counted, in the plural: `requests`.
    heading: str  # What the labels are: `Day`.
    labels: Sequence[str]
    series: Sequence[Series]
    label_links: Sequence[str] = ()
    horizontal: bool = False  # Bars from left to right, for labels that are names.
    newest_last: bool = False  # The table starts with the last label.

    @property
    def total(self) -> int:
        return sum(series.total for series in self.series)

    @property
    def height(self) -> int:
        """Pixels."""
        return 30 * len(self.labels) + 40 if self.horizontal else 240

    @property
    def description(self) -> str:
        """The chart in words, for who can't see it."""
        parts = ", ".join(f"{series.name} {series.total:,}" for series in self.series)
        return f"{self.title}: {self.total:,} {self.unit}. {parts}. The table below has every number."

    @property
    def rows(self) -> list[Row]:
        rows = []
        for index, label in enumerate(self.labels):
            link = self.label_links[index] if self.label_links else ""
            cells = [
                Cell(f"{one.values[index]:,}", one.links[index] if one.links and one.values[index] else "")
                for one in self.series
            ]
            total = sum(series.values[index] for series in self.series)
            rows.append(Row(label, link, cells, f"{total:,}"))
        return rows[::-1] if self.newest_last else rows

    @property
    def data(self) -> str:
        """What Chart.js draws, as JSON. `colour` and `links` are for petstore/charts.js."""
        datasets = [
            {
                "label": series.name,
                "data": list(series.values),
                "backgroundColor": f"var({series.colour})",
                "colour": series.colour,
                "links": list(series.links) or [series.link] * len(self.labels),
            }
            for series in self.series
        ]
        return json.dumps({"labels": [shortened(label) for label in self.labels], "datasets": datasets})


def shortened(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"

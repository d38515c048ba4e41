"""Bar charts: data for Chart.js, and the same numbers as an accessible table.

`templates/admin/chart.html` renders one. Unfold's script draws it; petstore/charts.js sets the colours.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

MAX_LABEL_LENGTH = 22  # Characters that fit beside a chart. The table has the full label.


class Cell(NamedTuple):
    value: str
    link: str  # Empty without rows to list, or if only the series has a link.


class Row(NamedTuple):
    label: str
    link: str
    cells: list[Cell]
    total: str


@dataclass(frozen=True)
class Series:
    name: str
    colour: str  # A custom property of backoffice.css, such as `--chart-1`.
    values: Sequence[int]
    link: str = ""  # To the list of all rows counted here.
    links: Sequence[str] = ()  # To a list for each value.
    overall_total: int | None = None  # If the chart leaves out some values.

    @property
    def total(self) -> int:
        return sum(self.values) if self.overall_total is None else self.overall_total


@dataclass(frozen=True)
class BarChart:
    """Stacked bars: a bar for each label, with a segment for each series."""

    title: str
    unit: str  # Plural: `requests`.
    heading: str  # Of the column of labels: `Day`.
    labels: Sequence[str]
    series: Sequence[Series]
    label_links: Sequence[str] = ()
    horizontal: bool = False  # Horizontal bars leave room for long labels.
    newest_last: bool = False  # The table lists the labels in reverse.

    @property
    def total(self) -> int:
        return sum(series.total for series in self.series)

    @property
    def height(self) -> int:
        """Pixels."""
        return 30 * len(self.labels) + 40 if self.horizontal else 240

    @property
    def description(self) -> str:
        """The accessible name of the chart."""
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
        """JSON for Chart.js. `colour` and `links` are for petstore/charts.js."""
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
    return label if len(label) <= MAX_LABEL_LENGTH else f"{label[: MAX_LABEL_LENGTH - 1]}…"

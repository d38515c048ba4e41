"""Bar charts: their bars, and the same numbers as an accessible table.

In the back office, `templates/admin/chart.html` renders a chart with Chart.js, which Unfold contains. On
the pages for customers, `templates/portal/chart.html` draws it as SVG, without a script.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from django.utils.text import Truncator

MAX_LABEL_LENGTH = 22  # Characters that fit beside a chart. The table shows full labels.


@dataclass(frozen=True)
class Series:
    name: str
    colour: str  # A custom property of backoffice.css and account.css, such as `--chart-1`.
    values: Sequence[int]
    link: str = ""  # The list of all rows that the series counts.
    links: Sequence[str] = ()  # The list of rows behind each value.
    overall_total: int | None = None  # Set if the chart leaves out some values.

    @property
    def total(self) -> int:
        return sum(self.values) if self.overall_total is None else self.overall_total


@dataclass(frozen=True)
class BarChart:
    """Stacked bars, with a bar for each label and a segment for each series."""

    title: str
    unit: str  # In the plural, such as `requests`.
    heading: str  # The heading of the label column, such as `Day`.
    labels: Sequence[str]
    series: Sequence[Series]
    label_links: Sequence[str] = ()
    horizontal: bool = False  # Horizontal bars leave room for long labels.
    newest_last: bool = False  # The table reverses the labels.

    @property
    def total(self) -> int:
        return sum(series.total for series in self.series)

    @property
    def height(self) -> int:
        """The height in pixels."""
        return 30 * len(self.labels) + 40 if self.horizontal else 240

    @property
    def description(self) -> str:
        """The accessible name of the chart."""
        totals = ", ".join(f"{series.name} {series.total:,}" for series in self.series)
        return f"{self.title}: {self.total:,} {self.unit}. {totals}. The table below has every number."

    @property
    def rows(self) -> list[dict[str, Any]]:
        rows = []
        for index, label in enumerate(self.labels):
            link = self.label_links[index] if self.label_links else ""
            values = [series.values[index] for series in self.series]
            links = [series.links[index] if series.links else "" for series in self.series]
            cells = [(value, link if value else "") for value, link in zip(values, links, strict=True)]
            rows.append({"label": label, "link": link, "cells": cells, "total": sum(values)})
        return rows[::-1] if self.newest_last else rows

    @property
    def peak(self) -> int:
        """The length of the longest bar, at least 1."""
        return max(1, *map(sum, self._columns))

    @property
    def bars(self) -> list[dict[str, Any]]:
        """The vertical bars. Positions and heights of their segments are percentages of the peak."""
        bars = []
        for label, values in zip(self.labels, self._columns, strict=True):
            ends = [100 * end / self.peak for end in accumulate(values)]
            parts = list(zip(self.series, values, ends, strict=True))
            segments = [(series.colour, 100 - end, 100 * value / self.peak) for series, value, end in parts]
            title = ", ".join(f"{series.name} {value:,}" for series, value, _ in parts)
            bars.append({"title": f"{label}: {title}", "segments": segments})
        return bars

    @property
    def _columns(self) -> list[tuple[int, ...]]:
        return list(zip(*(series.values for series in self.series), strict=True))

    @property
    def data(self) -> str:
        """JSON for Chart.js. petstore/charts.js reads `colour` and `links`."""
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
        labels = [Truncator(label).chars(MAX_LABEL_LENGTH) for label in self.labels]
        return json.dumps({"labels": labels, "datasets": datasets})

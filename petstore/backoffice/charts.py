"""Bar charts: data for Chart.js, and the same numbers as an accessible table.

`templates/admin/chart.html` renders a chart. Unfold's script draws it, and petstore/charts.js sets the
colours.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.text import Truncator

MAX_LABEL_LENGTH = 22  # Characters that fit beside a chart. The table shows full labels.


@dataclass(frozen=True)
class Series:
    name: str
    colour: str  # A custom property of backoffice.css, such as `--chart-1`.
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

"""What a scored lake gives: means over all its rows."""

from collections.abc import Mapping
from dataclasses import dataclass

from verax.core.display import TextTable, counted, metric_head
from verax.metrics.base import Metric
from verax.scale.store import Totals
from verax.statistics.intervals import LEVEL, Estimate


@dataclass(frozen=True, repr=False)
class LakeScores:
    """A lake whose scores are stored.

    Attributes:
        out: The folder of the scores: Parquet files with key, attribution, target, and a column for each metric.
        rows: Rows of the lake.
        computed: Rows that this run has scored; the others were stored before.
        metrics: What was measured, by the names of the columns.
        totals: Exact sums of the scores, by attribution and metric.
    """

    out: str
    rows: int
    computed: int
    metrics: Mapping[str, Metric]
    totals: Totals

    def mean(self, metric: str, level: float = LEVEL) -> dict[str, Estimate]:
        """The mean over all rows with its interval, by attribution."""
        return {name: sums[metric].estimate(level) for name, sums in self.totals.items()}

    def table(self, level: float = LEVEL) -> TextTable:
        """Means with intervals, a row for each attribution."""
        heads = [metric_head(metric.label, metric.higher_is_better) for metric in self.metrics.values()]
        rows = [(name, *(str(self.mean(metric, level)[name]) for metric in self.metrics)) for name in self.totals]
        caption = f"Means over {counted(self.rows, 'row')} with {100 * level:.4g} % intervals"
        return TextTable(("attribution", *heads), tuple(rows), caption)

    def __repr__(self) -> str:
        return self.table().text()

"""What a scored lake says: means over all its rows."""

from dataclasses import dataclass

from verax.core.text_tables import Table, counted, metric_head
from verax.lakes.score import Totals
from verax.metrics.base import METRICS
from verax.statistics.intervals import LEVEL, Estimate


@dataclass(frozen=True, repr=False)
class LakeScores:
    """A lake whose scores are stored.

    Attributes:
        out: The folder of the scores: Parquet files, one for each part of the inputs.
        rows: Rows of the lake.
        parts: Its parts.
        computed: Parts that this run has scored; the others were there.
        totals: Exact sums of the scores, by attribution and metric.
    """

    out: str
    rows: int
    parts: int
    computed: int
    totals: Totals

    def mean(self, metric: str, level: float = LEVEL) -> dict[str, Estimate]:
        """The mean over all rows with its interval, by attribution."""
        return {name: own[metric].estimate(level) for name, own in self.totals.items()}

    @property
    def metrics(self) -> tuple[str, ...]:
        """What was measured."""
        return tuple(next(iter(self.totals.values()), ()))

    def table(self, level: float = LEVEL) -> Table:
        """Means with intervals, a row for each attribution."""
        heads = [metric_head(METRICS.get(name).label, METRICS.get(name).higher_is_better) for name in self.metrics]
        rows = [(name, *(str(self.mean(metric, level)[name]) for metric in self.metrics)) for name in self.totals]
        caption = f"Means over {counted(self.rows, 'row')} of {counted(self.parts, 'part')}"
        return Table(("attribution", *heads), tuple(rows), f"{caption} with {100 * level:.4g} % intervals")

    def __repr__(self) -> str:
        return self.table().text()

"""Attributions: what a call computed, by name, and what it cost."""

from typing import Any

from verax.core.display import TextTable, first_rows
from verax.core.display import cost as spent
from verax.scoring.meter import Cost


class Attributions(dict[str, Any]):
    """Attributions by name, ready to be passed to ``verax.evaluate``, with what they cost.

    Attributes:
        rows: Model rows evaluated.
        rows_backward: Rows through which gradients were taken.
        seconds: Wall-clock time.
        delta: For methods that promise completeness, the largest relative gap of any input, by name.
    """

    def __init__(self, found: dict[str, Any], delta: dict[str, float], cost: Cost) -> None:
        super().__init__(found)
        self.delta, self.cost = delta, cost
        self.rows, self.rows_backward, self.seconds = cost.rows.forward, cost.rows.backward, cost.seconds

    def _table(self) -> TextTable:
        gaps = {name: f"{gap:.2g}" for name, gap in self.delta.items()}
        rows = [(name, str(tuple(values.shape)), gaps.get(name, "")) for name, values in self.items()]
        return TextTable(("attribution", "shape", "largest gap"), first_rows(rows), spent(self.rows, self.seconds))

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

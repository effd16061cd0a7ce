"""The results of one call, by metric."""

from collections.abc import Mapping
from typing import Any

from verax.core.text_tables import Table, cost, counted, metric_head, shortened
from verax.metrics.result import Result
from verax.scoring.meter import Cost


class Evaluation(dict[str, Any]):
    """Results by metric name, with what the whole call cost; shown as a table.

    Attributes:
        rows: Model rows of the call, shared ones counted once.
        seconds: Wall-clock time of the call.

    Example:
        >>> import torch, verax
        >>> model, x = torch.nn.Linear(4, 2), torch.randn(9, 4)
        >>> found = verax.evaluate(model, x, {"inputs": x, "minus inputs": -x}, metrics=("pc", "dpc"))
        >>> print(found)  # doctest: +ELLIPSIS
        attribution   PC (higher is better) ...
        inputs        ...
        minus inputs  ...
        Means over 9 inputs with 95 % intervals; ...
        >>> len(found.plot().axes)  # one panel per metric
        2
    """

    def __init__(self, results: Mapping[str, Result], cost: Cost) -> None:
        super().__init__(results)
        self.rows = cost.rows.forward
        self.seconds = cost.seconds

    def label(self, name: str) -> str:
        """What people read for one of the names: the metric's label, or a name that the call gave it."""
        metric = self[name].metric
        return str(metric.label) if name == metric.name else name

    def heads(self) -> list[str]:
        """The metrics as heads of columns."""
        return [metric_head(self.label(name), result.metric.higher_is_better) for name, result in self.items()]

    def plot(self) -> Any:
        """Draw the means of all metrics with 95 % intervals, side by side, up to 40 attributions.

        Returns:
            A matplotlib figure, which a notebook shows and ``savefig`` saves.
        """
        from verax.display.plots import means  # noqa: PLC0415  # to keep ``import verax`` light

        return means(self)

    def _table(self) -> Table:
        results: list[Result] = list(self.values())
        columns = [map(str, result.listed_means()) for result in results]
        rows = list(zip(results[0].labels if results else (), *columns, strict=True))
        many = counted(results[0].scores.shape[1] if results else 0, "input")
        caption = f"Means over {many} with 95 % intervals; {cost(self.rows, self.seconds)}"
        return Table(("attribution", *self.heads()), shortened(rows), caption)

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

"""From a batch of rows that have their attributions beside them to a batch of scores: what all engines run."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from verax.attribution.base import Attribution
from verax.core.files import stable_form, tensor_hash
from verax.core.packages import optional_package
from verax.data.array_files import first_line, listed
from verax.evaluation.evaluate import evaluate
from verax.metrics.base import Metric
from verax.metrics.choose import chosen
from verax.problem.features import Groups
from verax.problem.problem import Problem
from verax.scoring.model_files.opening import file_hash

INPUTS = ""  # the rows among the lakes, where attributions have their names
METRICS = ("pc", "dpc", "infidelity")
_MOST_ROWS, _MOST_VALUES = 1 << 14, 1 << 22  # of a batch: 32 MiB of numbers


class RowError(ValueError):
    """A row that cannot be scored; the caller adds which file holds it."""

    def __init__(self, lake: str, key: Any, message: str) -> None:
        super().__init__(lake, key, message)
        self.lake, self.key, self.message = lake, key, message

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class BatchScorer:
    """Scores batches of rows; processes that are sent one open the model of a file anew.

    A batch is an Arrow table or record batch with the key, the features, and for each attribution its columns under
    ``NAME:FEATURE``, such as ``shap:age``. Its scores are those that ``verax.evaluate`` gives for these rows.

    Attributes:
        problem: The model and what is asked about it; its rows only show what rows look like, and have names.
        attributions: Names of the attributions that the batches hold.
        metrics: As ``verax.evaluate`` takes them.
        methods: Explanations that are computed for each batch, by name.
        key: The column that identifies a row.
        limits: Whether to find what the best attribution would score as well.

    Example:
        >>> import pyarrow as pa, torch, verax
        >>> problem = verax.Problem(torch.nn.Linear(2, 2), torch.zeros(1, 2), names=["age", "income"])
        >>> columns = {name: [0.0, 1.0] for name in ("age", "income", "shap:age", "shap:income")}
        >>> BatchScorer(problem, ("shap",), ["pc"])(pa.table({"id": [7, 8]} | columns)).column_names
        ['id', 'attribution', 'target', 'pc']
    """

    problem: Problem
    attributions: tuple[str, ...] = ()
    metrics: Any = METRICS
    methods: Mapping[str, Attribution] = field(default_factory=dict)
    key: str = "id"
    limits: bool = False

    def __call__(self, batch: Any) -> Any:
        """The scores of a batch as an Arrow table: key, attribution, target, and a column for each metric."""
        pa = optional_package("pyarrow", "verax[lake]", "a batch of Arrow")
        scores = self.scores(pl.DataFrame(batch)).to_arrow()
        return scores.set_column(1, "attribution", scores["attribution"].cast(pa.string()))

    def batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The scores of record batches, as ``mapInArrow`` of Spark asks for them."""
        for batch in batches:
            yield from self(batch).to_batches()

    def scores(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The scores of a batch, attribution by attribution, rows in the order of the batch."""
        keys, values = rows[self.key], _numbers(rows.select(self.features))
        attributions = {name: _numbers(rows.select(self.joined(name))) for name in self.attributions}
        if not self.problem.scorer.takes_missing:
            advice = "; if the model takes missing values, say so (takes_missing=True, --missing allow)"
            self._check(INPUTS, keys, np.isnan(values), "expected a number in every row, missing values", advice)
        for name, array in attributions.items():
            expected = f"attribution {name}: expected a finite number in every row, missing values, NaN or infinity"
            self._check(name, keys, ~np.isfinite(array), expected)
        try:
            problem = self.problem.on(self.problem.order.back(values))
            evaluation = evaluate(problem, {**attributions, **self.methods}, self.chosen)
            frame = (evaluation.with_limits() if self.limits else evaluation).to_frame()
        except ValueError as error:
            message = f"rows with {self.key} {keys[0]!r} to {keys[-1]!r}: {first_line(error)}."
            raise RowError(INPUTS, keys[0], message) from error
        columns = pl.exclude("input", "attribution")
        return frame.select(keys.gather(frame["input"]).alias(self.key), "attribution", columns)

    def joined(self, attribution: str) -> list[str]:
        """The columns of an attribution beside the rows."""
        return [f"{attribution}:{feature}" for feature in self.features]

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that the model takes, in its order."""
        names = self.problem.names or ()
        if (len(names),) != tuple(self.problem.inputs.shape[1:]):
            raise ValueError("problem: expected a name for each column of its rows; pass a data frame, or names=.")
        return names

    @property
    def names(self) -> tuple[str, ...]:
        """The attributions that are scored, those of methods included."""
        return (*self.attributions, *self.methods)

    @cached_property
    def chosen(self) -> dict[str, Metric]:
        """The metrics by the names of their columns."""
        return chosen(self.metrics, 1 << 62)

    @property
    def batch_rows(self) -> int:
        """Rows of a batch: few enough for memory, and enough for the model."""
        return max(1, min(_MOST_ROWS, _MOST_VALUES // (len(self.features) * (1 + len(self.attributions)))))

    def facts(self) -> dict[str, str]:
        """Everything on which scores depend, besides the rows: shown where two jobs differ."""
        problem, opened = self.problem, self.problem.scorer.reopened
        model = tensor_hash(problem.inputs, problem.scores())
        metrics = ", ".join(f"{name}: {metric!r}" for name, metric in self.chosen.items())
        groups = problem.features.map if isinstance(problem.features, Groups) else None
        return {
            "model": model if opened is None else f"{opened.args[0].name}, SHA-256 {file_hash(opened.args[0])}",
            "metrics": f"{metrics}, limits={self.limits}",
            "attributions": ", ".join(self.attributions),
            "methods": ", ".join(f"{name}: {method.canonical}" for name, method in self.methods.items()),
            "key": self.key,
            "features": ", ".join(self.features),
            "groups": "None" if groups is None else tensor_hash(groups),
            "target": str(problem.target),
            "output": f"{problem.output}, explained: {problem.explained}",
            "baselines": f"{problem.given.baseline_words}, {tensor_hash(problem.baselines[0])}",
            "background": "None" if problem.background is None else tensor_hash(problem.background),
            "replacement": stable_form(problem.replacement),
        }

    def _check(self, lake: str, keys: pl.Series, bad: Any, message: str, advice: str = "") -> None:
        """Raise for the first row with something bad in it."""
        if bad.any():
            key, columns = keys[int(bad.any(1).argmax())], bad.any(0)
            names = listed([name for name, column in zip(self.features, columns, strict=True) if column])
            raise RowError(lake, key, f"{message} in {names}, for instance at {self.key} {key!r}{advice}.")


def _numbers(table: pl.DataFrame) -> Any:
    """Columns as an array; gaps become NaN."""
    return table.cast(pl.Float64).to_numpy(order="c")

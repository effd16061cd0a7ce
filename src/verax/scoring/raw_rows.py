"""Models behind other rows than they learnt: numbers for those of a data frame, or standardised ones."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from verax.core.arrays import ArrayKind
from verax.data.base import Standardisation
from verax.data.columns import Column, Columns, frame_of
from verax.scoring.adapters import Adapter, Returns, adapt, feature_names_of, labels_of
from verax.scoring.adapters.base import as_numpy
from verax.scoring.adapters.estimators import Estimator, fitted_labels, predictions
from verax.scoring.adapters.torch_module import TorchModule
from verax.scoring.frames import fitted_places
from verax.scoring.scorer import Scorer


@dataclass(frozen=True, eq=False)
class FrameModel:
    """A fitted model of data frames that takes rows of numbers: categories come as codes."""

    estimator: Any
    columns: Sequence[Column]
    returns: Returns
    module: None = None
    takes_missing: bool = True  # a pipeline says itself what it does with gaps, when it runs

    @property
    def feature_names(self) -> Sequence[str]:
        return [column.name for column in self.columns]

    @property
    def labels(self) -> Sequence[Any] | None:
        return fitted_labels(self.estimator) if self.returns == "probabilities" else None

    def frame(self, rows: Any) -> Any:
        return frame_of(self.columns, rows)

    def model_rows(self, batch: Tensor) -> Any:
        return self.frame(as_numpy(batch.detach().double()))

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        return predictions(self.estimator, self.returns, self.model_rows(batch))


def on_standardised(
    adapter: Adapter, scale: Standardisation, columns: Columns | None = None, names: Sequence[str] = ()
) -> Adapter:
    """A model that takes standardised rows and hands them to another in their own units.

    Gradients go through a torch module. A model that was fitted on a data frame with categories gets a data frame. One
    that knows columns by name gets its own, in its order.
    """
    if isinstance(adapter, TorchModule):
        return dataclasses.replace(adapter, module=Unstandardised(adapter.module, scale))
    model_names, table_names = feature_names_of(adapter) or (), names if columns is None else columns.names
    # a model that knows no names, or other ones, goes by the order of the columns
    places = fitted_places("data", table_names, model_names) if set(model_names) & set(table_names) else None
    if columns is not None and any(columns.categories):
        if not isinstance(adapter, Estimator):
            words = [column.name for column in columns.columns if column.categories]
            raise ValueError(
                f"takes rows of numbers, but the table has categories ({', '.join(words[:5])}); take a scikit-learn "
                "pipeline that was fitted on such a table (.skops), or a shipped architecture."
            )
        chosen = columns.columns if places is None else [columns.columns[place] for place in places]
        adapter = FrameModel(adapter.estimator, chosen, adapter.returns)
    return RawRows(adapter, scale, places)


def standardised(
    model: Any, mean: Any, std: Any, *, names: Sequence[str] = (), returns: Returns | None = None
) -> Scorer:
    """A model of rows in their own units as one of standardised rows, which settings in standard deviations need.

    Args:
        model: What ``verax.evaluate`` takes as ``model``.
        mean: Of the training rows, a number for each column, or anything that broadcasts to a row.
        std: Their standard deviations, likewise.
        names: Names of the columns, for a model that knows its columns by name and was fitted in another order.
        returns: What the model returns, where it does not say it itself.

    Example:
        >>> from sklearn.linear_model import LinearRegression
        >>> x = np.array([[10.0], [20.0], [30.0]])
        >>> scorer = standardised(LinearRegression().fit(x, x[:, 0]), x.mean(0), x.std(0))
        >>> scorer.adapter(torch.tensor([[0.0], [1.0]], dtype=torch.float64), "numpy").round(2).tolist()
        [20.0, 28.16]
    """
    adapter = model.adapter if isinstance(model, Scorer) else adapt(model, returns, None)
    scale = Standardisation(*(torch.as_tensor(np.asarray(part)) for part in (mean, std)))
    behind = on_standardised(adapter, scale, names=names)
    stated = returns is not None or isinstance(model, Scorer)
    return Scorer(behind, returns=behind.returns if stated else None)


class Unstandardised(nn.Module):
    def __init__(self, module: nn.Module, scale: Standardisation) -> None:
        super().__init__()
        self.module = module
        self.register_buffer("mean", scale.mean, persistent=False)
        self.register_buffer("std", scale.std, persistent=False)

    def forward(self, rows: Tensor) -> Any:
        return self.module(rows * self.std.to(rows) + self.mean.to(rows))  # type: ignore[operator]


@dataclass(frozen=True)
class RawRows:
    """Any model but a torch module, behind the inverse of a standardisation."""

    adapter: Adapter
    scale: Standardisation
    places: list[int] | None = None  # of the model's columns in the table
    module: None = None

    @property
    def returns(self) -> Returns:
        return self.adapter.returns

    @property
    def labels(self) -> Sequence[Any] | None:
        return labels_of(self.adapter)

    @property
    def takes_missing(self) -> bool:
        return bool(getattr(self.adapter, "takes_missing", False))

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        return self.adapter(self.model_rows(batch), kind)

    def model_rows(self, batch: Tensor) -> Tensor:
        """Rows as they were, to the last bit where they are whole or half numbers: trees ask whether 0 is below 0.

        What rounding has moved is put back by a grid of powers of two, 40 of them below a standard deviation.
        """
        rows = self.scale.undo(batch)
        if rows.dtype == torch.float64:
            grid = torch.exp2(self.scale.std.to(rows).log2().floor() - 40)
            rows = (rows / grid).round() * grid
        return rows if self.places is None else rows[:, self.places]

"""PC and DPC as metrics of Quantus, to be called alone or run by ``quantus.evaluate``."""

from collections.abc import Callable
from typing import Any, ClassVar

from verax import metrics
from verax.core.packages import optional_package
from verax.problem.problem import Problem
from verax.scoring.class_scores import Output
from verax.scoring.scorer import Scorer

__all__ = ["DirectedPredictionChange", "PredictionChange"]

_quantus = optional_package("quantus", "quantus", "verax.interop.quantus")
_enums = _quantus.helpers.enums

_FLAGS = ("abs", "normalise", "return_aggregate", "disable_warnings", "display_progressbar")
_FUNCTIONS = ("normalise_func", "normalise_func_kwargs", "aggregate_func", "default_plot_func")
_SETTINGS: dict[str, Any] = dict.fromkeys(_FLAGS, False) | dict.fromkeys(_FUNCTIONS)


class _QuantusMetric(_quantus.metrics.base.Metric):  # type: ignore[misc, name-defined]
    """What PC and DPC share: Quantus prepares data and model, Verax measures."""

    data_applicability: ClassVar[Any] = {_enums.DataType.IMAGE, _enums.DataType.TIMESERIES, _enums.DataType.TABULAR}
    model_applicability: ClassVar[Any] = {_enums.ModelType.TORCH, _enums.ModelType.TF}
    score_direction: ClassVar[Any] = _enums.ScoreDirection.HIGHER
    evaluation_category: ClassVar[Any] = _enums.EvaluationCategory.FAITHFULNESS
    measure: ClassVar[type[metrics.PredictionChange | metrics.DirectedPredictionChange]]

    def __init__(
        self, order: Any = "signed", steps: int = 20, baselines: Any = 0.0, features: Any = "auto", **settings: Any
    ) -> None:
        if unknown := sorted(settings.keys() - _SETTINGS):
            raise TypeError(f"{unknown[0]}: no such setting; those of Quantus are {', '.join(_SETTINGS)}.")
        super().__init__(**(_SETTINGS | settings))
        self.order, self.steps, self.baselines, self.features = order, steps, baselines, features

    def __call__(
        self,
        model: Any,
        x_batch: Any,
        y_batch: Any,
        a_batch: Any = None,
        s_batch: Any = None,
        channel_first: bool | None = None,
        explain_func: Callable[..., Any] | None = None,
        explain_func_kwargs: dict[str, Any] | None = None,
        model_predict_kwargs: dict[str, Any] | None = None,
        softmax: bool | None = True,
        device: str | None = None,
        batch_size: int = 64,
        **kwargs: Any,
    ) -> list[float]:
        """Score attributions; the arguments are those of every metric of Quantus.

        With ``softmax`` the probability of the class in ``y_batch`` is followed, without it the logit.
        """
        data = (model, x_batch, y_batch, a_batch, s_batch, channel_first)
        ways = (explain_func, explain_func_kwargs, model_predict_kwargs, softmax, device, batch_size)
        return list(super().__call__(*data, *ways, **kwargs))

    def evaluate_batch(self, model: Any, x_batch: Any, y_batch: Any, a_batch: Any, **kwargs: Any) -> list[float]:
        """Score one batch; Quantus calls this."""

        def scores(rows: Any) -> Any:
            return model.predict(model.shape_input(rows, rows.shape, channel_first=True, batched=True))

        output: Output = "probability" if model.softmax else "logit"
        features = self.features
        if isinstance(features, str) and features == "auto" and a_batch.shape != x_batch.shape:
            features = "pixel"  # Quantus gives attributions without channels a single one
        scorer = Scorer(scores, returns="probabilities" if model.softmax else "logits", takes="numpy")
        named = {"one": a_batch}  # by name: with as many channels as rows, an array might be a stack
        problem = Problem(scorer, x_batch, target=y_batch, output=output, features=features, baselines=self.baselines)
        result = type(self).measure(order=self.order, steps=self.steps)(problem, named)
        return [float(value) for value in result.value["one"]]


class PredictionChange(_QuantusMetric):
    """Prediction Change (PC): rates baseline-oriented attributions. Higher is better.

    Args:
        order: Rank by ``"signed"`` attribution or by its ``"magnitude"``.
        steps: Steps from the input to the baseline.
        baselines: What removed features become: a number or an array that broadcasts to one input, channels first.
        features: What one feature is: ``"element"``, ``"pixel"``, an array of group numbers, or ``"auto"``.
        settings: Settings of every metric of Quantus: ``abs``, ``normalise``, ``return_aggregate`` and so on. They are
            off by default; normalising changes nothing.

    Example:
        >>> import numpy as np, quantus, torch
        >>> from verax.interop.quantus import DirectedPredictionChange, PredictionChange
        >>> model, x = torch.nn.Linear(4, 3).eval(), np.random.default_rng(0).normal(size=(6, 4))
        >>> metrics = {"PC": PredictionChange(), "DPC": DirectedPredictionChange()}
        >>> scores = quantus.evaluate(metrics, {"input": x}, model, x, y_batch=np.zeros(6, dtype=int))
        >>> sorted(scores["input"]), len(scores["input"]["PC"])
        (['DPC', 'PC'], 6)
    """

    name: ClassVar[str] = "Prediction Change"
    measure = metrics.PredictionChange


class DirectedPredictionChange(_QuantusMetric):
    """Directed Prediction Change (DPC): rates local attributions. Higher is better.

    Takes the arguments of ``PredictionChange``; ``order`` has one value more.

    Args:
        order: The reading of the definition: ``"signed"``, ``"magnitude"`` or ``"literal"``.
    """

    name: ClassVar[str] = "Directed Prediction Change"
    measure = metrics.DirectedPredictionChange

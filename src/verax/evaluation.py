"""The public calls: each checks its arguments, opens the model once, and runs every distinct experiment once."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch

from verax.arguments import Problem, Task, problem, resolve_target
from verax.metrics.infidelity import Infidelity, InfidelityResult
from verax.metrics.prediction_change import (
    DirectedPredictionChange,
    GuidedMetric,
    GuidedResult,
    PredictionChange,
    Reading,
    guided_result,
)
from verax.metrics.result import Context, Result
from verax.metrics.sensitivity import SensitivityN
from verax.perturbation.guided import guided_scores
from verax.perturbation.order import Order
from verax.perturbation.sampled import Draws, Perturbation, check_subset, sampled_effects
from verax.scoring import Output, Scorer, Session, checked_batch_size, checked_output

SampledMetric = Infidelity | SensitivityN
Metric = GuidedMetric | SampledMetric
Metrics = Sequence[str | Metric] | Mapping[str, str | Metric]


class Evaluation(dict[str, Any]):
    """Results by metric name, with what the whole call cost.

    Attributes:
        rows: Model rows of the call, shared ones counted once.
        seconds: Wall-clock time of the call.
    """

    def __init__(self, results: Mapping[str, Result], rows: int, seconds: float) -> None:
        super().__init__(results)
        self.rows = rows
        self.seconds = seconds

    def __repr__(self) -> str:
        lines = [f"{name}: {result!r}" for name, result in self.items()]
        return "\n".join([*lines, f"total: {self.rows} rows, {self.seconds:.3g} s"])


def prediction_change(
    model: Any,
    inputs: Any,
    attributions: Any,
    *,
    target: Any = None,
    baselines: Any = 0.0,
    steps: int = 20,
    features: Any = "auto",
    order: Order = "signed",
    output: Output = "probability",
    batch_size: int | None = None,
    device: str | torch.device | None = None,
) -> GuidedResult:
    """Measure Prediction Change (PC): rates baseline-oriented attributions. Higher is better.

    Args:
        model: A torch module (returns logits), a scikit-learn classifier, or a ``verax.Scorer``.
        inputs: Rows to explain, ``(N, ...)``, NumPy or torch; results come back in the same kind.
        attributions: One array like the inputs, a stack ``(K, N, ...)``, or a dict of names to arrays. For images
            the channel axis may be missing or have length 1.
        target: The class whose score is followed: predicted (``None``), one number, or one number per row.
        baselines: What removed features become: a number or anything that broadcasts to the inputs.
        steps: Steps from the input to the baseline.
        features: What one feature is: ``"element"``, ``"pixel"`` (all channels of a position), an array of group
            numbers (for all inputs or one each), or ``"auto"``: pixels for inputs ``(N, C, H, W)``, elements otherwise.
        order: Rank by ``"signed"`` attribution or by its ``"magnitude"``.
        output: The score that is followed, ``"probability"`` or ``"logit"``.
        batch_size: Rows per model call; automatic by default.
        device: Where the model runs; by default where it is.

    Example:
        >>> import torch, verax
        >>> model = torch.nn.Linear(4, 2)
        >>> x = torch.randn(8, 4)
        >>> contribution = x * (model.weight[1] - model.weight[0])  # exact for class 1 of a linear model
        >>> result = verax.prediction_change(model, x, contribution, target=1)
        >>> result.value.shape, result.morf.shape, result.rows
        (torch.Size([8]), torch.Size([8, 5]), 64)
    """
    checked = problem(inputs, attributions, target=target, baselines=baselines, features=features)
    found = _run(model, checked, {"pc": PredictionChange(order, steps)}, output, batch_size, device)
    return found["pc"]  # type: ignore[no-any-return]


def directed_prediction_change(
    model: Any,
    inputs: Any,
    attributions: Any,
    *,
    target: Any = None,
    baselines: Any = 0.0,
    steps: int = 20,
    features: Any = "auto",
    order: Reading = "magnitude",
    output: Output = "probability",
    batch_size: int | None = None,
    device: str | torch.device | None = None,
) -> GuidedResult:
    """Measure Directed Prediction Change (DPC): rates local attributions. Higher is better.

    Arguments are those of ``prediction_change``, except:

    Args:
        model: As there.
        inputs: As there.
        attributions: As there.
        target: As there.
        baselines: As there.
        steps: As there.
        features: As there.
        order: The reading of the definition: ``"magnitude"``, ``"signed"`` or ``"literal"``; see
            ``verax.metrics.DirectedPredictionChange``.
        output: As there.
        batch_size: As there.
        device: As there.

    Example:
        >>> import torch, verax
        >>> weight = torch.tensor([[1.0, -2.0, 0.5, 3.0]])
        >>> model = torch.nn.Linear(4, 1, bias=False)
        >>> _ = model.weight.data.copy_(weight)
        >>> x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
        >>> gradient = weight.expand(200, 4)
        >>> result = verax.directed_prediction_change(model, x, {"w": gradient, "-w": -gradient}, target=1)
        >>> result.mean()["w"].low > 0 > result.mean()["-w"].high
        True
    """
    checked = problem(inputs, attributions, target=target, baselines=baselines, features=features)
    found = _run(model, checked, {"dpc": DirectedPredictionChange(order, steps)}, output, batch_size, device)
    return found["dpc"]  # type: ignore[no-any-return]


def infidelity(
    model: Any,
    inputs: Any,
    attributions: Any,
    *,
    target: Any = None,
    sigma: float = 0.2,
    subset: int | None = None,
    samples: int = 640,
    normalize: bool = True,
    seed: int = 0,
    perturbation: Perturbation = "gaussian",
    baselines: Any = 0.0,
    features: Any = "auto",
    output: Output = "probability",
    batch_size: int | None = None,
    device: str | torch.device | None = None,
) -> InfidelityResult:
    """Measure Infidelity with its Monte-Carlo error. Lower is better.

    ``model``, ``inputs``, ``attributions``, ``target``, ``baselines``, ``features``, ``output``, ``batch_size`` and
    ``device`` are as in ``prediction_change``.

    Args:
        model: As there.
        inputs: As there.
        attributions: As there.
        target: As there.
        sigma: Standard deviation of the Gaussian perturbation.
        subset: Features perturbed in each draw; all by default.
        samples: Draws per input, shared by all attributions of the call.
        normalize: Fit the scale of each attribution first.
        seed: Same seed, same draws.
        perturbation: ``"gaussian"`` (local) or ``"baseline"`` (baseline-oriented: replaces a random subset).
        baselines: As there; used with ``perturbation="baseline"``.
        features: As there; what ``subset`` counts.
        output: As there.
        batch_size: As there.
        device: As there.

    Example:
        >>> import torch, verax
        >>> model = torch.nn.Linear(4, 1, dtype=torch.float64)
        >>> x = torch.randn(8, 4, dtype=torch.float64)
        >>> gradient = model.weight.expand(8, 4)
        >>> result = verax.infidelity(model, x, gradient, target=1, output="logit")
        >>> bool(result.value.max() < 1e-12), result.rows
        (True, 5128)
    """
    checked = problem(inputs, attributions, target=target, baselines=baselines, features=features)
    metric = Infidelity(sigma, subset, samples, normalize, seed, perturbation)
    found = _run(model, checked, {"infidelity": metric}, output, batch_size, device)
    return found["infidelity"]  # type: ignore[no-any-return]


def evaluate(
    model: Any,
    inputs: Any,
    attributions: Any,
    metrics: Metrics = ("pc", "dpc", "infidelity"),
    *,
    target: Any = None,
    baselines: Any = 0.0,
    steps: int = 20,
    features: Any = "auto",
    sigma: float = 0.2,
    subset: int | None = None,
    samples: int = 640,
    normalize: bool = True,
    seed: int = 0,
    output: Output = "probability",
    batch_size: int | None = None,
    device: str | torch.device | None = None,
) -> Evaluation:
    """Measure several metrics in one pass; model evaluations that they share are done once.

    Args:
        model: As in ``prediction_change``, like all arguments not listed here.
        inputs: As there.
        attributions: As there.
        metrics: Names (``"pc"``, ``"dpc"``, ``"infidelity"``, ``"sensitivity_n"``), metric objects from
            ``verax.metrics``, or a dict that names them. Names take the settings of this call, objects bring their own.
        target: As there.
        baselines: As there.
        steps: For the metrics given by name.
        features: As there.
        sigma: For Infidelity given by name, like ``subset``, ``samples``, ``normalize`` and ``seed``.
        subset: As ``sigma``.
        samples: As ``sigma``.
        normalize: As ``sigma``.
        seed: As ``sigma``.
        output: As there.
        batch_size: As there.
        device: As there.

    Returns:
        A dict of results. A metric object is found under its name; where several share one, under its full form,
        such as ``"dpc(order='signed')"``.

    Example:
        >>> import torch, verax
        >>> from verax.metrics import DirectedPredictionChange
        >>> model, x = torch.nn.Linear(20, 2), torch.randn(3, 20)
        >>> found = verax.evaluate(model, x, x, metrics=("pc", DirectedPredictionChange(order="signed")))
        >>> sorted(found), found.rows  # one experiment serves both
        (['dpc', 'pc'], 120)
    """
    by_name: dict[str, Metric] = {
        "pc": PredictionChange(steps=steps),
        "dpc": DirectedPredictionChange(steps=steps),
        "infidelity": Infidelity(sigma, subset, samples, normalize, seed),
        "sensitivity_n": SensitivityN(seed=seed),
    }
    chosen = _named(metrics, by_name)
    checked = problem(inputs, attributions, target=target, baselines=baselines, features=features)
    return _run(model, checked, chosen, output, batch_size, device)


def _run(
    model: Any,
    checked: Problem,
    metrics: dict[str, Metric],
    output: Output,
    batch_size: int | None,
    device: str | torch.device | None,
) -> Evaluation:
    """Score the unperturbed inputs, then run the guided pass and each sampled experiment that some metric needs."""
    checked_output(output)
    checked_batch_size(batch_size)
    guided = {name: metric for name, metric in metrics.items() if isinstance(metric, GuidedMetric)}
    sampled = {name: metric for name, metric in metrics.items() if isinstance(metric, SampledMetric)}
    for metric in sampled.values():
        for draws in metric.draws:
            check_subset(draws, checked)
    scorer = model if isinstance(model, Scorer) else Scorer(model)
    meter = _Meter(scorer)
    with scorer.session(checked.inputs, checked.layout.kind, output, batch_size, device) as session:
        scores = session.class_scores(checked.inputs)
        target = resolve_target(checked.target, scores)
        clean = scores.gather(1, target[:, None])[:, 0]
        first = meter.read(session)
        task = Task(checked, target, clean)
        results: dict[str, Result] = {}
        if guided:
            results |= _run_guided(session, task, guided, meter, first)
        if sampled:
            results |= _run_sampled(session, task, sampled, meter, first)
    return Evaluation({name: results[name] for name in metrics}, *meter.total())


def _run_guided(
    session: Session, task: Task, metrics: dict[str, GuidedMetric], meter: "_Meter", first: "Cost"
) -> dict[str, Result]:
    experiments = list(dict.fromkeys(metric.experiment for metric in metrics.values()))
    found = dict(zip(experiments, guided_scores(session, task, experiments), strict=True))
    rows, seconds = meter.read(session)
    context = Context(task.problem.layout, task.target, first[0] + rows, first[1] + seconds)
    return {name: guided_result(metric, found[metric.experiment], context) for name, metric in metrics.items()}


def _run_sampled(
    session: Session, task: Task, metrics: dict[str, SampledMetric], meter: "_Meter", first: "Cost"
) -> dict[str, Result]:
    """Run each distinct set of draws once; every metric that reads it reduces each block as it comes."""
    parts: dict[tuple[str, Draws], list[Any]] = {}
    costs: dict[Draws, Cost] = {}
    for draws in dict.fromkeys(draws for metric in metrics.values() for draws in metric.draws):
        readers = {name: metric for name, metric in metrics.items() if draws in metric.draws}
        for effects in sampled_effects(session, task, draws):
            for name, metric in readers.items():
                parts.setdefault((name, draws), []).append(metric.reduce(effects))
        costs[draws] = meter.read(session)
    results: dict[str, Result] = {}
    for name, metric in metrics.items():
        rows = first[0] + sum(costs[draws][0] for draws in metric.draws)
        seconds = first[1] + sum(costs[draws][1] for draws in metric.draws)
        context = Context(task.problem.layout, task.target, rows, seconds)
        results[name] = metric.result([parts[name, draws] for draws in metric.draws], context)
    return results


Cost = tuple[int, float]


class _Meter:
    """Rows and seconds since the last reading, and in all."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self.start = self.last = (scorer.rows, time.perf_counter())

    def read(self, session: Session) -> Cost:
        session.wait()
        before, self.last = self.last, (self.scorer.rows, time.perf_counter())
        return self.last[0] - before[0], self.last[1] - before[1]

    def total(self) -> Cost:
        return self.scorer.rows - self.start[0], time.perf_counter() - self.start[1]


def _named(metrics: Metrics, by_name: dict[str, Metric]) -> dict[str, Metric]:
    """Resolve names and find a key for each metric."""
    if isinstance(metrics, str) or not isinstance(metrics, Sequence | Mapping) or not metrics:
        raise ValueError(f"metrics: expected a list of metrics or a dict that names them, found {metrics!r}.")
    if isinstance(metrics, Mapping):
        return {name: _resolve(metric, by_name) for name, metric in metrics.items()}
    listed = list(dict.fromkeys(_resolve(metric, by_name) for metric in metrics))
    names = [metric.name for metric in listed]
    return {metric.name if names.count(metric.name) == 1 else _full_form(metric): metric for metric in listed}


def _resolve(metric: str | Metric, by_name: dict[str, Metric]) -> Metric:
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str) and metric in by_name:
        return by_name[metric]
    raise ValueError(f"metrics: expected {', '.join(map(repr, by_name))} or a metric object, found {metric!r}.")


def _full_form(metric: Metric) -> str:
    """The name with every setting that is not the default."""
    settings = [(field.name, getattr(metric, field.name), field.default) for field in fields(metric)]
    changed = [f"{name}={value!r}" for name, value, default in settings if value != default]
    return f"{metric.name}({', '.join(changed)})" if changed else metric.name

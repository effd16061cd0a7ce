"""Runs what metrics need: the unperturbed inputs once, one guided pass, and each distinct set of random draws once."""

import time
from collections.abc import Mapping
from typing import Any

import torch

from verax.arguments import Problem, Task, resolve_target
from verax.display.table import Table, cost, counted, metric_label, shortened
from verax.metrics.infidelity import Infidelity
from verax.metrics.prediction_change import GuidedMetric, guided_result
from verax.metrics.result import Context, Result
from verax.metrics.sensitivity import SensitivityN
from verax.metrics.uncertainty import InfidelityUncertainty
from verax.outputs import Output, checked_output
from verax.perturbation.guided import guided_scores
from verax.perturbation.sampled import Draws, Gathered, check_subset, sampled_effects
from verax.scoring import Scorer, Session, checked_batch_size

SampledMetric = Infidelity | SensitivityN | InfidelityUncertainty
Metric = GuidedMetric | SampledMetric


class Evaluation(dict[str, Any]):
    """Results by metric name, with what the whole call cost; shown as a table.

    Attributes:
        rows: Model rows of the call, shared ones counted once.
        seconds: Wall-clock time of the call.

    Example:
        >>> import verax
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

    def __init__(self, results: Mapping[str, Result], rows: int, seconds: float) -> None:
        super().__init__(results)
        self.rows = rows
        self.seconds = seconds

    def plot(self) -> Any:
        """Draw the means of all metrics with 95 % intervals, side by side, up to 40 attributions.

        Returns:
            A matplotlib figure, which a notebook shows and ``savefig`` saves.
        """
        from verax.display.plots import means  # noqa: PLC0415  # to keep ``import verax`` light

        return means(self)

    def _table(self) -> Table:
        results: list[Result] = list(self.values())
        head = [metric_label(name, one.metric.higher_is_better) for name, one in self.items()]
        columns = [map(str, one.listed_means()) for one in results]
        rows = list(zip(results[0].labels if results else (), *columns, strict=True))
        many = counted(results[0].scores.shape[1] if results else 0, "input")
        caption = f"Means over {many} with 95 % intervals; {cost(self.rows, self.seconds)}"
        return Table(("attribution", *head), shortened(rows), caption)

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()


def run(
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
    with torch.inference_mode(False):  # results are plain tensors, fit for whatever the user does next
        context = Context(task.problem.layout, task.target.clone(), first[0] + rows, first[1] + seconds)
        return {name: guided_result(metric, found[metric.experiment], context) for name, metric in metrics.items()}


def _run_sampled(
    session: Session, task: Task, metrics: dict[str, SampledMetric], meter: "_Meter", first: "Cost"
) -> dict[str, Result]:
    """Run each distinct set of draws once; every metric that reads it reduces each block as it comes."""
    gathered: dict[tuple[str, Draws], Gathered] = {}
    costs: dict[Draws, Cost] = {}
    for draws in dict.fromkeys(draws for metric in metrics.values() for draws in metric.draws):
        readers = {name: metric for name, metric in metrics.items() if draws in metric.draws}
        for name in readers:
            gathered[name, draws] = Gathered(len(task.problem))
        for effects in sampled_effects(session, task, draws):
            for name, metric in readers.items():
                metric.reduce(effects, gathered[name, draws])
        costs[draws] = meter.read(session)
    results: dict[str, Result] = {}
    with torch.inference_mode(False):
        for name, metric in metrics.items():
            rows = first[0] + sum(costs[draws][0] for draws in metric.draws)
            seconds = first[1] + sum(costs[draws][1] for draws in metric.draws)
            context = Context(task.problem.layout, task.target.clone(), rows, seconds)
            results[name] = metric.result([gathered[name, draws] for draws in metric.draws], context)
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

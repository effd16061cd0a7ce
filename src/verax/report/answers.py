"""The first screen: for each model the explanation to trust, how sure that is, its cost and code; and findings."""

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType

import polars as pl

import verax.attribution
import verax.metrics
from verax.attribution.names import REFERENCE, kind_of, label_of
from verax.core.display import counted
from verax.metrics.base import Kind
from verax.metrics.choose import COLUMNS, decider, doubt
from verax.report.facts import main_figure, share_of_possible
from verax.report.html import DASH, MINUS, joined_words, number, seconds, signed
from verax.report.view import View
from verax.statistics.intervals import Estimate
from verax.statistics.ranks import tied
from verax.study.ranking import Price, Winner
from verax.study.summary import method_of
from verax.study.tables import LEADING_DPC, LEADING_PC, MetricInfo, ModelInfo, Scale

QUESTIONS: dict[Kind, str] = {
    "local": "What would a small change of the input do?",
    "baseline": "What made the score what it is, and not the baseline's?",
}
_LEADING = (LEADING_DPC, LEADING_PC)
_OTHER = "the only other one"
_NAMED = 4  # methods that are listed before the rest is counted


@dataclass(frozen=True)
class Answer:
    """Which explanation of one model answers one question best."""

    question: str
    metric: str  # the label of what decided; empty where the question has no answer
    verdict: str  # what to do, in front of the label; or why there is no answer
    label: str  # the method; empty where there is no answer
    configuration: str  # with its settings
    # names and sentences: how sure, how far above chance, below the limit where known, the cost, and as evidence what
    # the paper's metrics of this question rate best, with what they are blind to
    facts: tuple[tuple[str, str], ...]
    code: str  # Python that computes it and its score; empty where that is not known


@dataclass(frozen=True)
class Card:
    """The answers for one model, what it is and what is explained, and whether it is too bad to be worth explaining."""

    model: str
    about: str
    scope: tuple[tuple[str, str], ...]
    weak: bool
    answers: tuple[Answer, ...]


def cards(view: View) -> list[Card]:
    listed = []
    for model in view.tables.models:
        unit = "scores in the unit of what is predicted" if model.task == "regression" else ""
        about = ", ".join(filter(None, (f"{model.architecture} on {model.dataset}", main_figure(model), unit)))
        scope, answered = tuple(model.scope.items()), tuple(_answers(view, model))
        listed.append(Card(model.name, about, scope, bool(model.weakness), answered))
    return listed


def _answers(view: View, model: ModelInfo) -> Iterable[Answer]:
    for kind, question in QUESTIONS.items():
        if kind in model.unanswered:
            yield Answer(question, "", f"There is no answer: {model.unanswered[kind]}.", "", "", (), "")
            continue
        metric = _deciding(view, kind)
        winner = None if metric is None else view.winner(model.name, metric)
        if winner is not None:
            label = view.label(winner.configuration)
            if model.weakness:
                verdict = "Most faithful to a model that has learnt nothing:"
            elif winner.beats_chance is None:
                verdict = "Best of those tried:"
            else:
                verdict = "Trust" if winner.beats_chance else "Trust none of those tried. The best was"
            facts = (*_facts(view, model.name, winner), *_evidence(view, model.name, winner.metric))
            code = pasted(model, label, winner)
            yield Answer(question, winner.metric.label, verdict, label, winner.configuration, facts, code)


def _deciding(view: View, kind: Kind) -> MetricInfo | None:
    """The metric that answers a question: the usual one, else one that may decide, else PC or DPC, else the first."""
    first = (*COLUMNS, *_LEADING)
    measured = {
        metric.column: metric for metric in sorted(view.measured, key=lambda metric: metric.column not in first)
    }
    column = decider(measured, kind)
    return None if column is None else measured[column]


def _evidence(view: View, model: str, deciding: MetricInfo) -> Iterable[tuple[str, str]]:
    evidence = {"dpc", *_LEADING, view.pair[1]} - {deciding.column}
    for metric in view.measured:
        beside = metric.column in evidence and metric.kind == deciding.kind
        winner = view.winner(model, metric) if beside else None
        if winner is not None:
            best = f"{view.label(winner.configuration)} is best: {_interval(winner.score)}."
            yield metric.label, f"{best} {metric.known_limitations}".rstrip()


def _facts(view: View, model: str, winner: Winner) -> Iterable[tuple[str, str]]:
    yield "How sure", _sure(view, winner)
    yield "Above chance", _above_chance(winner)
    if words := share_of_possible(view, model, winner.metric.column):
        yield "Below the limit", words
    if words := doubt(winner.metric, winner.metric.label):
        yield "Known limitations", words
    price = winner.price
    beside = ", shared with other settings of its method" if price.shared else ""
    yield "Cost", f"{_rows(price)} and about {seconds(price.seconds)} per input{beside}."
    if winner.cheapest and not price.shared and winner.inputs > 1:
        name, cheapest = winner.cheapest
        if cheapest.rows < price.rows:
            yield "Cheapest tie", f"{name}: {_rows(cheapest)} per input."


def _sure(view: View, winner: Winner) -> str:
    others = winner.others
    if not others:
        return "It was the only one."
    if winner.inputs < 2:
        return f"Not at all: one input shows no significant difference from the {others:,} others."
    over = f"paired over {winner.inputs:,} inputs"
    if not winner.ties:
        return f"Better than {f'each of {others:,} others' if others > 1 else _OTHER}, {over}."
    # methods with the number of their settings, the first few of them
    counts = Counter(view.label(name) for name in winner.ties)
    words = [label + (f" ({many} settings)" if many > 1 else "") for label, many in counts.items()]
    if len(words) > _NAMED + 1:
        words = [*words[:_NAMED], f"{len(words) - _NAMED} more methods"]
    ties = f"{len(winner.ties):,} of {others:,} others" if others > 1 else _OTHER
    return f"Not significantly different from {ties}, {over}: {joined_words(words)}."


def _above_chance(winner: Winner) -> str:
    score = f"{winner.metric.label} {_interval(winner.score)}"
    if winner.gain is None:
        return f"{score}. What chance gets is not known: the study has no random attributions."
    chance = "random attributions" if winner.random else f"{number(winner.metric.chance)}, which is chance"
    if winner.beats_chance is None:
        return f"{score}. One input shows no significant difference from {chance}."
    if not winner.beats_chance:
        return f"{score}, not shown to be better than {chance}."
    return f"{score}, better than {chance} by {_interval(winner.gain)}."


def _interval(estimate: Estimate) -> str:
    mean, low, high = (text.replace("-", MINUS) for text in estimate.digits())
    return mean if low == high else f"{mean} ({low} to {high})"


def _rows(price: Price) -> str:
    rows = f"{number(price.forward)} model row{'' if price.forward == 1 else 's'}"
    return rows + (f" ({number(price.backward)} with gradients)" if price.backward else "")


_MODULES: tuple[ModuleType, ...] = (verax.attribution, verax.metrics)
_CLASS = re.compile(r"\b([A-Z]\w*)\(")


def pasted(model: ModelInfo, label: str, winner: Winner) -> str:
    """Code that computes the winner and its score from a model and rows in their own units; empty where unknown."""
    scale = model.scale
    if scale is None or not winner.metric.code:
        return ""
    method, metric = winner.configuration, winner.metric.code
    if method_of(method) == "LimeImage":  # as the study runs it: the standardisation is undone before segments
        method = method.replace("pixel_mean=None", f"pixel_mean={scale.mean!r}")
        method = method.replace("pixel_std=None", f"pixel_std={scale.std!r}")
    names = [name for text in (method, metric) for name in _CLASS.findall(text)]
    homes = {name: next((home for home in _MODULES if hasattr(home, name)), None) for name in names}
    if None in homes.values() or any(word in text for text in (method, metric) for word in ("tensor(", "array(")):
        return ""  # a class that is not public, or no plain value
    public = {home.__name__: sorted(name for name, place in homes.items() if place is home) for home in _MODULES}
    return "\n".join(
        [
            "import numpy as np",
            "import verax",
            *(f"from {home} import {', '.join(listed)}" for home, listed in public.items() if listed),
            "",
            *_scale(model, scale),
            "problem = verax.Problem(model, x, background=train)",
            f"print(verax.compare(problem, {{{label!r}: {method}}}, [{metric}]))",
        ]
    )


def _scale(model: ModelInfo, scale: Scale) -> list[str]:
    """Rows as the study had them: in double precision for models of one's own, in single precision for networks."""
    kind = "float64" if scale.wrapped and scale.columns else "float32"
    cell = "" if scale.columns else "[:, None, None]"
    lines = [f"columns = {list(scale.columns)!r}"] if scale.columns else []
    rows = "the rows that were explained and the training rows, these columns in this order, in their own units"
    pixels = "images that were explained and training images, pixels from 0 to 1"
    lines += [
        f"mean = np.array({list(scale.mean)!r}, np.{kind}){cell}",
        f"std = np.array({list(scale.std)!r}, np.{kind}){cell}",
        f"# x and train: {rows if scale.columns else pixels}",
        f"x, train = ((np.asarray(part, np.{kind}) - mean) / std for part in (x, train))",
    ]
    if scale.wrapped:
        names = ", names=columns" if scale.columns else ""
        return [*lines, f"model = verax.models.standardised(model, mean, std{names})"]
    file = f"models/{model.name}.safetensors"
    returns = "values" if model.task == "regression" else "logits"
    lines.append(f"model = verax.models.load({file!r}).module  # in the study's directory; it takes standardised rows")
    return [*lines, f"model = verax.Scorer(model, returns={returns!r})"]


@dataclass(frozen=True)
class Best:
    """The configuration of a model that a metric rates best, with the standard error of its mean over inputs.

    Its kind may be a naive reference, which no metric should prefer.
    """

    label: str
    configuration: str
    value: float
    error: float | None
    kind: str

    def __str__(self) -> str:
        return number(self.value) + (f" ± {number(self.error, 2)}" if self.error is not None else "")


def ranked(view: View) -> list[MetricInfo]:
    return view.leading(LEADING_DPC, LEADING_PC, view.pair[1])


def best(view: View, model: str, metric: MetricInfo) -> Best | None:
    column = metric.column
    rows = view.summary.filter(pl.col("model") == model).drop_nulls(column)
    if not rows.height:
        return None
    means = tied(rows[column].to_numpy())  # of those that differ by rounding alone the first
    row = rows.row(int(means.argmax() if metric.higher_is_better else means.argmin()), named=True)
    variant = (row["method"], row["local"])
    return Best(label_of(*variant), row["configuration"], row[column], row[f"{column}_error"], kind_of(*variant))


def one_line(view: View) -> str:
    models = view.tables.models
    if not models:
        return "No models."
    data = list(dict.fromkeys(model.dataset for model in models))
    inputs = sorted({model.inputs for model in models})
    many = f"{inputs[0]:,}" if len(inputs) == 1 else f"{inputs[0]:,} to {inputs[-1]:,}"
    text = f"{counted(len(models), 'model')} on {', '.join(data)}: {counted(view.summary.height, 'explanation')}"
    limits = view.tables.settings.get("limits", {})
    limited = [metric for metric in view.measured if metric.column in limits]
    fewer = ", ".join(f"{metric.label} on the first {limits[metric.column]:,}" for metric in limited)
    return f"{text} (configurations of attribution methods), each on {many} inputs{f'; {fewer}' if fewer else ''}."


def sentences(view: View) -> list[str]:
    lines = [_preference(view, metric) for metric in view.leading(LEADING_DPC, LEADING_PC)]
    lines += [_agreement(view)] if any(math.isfinite(a.spearman.mean) for a in view.agreements.values()) else []
    lines += view.paper.sentences() if view.paper else []
    run, unshared = (float(view.tables.costs[name].sum()) for name in ("rows_forward", "rows_forward_unshared"))
    if run > 0:
        text = f"Sharing model evaluations between configurations and metrics needed {number(run)} forward rows"
        lines.append(f"{text} instead of {number(unshared)}, {number(unshared / run)} times fewer.")
    return lines


def _preference(view: View, metric: MetricInfo) -> str:
    leaders = [leader for leader in (best(view, model, metric) for model in view.models) if leader is not None]
    kind, many = Counter(leader.kind for leader in leaders).most_common(1)[0]
    labels = Counter(leader.label for leader in leaders)
    words = ", ".join(label + (f" ({count} times)" if count > 1 else "") for label, count in labels.items())
    article = "a naive" if kind == REFERENCE else "a"
    return f"{metric.label} rates {article} {kind} method best on {_of(many, len(leaders))}: {words}."


def _agreement(view: View) -> str:
    parts = []
    for lime, where in ((False, "without LIME"), (True, "with LIME alone")):
        values = [a.spearman.mean for (_, of_lime), a in view.agreements.items() if of_lime == lime]
        known = [value for value in values if math.isfinite(value)]
        if known:
            span = f"{signed(min(known))} to {signed(max(known))}" if len(known) > 1 else signed(known[0])
            parts.append(f"{where} on {_of(sum(value < 0 for value in known), len(known))} ({span})")
    return f"DPC and Infidelity rank alike, that is with a negative Spearman correlation, {' and '.join(parts)}."


def _of(many: int, total: int) -> str:
    return f"{many} of {counted(total, 'model')}"


def model_rows(view: View) -> list[dict[str, object]]:
    return [
        {
            "model": model.name,
            "quality": main_figure(model) or DASH,
            "best": [best(view, model.name, metric) for metric in ranked(view)],
            "others": view.agreements.get((model.name, False)),
            "lime": view.agreements.get((model.name, True)),
        }
        for model in view.tables.models
    ]

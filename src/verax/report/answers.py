"""The first screen: for each model the explanation to trust, how sure that is, what it costs, and code to paste."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType

import verax.attribution
import verax.metrics
from verax.report.facts import main_figure, share_of_possible
from verax.report.html import MINUS, number, seconds
from verax.report.view import View
from verax.statistics.intervals import Estimate
from verax.study.ranking import Price, Winner
from verax.study.summary import method_of
from verax.study.tables import LEADING_DPC, LEADING_PC, MetricInfo, ModelInfo, Scale

QUESTIONS = {
    "local": "What would a small change of the input do?",
    "baseline": "What made the score what it is, and not the baseline's?",
}
_LEADING = {"local": LEADING_DPC, "baseline": LEADING_PC}
_ONE = "the only other one"
_NAMED = 4  # methods that are listed before the rest is counted


@dataclass(frozen=True)
class Answer:
    """Which explanation of one model answers one question best."""

    question: str
    metric: str  # the label of what decided
    verdict: str  # what to do, in front of the label
    label: str  # the method
    configuration: str  # with its settings
    # names and sentences: how sure, how far above chance, below the limit where known, the cost
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
    """One card per model, in the study's order."""
    return [
        Card(model.name, _about(model), tuple(model.scope.items()), bool(model.weakness), tuple(_answers(view, model)))
        for model in view.tables.models
    ]


def _answers(view: View, model: ModelInfo) -> Iterable[Answer]:
    for kind, question in QUESTIONS.items():
        metric = _deciding(view, kind)
        winner = None if metric is None else view.winner(model.name, metric)
        if winner is not None:
            label = view.label(winner.configuration)
            verdict = _verdict(winner, weak=bool(model.weakness))
            facts = tuple(_facts(view, model.name, winner))
            yield Answer(
                question, winner.metric.label, verdict, label, winner.configuration, facts, pasted(model, label, winner)
            )


def _deciding(view: View, kind: str) -> MetricInfo | None:
    """The metric that answers this kind of question: DPC or PC, else the first that was measured."""
    measured = [metric for metric in view.measured if metric.kind == kind]
    return next((metric for metric in measured if metric.column == _LEADING[kind]), measured[0] if measured else None)


def _verdict(found: Winner, weak: bool) -> str:
    if weak:
        return "Most faithful to a model that has learnt nothing:"
    if found.beats_chance is None:
        return "Best of those tried:"
    return "Trust" if found.beats_chance else "Trust none of those tried. The best was"


def _facts(view: View, model: str, found: Winner) -> Iterable[tuple[str, str]]:
    yield "How sure", _sure(view, found)
    yield "Above chance", _above_chance(found)
    if words := share_of_possible(view, model, found.metric.column):
        yield "Below the limit", words
    yield "Cost", _cost(found.price)
    if found.cheapest and not found.price.shared and found.inputs > 1:
        name, price = found.cheapest
        if price.rows < found.price.rows:
            yield "Cheapest tie", f"{name}: {_rows(price)} per input."


def _sure(view: View, found: Winner) -> str:
    if not found.others:
        return "It was the only one."
    if found.inputs < 2:
        return f"Not at all: one input shows no significant difference from the {found.others:,} others."
    over = f"paired over {found.inputs:,} inputs"
    if not found.ties:
        return f"Better than {f'each of {found.others:,} others' if found.others > 1 else _ONE}, {over}."
    apart = f"{len(found.ties):,} of {found.others:,} others" if found.others > 1 else _ONE
    return f"Not significantly different from {apart}, {over}: {_methods(view.label(name) for name in found.ties)}."


def _methods(labels: Iterable[str]) -> str:
    """Methods with the number of their settings, the first few of them."""
    counts = Counter(labels)
    words = [label + (f" ({many} settings)" if many > 1 else "") for label, many in counts.items()]
    more = [f"{len(words) - _NAMED} more methods"] if len(words) > _NAMED + 1 else []
    words = words[:_NAMED] + more if more else words
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _above_chance(found: Winner) -> str:
    score = f"{found.metric.label} {_interval(found.score)}"
    if found.gain is None:
        return f"{score}. What chance gets is not known: the study has no random attributions."
    chance = "random attributions" if found.random else f"{number(found.metric.chance)}, which is chance"
    if found.beats_chance is None:
        return f"{score}. One input shows no significant difference from {chance}."
    if not found.beats_chance:
        return f"{score}, not shown to be better than {chance}."
    return f"{score}, better than {chance} by {_interval(found.gain)}."


def _interval(estimate: Estimate) -> str:
    mean, low, high = (text.replace("-", MINUS) for text in estimate.digits())
    return mean if low == high else f"{mean} ({low} to {high})"


def _cost(price: Price) -> str:
    beside = ", shared with other settings of its method" if price.shared else ""
    return f"{_rows(price)} and about {seconds(price.seconds)} per input{beside}."


def _rows(price: Price) -> str:
    rows = f"{number(price.forward)} model row{'' if price.forward == 1 else 's'}"
    return rows + (f" ({number(price.backward)} with gradients)" if price.backward else "")


def _about(model: ModelInfo) -> str:
    unit = "scores in the unit of what is predicted" if model.task == "regression" else ""
    return ", ".join(filter(None, (f"{model.architecture} on {model.dataset}", main_figure(model), unit)))


_MODULES: tuple[ModuleType, ...] = (verax.attribution, verax.metrics)
_CLASS = re.compile(r"\b([A-Z]\w*)\(")


def pasted(model: ModelInfo, label: str, winner: Winner) -> str:
    """Code that computes the winner and its score from a model and rows in their own units; empty where unknown.

    Args:
        model: What is explained.
        label: What the method is called.
        winner: The winner.
    """
    scale = model.scale
    if scale is None or not winner.metric.code:
        return ""
    method = _with_pixels(winner.configuration, scale)
    imports = _imports(method, winner.metric.code)
    if imports is None:
        return ""
    return "\n".join([*imports, "", *_scale(model, scale), *_call(label, method, winner.metric.code)])


def _imports(*code: str) -> list[str] | None:
    """The lines that import every class that the code names; None where one is not public, or is no plain value."""
    names = [name for text in code for name in _CLASS.findall(text)]
    if any("tensor(" in text or "array(" in text for text in code):
        return None
    homes = {name: next((home for home in _MODULES if hasattr(home, name)), None) for name in names}
    public = {home.__name__: sorted(name for name, place in homes.items() if place is home) for home in _MODULES}
    lines = [f"from {home} import {', '.join(listed)}" for home, listed in public.items() if listed]
    return None if None in homes.values() else ["import numpy as np", "import verax", *lines]


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


def _call(label: str, method: str, metric: str) -> list[str]:
    return [
        "problem = verax.Problem(model, x, background=train)",
        f"print(verax.compare(problem, {{{label!r}: {method}}}, [{metric}]))",
    ]


def _with_pixels(configuration: str, scale: Scale) -> str:
    """LIME on segments as the study runs it: it undoes the standardisation before it looks for segments."""
    if method_of(configuration) != "LimeImage":
        return configuration
    configuration = configuration.replace("pixel_mean=None", f"pixel_mean={scale.mean!r}")
    return configuration.replace("pixel_std=None", f"pixel_std={scale.std!r}")

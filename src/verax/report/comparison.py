"""The report of a comparison: the answer, a table, and for each metric its question, ranking, charts and curves.

One HTML file that needs no network and runs no script: what a reader chooses, the style sheet follows.
"""

from collections.abc import Mapping
from typing import Any

import torch
from markupsafe import Markup
from torch import Tensor

from verax.core.packages import __version__
from verax.core.palette import BLUE, VERMILION
from verax.core.shapes import Float
from verax.evaluation.comparison import Comparison
from verax.evaluation.distance import percent
from verax.evaluation.ranking import REFERENCE
from verax.evaluation.result import Evaluation
from verax.metrics.about import TextExamples
from verax.metrics.result import GuidedResult, Result
from verax.report.html import fixed_style, inline, number, rendered
from verax.report.plots import CURVES, MOST_PANELS, rankings, single_curves
from verax.scoring.meter import Cost, Rows
from verax.statistics.intervals import LEVEL

_SIZE = 10  # points
_NAMED = 5  # attributions in a sentence
_SIDES = {"for": BLUE, "against": VERMILION}
_RATES = {
    "local": "It rates explanations of the model near the input.",
    "baseline": "It rates explanations of the way from the baseline to the input.",
}


def comparison_page(comparison: Comparison, facts: Mapping[str, str] | None = None) -> str:
    """The report as text. The same comparison gives the same text."""
    table = comparison.table()
    rows = [
        (name, [(cell, (place, column) in table.best) for column, cell in enumerate(cells, start=1)])
        for place, (name, *cells) in enumerate(table.rows)
    ]
    return rendered(
        "comparison.html",
        caption=f"{table.caption}; bold: the best" if table.best else table.caption,
        several=any(name != REFERENCE for name in comparison.names[1:]),
        head=table.head,
        rows=rows,
        answers=list(comparison.answers.values()),
        sure=comparison.saturation_words(),
        facts=_facts(comparison) | dict(facts or {}),
        notes=comparison.evaluation.notes,
        sections=[_section(comparison, metric) for metric in comparison.metrics],
        curves=list(zip(CURVES, ("morf", "lerf"), strict=True)),
        colours={"morf": VERMILION, "lerf": BLUE},
        most=MOST_PANELS,
        texts=shown_texts(comparison),
        replacement=comparison.replacement,
        stabilities=comparison.ranking_stability(),
        elsewhere=comparison.elsewhere_words(),
        distances=_distances(comparison),
    )


def results_page(results: Mapping[str, Result], rows: int, seconds: float) -> str:
    """The same page of results that nobody has compared yet, with 95 % intervals."""
    distance = results.distance if isinstance(results, Evaluation) else None
    return comparison_page(Comparison(Evaluation(results, Cost(Rows(rows), seconds), distance), LEVEL))


def _facts(comparison: Comparison) -> dict[str, str]:
    first = next(iter(comparison.evaluation.values())).context
    scores = dict.fromkeys(result.context.score for result in comparison.evaluation.values())
    others = [other.replacement for other in comparison.elsewhere]
    become = {"replacement": ", ".join([comparison.replacement, *others])} if comparison.replacement else {}
    return {
        **first.about.facts(first.class_counts),
        "score": ", ".join(scores),
        "number of inputs": f"{comparison.inputs:,}",
        **become,
        "model rows": f"{comparison.rows:,}",
        "made by": f"Verax {__version__}",
    }


def _distances(comparison: Comparison) -> list[dict[str, str]]:
    """How far perturbed rows lie from the data, under each replacement; the inputs as they are once for each space."""
    under = {comparison.replacement: comparison.evaluation}
    under |= {other.replacement: other.evaluation for other in comparison.elsewhere}
    return [
        {
            "metric": comparison.evaluation.label(distance.metric) if distance.metric else "none",
            "replacement": replacement if distance.metric else "inputs as they are",
            "attribution": distance.attribution,
            "space": distance.space,
            "beyond": percent(distance.beyond(comparison.level)),
            "ratio": f"{distance.ratio:.2g}",
        }
        for replacement, evaluation in under.items()
        for distance in evaluation.distance or ()
        if distance.metric or evaluation is comparison.evaluation
    ]


def _section(comparison: Comparison, metric: str) -> dict[str, Any]:
    label, result = comparison.evaluation.label(metric), comparison.evaluation[metric]
    rated = result.metric
    with fixed_style(_SIZE):
        chart = inline(rankings(comparison, [metric]), f"{label}: mean and interval of each attribution")
        drawn = single_curves(result) if isinstance(result, GuidedResult) else []
        curves = [(name, inline(figure, f"{label}: mean curves of {name}")) for name, figure in drawn]
    best, *ties = comparison.best(metric)
    return {
        "name": label,
        "asks": rated.asks,
        "known_limitations": rated.known_limitations,
        "caution": result.caution,
        "way": "Higher is better." if rated.higher_is_better else "Lower is better.",
        "rates": _RATES[rated.kind],
        "settings": str(rated),
        "best": best,
        "ties": [*ties[:_NAMED], *([f"{len(ties) - _NAMED} more"] if len(ties) > _NAMED else [])],
        "possible": comparison.possible(metric),
        "ranking": [(rank, *rank.digits()) for rank in comparison.ranking(metric)],
        "chart": Markup(chart),  # noqa: S704 - names in it are escaped
        "curves": [(name, Markup(curve)) for name, curve in curves],  # noqa: S704 - names in them are escaped
    }


def shown_texts(comparison: Comparison) -> dict[str, Any] | None:
    """The first texts under the most and the least faithful attribution by the first metric; None for other inputs."""
    metric = comparison.metrics[0]
    result = comparison.evaluation[metric]
    examples: TextExamples | None = result.context.texts
    if examples is None:
        return None
    ranking = [ranked for ranked in comparison.ranking(metric) if ranked.name != REFERENCE]
    roles = {ranking[0].name: "most faithful"}
    if len(ranking) > 1:
        roles[ranking[-1].name] = "least faithful"
    texts = []
    for row, words in enumerate(examples.words):
        columns: list[dict[str, Any]] = []
        for name, role in roles.items():
            which = comparison.names.index(name)
            shown, score = _words(words, examples.attributions[which, row]), float(result.scores[which, row])
            columns.append({"name": name, "role": role, "score": number(score), "words": shown})
        texts.append(columns)
    return {
        "metric": comparison.evaluation.label(metric),
        "several": len(roles) > 1,
        "texts": texts,
        "left": comparison.inputs - len(texts),
        # as CSS mixes them with the page's own: red, green and blue
        "colours": {side: "{} {} {}".format(*bytes.fromhex(colour[1:])) for side, colour in _SIDES.items()},
    }


def _words(words: tuple[str, ...], values: Float[Tensor, " length"]) -> list[dict[str, str]]:
    """The tokens that people see, for special ones and padding have no text; each with what stands before it.

    ``share`` is how much of the text's largest attribution it has, from 0 to 1, and ``side`` is empty where that is 0.
    """
    largest = float(values.abs().max()) or 1.0
    shown = []
    for word, value in zip(words, values.to(torch.float64).tolist(), strict=True):
        if word:
            text, share = word.lstrip(), f"{abs(value) / largest:.2f}"
            side = "" if share == "0.00" else "for" if value > 0 else "against"
            space = word[: len(word) - len(text)]
            shown.append({"space": space, "text": text, "share": share, "side": side, "value": number(value)})
    return shown

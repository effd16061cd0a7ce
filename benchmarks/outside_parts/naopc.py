"""NAOPC (Edin et al.): word attributions of ten methods for short texts, rated by comprehensiveness and sufficiency.

Published are a classifier's output for every set of removed words, attributions, their scores, and the lowest and the
highest score that any order of the words has. The outputs are the model here: it looks up what is published.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import outside
import polars as pl
import torch
from torch import Tensor

import verax
from verax.metrics import Comprehensiveness, Sufficiency

FOLDERS = ("naopc",)
METRICS = {"comprehensiveness": Comprehensiveness(shares="every"), "sufficiency": Sufficiency(shares="every")}
TOLERANCE = 1e-5  # published logits have seven digits
LIMITS_TOLERANCE = 1e-9  # published limits are of double precision
FEATURES = 12  # no text has more words
METHODS = 10  # whose attributions are published


@dataclass(frozen=True)
class Texts:
    """The texts of one data set under one classifier.

    Attributes:
        ids: Their numbers.
        words: How many words each has.
        table: Probability of the positive class, by text and by set of removed words, word i removed where bit i is 1.
    """

    ids: list[int]
    words: list[int]
    table: Tensor

    def problem(self) -> verax.Problem:
        """A feature of a row is 1 while its word stays; words beyond a text's own are never removed."""
        count = len(self.ids)
        groups = torch.arange(FEATURES).expand(count, -1).clone()
        groups[groups >= torch.tensor(self.words)[:, None]] = -1
        bits = 1 << torch.arange(FEATURES)

        def look_up(kept: Tensor, text: Tensor) -> Tensor:
            removed = ((1 - kept) * (groups[text] >= 0)).long() @ bits
            return self.table[text, removed][:, None]

        return verax.Problem(
            verax.Scorer(look_up, returns="values"),
            torch.ones(count, FEATURES, dtype=torch.float64),
            features=groups,
            background=torch.eye(2, dtype=torch.float64)[:, :1].expand(-1, FEATURES),  # all words, and none
            model_kwargs={"text": torch.arange(count)},
        )


def measure(data: Path) -> dict[str, Any]:
    """Compare scores and limits of all data sets and classifiers."""
    folder = data / "naopc" / "results"
    found = [_of_one(folder, path.stem) for path in sorted((folder / "permutation_outputs").glob("*.parquet"))]
    return {
        "sets": [one["set"] for one in found],
        "too_high": [line for one in found for line in one["too_high"]],
        "missing": {
            name: [line for one in found for line in one["missing"][name]] for name in ("not_a_number", "extra_word")
        },
    }


def _of_one(folder: Path, stem: str) -> dict[str, Any]:
    data, classifier = stem.split("_", 1)
    texts = _texts(folder / "permutation_outputs" / f"{stem}.parquet")
    attributions = pl.read_parquet(folder / "feature_attribution_scores" / f"{data}_short_{classifier}.parquet")
    scores = pl.read_csv(folder / "aopc_scores_short" / f"{stem}.csv")
    published = pl.read_parquet(folder / "aopc_limits_exact" / f"{stem}.parquet")
    problem = texts.problem()
    values, kinds = _values(texts, attributions)
    compared = _scores(texts, problem, values, scores)
    start = time.perf_counter()
    limits = verax.limits(problem, METRICS)
    seconds = time.perf_counter() - start
    bounds = _bounds(texts, limits, published, stem)
    return {
        "set": {
            "data": data,
            "classifier": classifier,
            "texts": len(texts.ids),
            "seconds": round(seconds, 2),
            "model_rows": limits["comprehensiveness"].rows,
            **compared,
            **bounds["counts"],
        },
        "too_high": bounds["too_high"],
        "missing": {name: [[stem, *row] for row in rows] for name, rows in kinds.items()},
    }


def _texts(path: Path) -> Texts:
    outputs = pl.read_parquet(path)
    ids = outputs["id"].unique().sort().to_list()
    table = torch.full((len(ids), 2**FEATURES), torch.nan, dtype=torch.float64)
    place = {name: number for number, name in enumerate(ids)}
    columns = outputs.select("id", "word_key", "positive_logit", "negative_logit").iter_rows()
    for name, removed, positive, negative in columns:
        bits = sum(1 << (word - 1) for word in json.loads(removed))
        table[place[name], bits] = 1 / (1 + np.exp(negative - positive))
    words = [int(line.isnan().logical_not().sum()).bit_length() - 1 for line in table]
    return Texts(ids, words, table)


def _values(texts: Texts, attributions: pl.DataFrame) -> tuple[dict[str, Tensor], dict[str, list[tuple[int, str]]]]:
    """Attributions of each method, NaN where there is none to compare, and which these are.

    The first and the last word of an attribution stand for the tokens that open and close a text.
    """
    found: dict[str, Tensor] = {}
    left: dict[str, list[tuple[int, str]]] = {"not_a_number": [], "extra_word": []}
    columns = attributions.select("id", "explanation_method", "word_attributions").iter_rows()
    for name, method, words in columns:
        place = texts.ids.index(name)
        own = torch.tensor([np.nan if word is None else word for word in words or [np.nan]][1:-1], dtype=torch.float64)
        table = found.setdefault(method, torch.full((len(texts.ids), FEATURES), torch.nan, dtype=torch.float64))
        if bool(own.isnan().any()) or not len(own):
            left["not_a_number"].append((name, method))
        elif len(own) != texts.words[place]:
            left["extra_word"].append((name, method))
        else:
            table[place] = 0
            table[place, : len(own)] = own
    return found, left


def _scores(texts: Texts, problem: verax.Problem, values: dict[str, Tensor], published: pl.DataFrame) -> dict[str, Any]:
    """How far scores are from the published ones."""
    known = {method: ~one.isnan().any(1) for method, one in values.items()}
    results = verax.evaluate(problem, {method: one.nan_to_num() for method, one in values.items()}, METRICS)
    far, compared = dict.fromkeys(METRICS, 0.0), 0
    place = {name: number for number, name in enumerate(texts.ids)}
    for line in published.iter_rows(named=True):
        at, method = place[line["id"]], line["explanation_method"]
        if not bool(known[method][at]):
            continue
        compared += 1
        for metric in METRICS:
            own = float(results[metric].value[method][at])
            far[metric] = max(far[metric], abs(own - line[metric]))
    return {"rows": len(published), "compared": compared, "furthest": far}


def _bounds(
    texts: Texts, limits: dict[str, verax.metrics.Limits], published: pl.DataFrame, stem: str
) -> dict[str, Any]:
    """Where published limits are those of all orders, and where not."""
    own, other = limits["comprehensiveness"], limits["sufficiency"]
    place = {name: number for number, name in enumerate(texts.ids)}
    counts = {"limits": len(published), "lower_equal": 0, "upper_equal": 0, "upper_too_high": 0, "both_metrics": True}
    too_high = []
    for line in published.iter_rows(named=True):
        at = place[line["id"]]
        lowest, highest = float(own.worst[at]), float(own.best[at])
        # the lowest sufficiency is that of the reverse order of the lowest comprehensiveness, and so on
        counts["both_metrics"] &= (
            abs(lowest - float(other.best[at])) < LIMITS_TOLERANCE
            and abs(highest - float(other.worst[at])) < LIMITS_TOLERANCE
        )
        counts["lower_equal"] += abs(lowest - line["lower_limit"]) < LIMITS_TOLERANCE
        counts["upper_equal"] += abs(highest - line["upper_limit"]) < LIMITS_TOLERANCE
        if line["upper_limit"] > highest + LIMITS_TOLERANCE:
            counts["upper_too_high"] += 1
            drops = (texts.table[at, 0] - texts.table[at, : 2 ** texts.words[at]]).tolist()
            of_order = _of_order(drops, [word - 1 for word in line["upper_limit_order"]])
            from_zero = _recursion_from_zero(drops, texts.words[at])
            too_high.append([stem, line["id"], texts.words[at], line["upper_limit"], highest, from_zero, of_order])
    return {"counts": counts, "too_high": too_high}


def _of_order(drops: list[float], order: list[int]) -> float:
    """Comprehensiveness of an order of words, by its definition."""
    sets = np.cumsum([1 << word for word in order])
    return float(np.mean([drops[one] for one in sets]))


def _recursion_from_zero(drops: list[float], words: int) -> float:
    """What the highest sum along a chain of sets becomes where the maximum over sets before starts at 0."""
    best = [0.0] * len(drops)
    for removed in range(1, len(drops)):
        before = [best[removed ^ (1 << word)] for word in range(words) if removed >> word & 1]
        best[removed] = max(0.0, *before) + drops[removed]
    return best[-1] / words


def tables(measured: dict[str, Any]) -> dict[str, str]:
    """Scores and limits by data set and classifier, limits that no order attains, and rows left out."""
    sets = measured["sets"]
    head = ["texts, classifier", "rows", "compared", "furthest", "limits", "lowest equal", "highest equal", "seconds"]
    lines = [
        [
            f"{one['data']}, {one['classifier']}",
            f"{one['rows']:,}",
            f"{one['compared']:,}",
            f"{max(one['furthest'].values()):.1e}",
            *(str(one[name]) for name in ("limits", "lower_equal", "upper_equal")),
            f"{one['seconds']:.1f}",
        ]
        for one in sets
    ]
    total = {name: sum(one[name] for one in sets) for name in ("rows", "compared", "limits", "seconds")}
    equal = [f"{sum(one[name] for one in sets):,}" for name in ("lower_equal", "upper_equal")]
    furthest = max(max(one["furthest"].values()) for one in sets)
    lines.append(
        [
            "all",
            f"{total['rows']:,}",
            f"{total['compared']:,}",
            f"{furthest:.1e}",
            f"{total['limits']:,}",
            *equal,
            f"{total['seconds']:.1f}",
        ]
    )
    high = [[one[0], str(one[1]), str(one[2]), *(f"{value:.6f}" for value in one[3:])] for one in measured["too_high"]]
    return {
        "scores": outside.markdown(head, lines),
        "too_high": outside.markdown(
            ["text of", "number", "words", "published", "highest of all orders", "maximum from 0", "published order"],
            high,
        ),
        "missing": outside.markdown(
            ["texts, classifier", "why", "method", "numbers of the texts"], _left_out(measured["missing"])
        ),
    }


def _left_out(missing: dict[str, list[list[Any]]]) -> list[list[str]]:
    """Rows that cannot be compared: by data set, method and reason; where all methods share it, once."""
    words = {"not_a_number": "NaN", "extra_word": "one word more than the outputs"}
    lines = []
    for why, rows in missing.items():
        texts: dict[tuple[str, str], list[str]] = {}
        for stem, number, method in rows:
            texts.setdefault((stem, method), []).append(str(number))
        for stem in dict.fromkeys(stem for stem, _ in texts):
            own = {method: ", ".join(numbers) for (one, method), numbers in texts.items() if one == stem}
            if len(own) == METHODS and len(set(own.values())) == 1:
                own = {f"all {METHODS}": next(iter(own.values()))}
            lines += [[stem, words[why], method, numbers] for method, numbers in own.items()]
    return lines

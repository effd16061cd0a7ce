"""A search on disk: one Parquet file, a row for each trial with its scores on every input, written whole or not at all.

What the search was about is in the file's metadata: a file of another model, other data or another question raises.
So is a damaged one, by a hash of the whole file that its metadata hold: of bytes that are not what was written, Polars
may make other numbers, or end the program.
"""

import io
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from verax.attribution import Attribution, Place
from verax.core import noise
from verax.core.arguments import checked_choice, checked_count, checked_positive, checked_seed
from verax.core.files import BLANK_CHECKSUM, digest, has_valid_checksum, tensor_hash, with_checksum, write_atomically
from verax.core.registry import unknown
from verax.core.shapes import Float
from verax.metrics.base import METRICS, Metric, SampledMetric, all_draws
from verax.metrics.choose import QUESTIONS, chosen, deciding_metrics, fewest_features, metric_of, why_not
from verax.problem.features import Groups
from verax.problem.inputs import CheckedInputs
from verax.problem.problem import Problem
from verax.problem.replacement import BASELINE
from verax.scoring.class_scores import ClassNumbers, Target
from verax.statistics.intervals import LEVEL
from verax.tuning.race import Candidate, Rule
from verax.tuning.space import Space

FORMAT = 3  # raise it when the file, the rule of races or the way of proposing changes
_KEY = "verax.tune"
_SAME_MODEL = 1e-3  # probabilities within it are those of the same model, maybe on another device


@dataclass(frozen=True)
class TrialsFile:
    """The file of a search, and what the search is about, which must be the same to go on with it."""

    path: Path
    facts: Mapping[str, str]  # hashes and settings by the name of the argument
    clean: Float[Tensor, " n"]  # the probability of each input's class: the model, as far as a search can see
    metrics: Sequence[str]

    def write(self, candidates: Sequence[Candidate]) -> None:
        import polars as pl  # noqa: PLC0415  # to keep ``import verax`` light

        schema: dict[str, Any] = {"number": pl.Int64, "batch": pl.Int64, "cost": pl.Float64, "rows": pl.Float64}
        schema |= {"seconds": pl.Float64, "values": pl.List(pl.Float64), "alive": pl.Boolean, "reason": pl.String}
        columns: dict[str, Any] = {name: [getattr(candidate, name) for candidate in candidates] for name in schema}
        columns["configuration"] = [candidate.configuration.canonical for candidate in candidates]
        for at, name in enumerate(self.metrics):
            columns[f"scores_{name}"] = [candidate.scores[at].tolist() for candidate in candidates]
            schema[f"scores_{name}"] = pl.List(pl.Float64)
        about = {
            "format": FORMAT,
            "seal": BLANK_CHECKSUM,
            "facts": {**self.facts},
            "clean": self.clean.double().tolist(),
        }
        buffer = io.BytesIO()
        pl.DataFrame(columns, schema_overrides=schema).write_parquet(buffer, metadata={_KEY: json.dumps(about)})
        write_atomically(self.path, with_checksum(buffer.getvalue()))

    def read(self, configurations: Sequence[Attribution]) -> list[Candidate]:
        """The trials of the same search, none where there is no file; or say what is wrong with it."""
        import polars as pl  # noqa: PLC0415

        if not self.path.exists():
            return []
        content = self.path.read_bytes()
        if not has_valid_checksum(content):
            raise ValueError(f"store: {self.path} is no file of verax.tune, or it is damaged; expected another path.")
        about = json.loads(pl.read_parquet_metadata(io.BytesIO(content))[_KEY])
        if about["format"] != FORMAT:
            raise ValueError(f"store: {self.path} was written by another version of Verax; expected another path.")
        if different := self._differences(about["facts"], about["clean"]):
            reason = f"a search with another {' and another '.join(different)}"
            advice = "pass the same arguments to continue, or another path to start a new search"
            raise ValueError(f"store: {self.path} holds {reason}; {advice}.")
        by_name = {configuration.canonical: configuration for configuration in configurations}
        candidates = []
        for row in pl.read_parquet(io.BytesIO(content)).iter_rows(named=True):
            row["scores"] = torch.tensor([row.pop(f"scores_{name}") for name in self.metrics], dtype=torch.float64)
            candidates.append(Candidate(**row | {"configuration": by_name[row["configuration"]]}))
        return candidates

    def _differences(self, facts: Mapping[str, str], clean: Sequence[float]) -> list[str]:
        """The arguments in which the search of the file differs."""
        different = [name for name, value in self.facts.items() if facts.get(name) != value]
        if "seed" in different:  # it orders the inputs, so that nothing that goes with them can be compared
            return ["seed"]
        if "inputs" in different or "target" in different:
            return different
        stored = torch.tensor(clean, dtype=torch.float64)
        same = torch.allclose(stored, self.clean.double(), rtol=0, atol=_SAME_MODEL)
        return different if same else ["model", *different]


TOLERANCE = 0.02  # an advantage that is not worth further model rows, as a share of the best score
COST = "cost"  # the objective that is no metric


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a search."""

    trials: int  # at most
    seconds: float  # after which no further round starts; infinity for no limit
    seed: int  # of the order of the inputs and of the proposals
    metrics: dict[str, Metric]  # by the names of the table's columns
    rule: Rule
    std: bool  # whether noise is that of each column of the background
    by_question: bool  # whether questions were asked, not metrics

    @classmethod
    def checked(
        cls, trials: Any, seconds: Any, seed: Any, question: Any, metric: Any, problem: Problem
    ) -> "SearchSettings":
        """Read the settings, or say what is wrong with them; the rows have as many features as a metric may use."""
        if metric is None:
            metrics, cost = _deciding(question, problem), False
        elif question is not None:
            raise ValueError("question, metric: a question has a metric that decides it; pass one of the two.")
        else:
            metrics, cost = _objectives(metric, fewest_features(problem))
        signs = tuple(1 if each.higher_is_better else -1 for each in metrics.values())
        rule = Rule(signs, cost, TOLERANCE, LEVEL, apart=metric is None and len(signs) > 1)
        sampled = [draws for each in metrics.values() if isinstance(each, SampledMetric) for draws in all_draws(each)]
        return cls(
            checked_count("trials", trials),
            math.inf if seconds is None else checked_positive("seconds", seconds),
            checked_seed(seed),
            metrics,
            rule,
            std=any(isinstance(draws.sigma, str) for draws in sampled),
            by_question=metric is None,
        )


def _deciding(question: Any, problem: Problem) -> dict[str, Metric]:
    """The metrics of a question, or of all questions that have an answer for such a problem."""
    if question is not None:
        checked_choice("question", question, tuple(QUESTIONS))
        if question in (reasons := why_not(problem)):
            raise ValueError(f'question: "{QUESTIONS[question]}" has no answer here: {reasons[question]}.')
    return {name: metric for name, metric in deciding_metrics(problem).items() if question in (None, metric.kind)}


def _objectives(metric: Any, fewest: int) -> tuple[dict[str, Metric], bool]:
    """The metrics by the names of their columns, and whether the cost counts as well."""
    known = (*METRICS, COST)
    listed = list(metric) if isinstance(metric, Iterable) and not isinstance(metric, str) else [metric]
    for entry in listed:
        if isinstance(entry, str) and entry not in known:
            raise ValueError(f"metric: {unknown(entry, (*known, 'a metric object'))}")
    metrics = [metric_of(entry, fewest, "metric") for entry in listed or [metric] if entry != COST]
    if not metrics:
        raise ValueError("metric: cost alone is no aim; name what it is weighed against, such as ('dpc', 'cost').")
    return chosen(metrics, fewest), COST in listed


def shuffled_problem(problem: Problem, seed: int) -> tuple[Problem, Float[Tensor, " n"], Place]:
    """The rows in a random order, each with its class; its unperturbed score, and where the model runs."""
    key = noise.input_keys(torch.zeros(1, 1), seed, "tune")
    order = noise.words(key, 0, len(problem))[0].argsort(stable=True)
    with problem.session() as session:
        place = Place(session.device, session.batch_size)
        _, clean = problem.begin(session)
        scores = clean.double().cpu().clone()[order]
    return problem[order.numpy()], scores, place


def facts_of(settings: SearchSettings, problem: Problem, space: Space) -> dict[str, str]:
    """What a search depends on, but for the model, by the name of the argument."""
    baselines = problem.baselines
    background = [rows for rows in (problem.background, problem.background_labels) if rows is not None]
    metrics = [(name, repr(metric), metric.version) for name, metric in settings.metrics.items()]
    return {
        "inputs": _inputs_fact(problem.given),
        "background": tensor_hash(*background),
        "target": _target_fact(problem.target),
        "baselines": tensor_hash(baselines if baselines.stride(0) else baselines[:1]),
        "methods": digest(configurations=[(each.canonical, each.family.version) for each in space.configurations]),
        "metric": repr((metrics, settings.rule.cost, *(["apart"] if settings.rule.apart else []), *_replaced(problem))),
        "seed": str(settings.seed),
        "tolerance": str(settings.rule.tolerance),
        "level": str(settings.rule.level),
        "output": problem.output,
        "explained": problem.explained,
    }


def _inputs_fact(inputs: CheckedInputs) -> str:
    beside = {} if inputs.row_arguments is None else inputs.row_arguments.model_kwargs
    groups = [inputs.features.numbers()] if isinstance(inputs.features, Groups) else []
    return tensor_hash(inputs.values, *groups, *(beside[name] for name in sorted(beside)))


def _replaced(problem: Problem) -> tuple[str, ...]:
    """What removed features become, where it is not their baselines, with the rows that it holds."""
    if problem.replacement is BASELINE:
        return ()
    rows = getattr(problem.replacement, "background", None)
    return (repr(problem.replacement), *([] if rows is None else [tensor_hash(rows)]))


def _target_fact(target: Target) -> str:
    if target is None:
        return "predicted"
    if isinstance(target, ClassNumbers):
        return tensor_hash(target.numbers)
    return tensor_hash(torch.as_tensor(target)) if isinstance(target, int | Tensor) else digest(labels=target)


def checked_store(store: Any) -> Path | None:
    """Raise for a path that cannot hold the trials."""
    if store is None:
        return None
    if not isinstance(store, str | os.PathLike):
        raise TypeError(f"store: expected a path of a .parquet file, got {type(store).__name__}.")
    path = Path(store)
    if path.suffix != ".parquet" or path.is_dir():
        raise ValueError(f"store: expected a path of a .parquet file, got {str(path)!r}.")
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise ValueError(f"store: {path} cannot be written, {parent} is no folder that can be written to.")
    return path

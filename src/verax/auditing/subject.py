"""A subject: a model with inputs and explanations on which metrics are tried, and its features one number each."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from verax.attribution.base import Attribution
from verax.auditing.known_truth.base import Case, Truth
from verax.core import noise
from verax.core.shapes import Float, Int, Shaped
from verax.metrics.base import Kind
from verax.problem.attributed import Attributed, attributed
from verax.problem.features import Grid
from verax.problem.problem import Problem
from verax.problem.replacement import Replacement
from verax.scoring.class_scores import Columns

KINDS: tuple[Kind, ...] = ("local", "baseline")


@dataclass(frozen=True, eq=False)
class Subject:
    """What metrics are tried on.

    Attributes:
        name: What it is called in tables.
        problem: The model, the rows, and the class of each.
        truths: The true explanation of each kind, where it is known.
        given: Explanations that somebody wants to rate, by name: one number per feature.
        kinds: What each of them is about, where that is known.
        methods: How explanations of each kind are computed anew, for a model that was changed.
        facts: Of a user's model: which it is, the tracked class, the baseline and the date, in words.
    """

    name: str
    problem: Problem
    truths: Mapping[Kind, Truth] = field(default_factory=dict)
    given: Mapping[str, Float[Tensor, "n features"]] = field(default_factory=dict)
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    methods: Mapping[Kind, Attribution] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.problem)

    def asked(self, replacement: Replacement | None) -> Attributed:
        """The problem with attributions of 0, and with what removed features become."""
        return attributed(self.problem, torch.zeros(()).expand(self.problem.inputs.shape), replacement)

    @property
    def values(self) -> Shaped[Tensor, "n *shape"]:
        """The inputs as a tensor."""
        return self.problem.inputs.cpu()

    @cached_property
    def counts(self) -> Int[Tensor, " n"]:
        """Features of each input."""
        return self.problem.features.counts(slice(None)).cpu().expand(len(self))

    @property
    def features(self) -> int:
        """Features of the input that has most."""
        return self.problem.features.most

    @cached_property
    def away(self) -> Float[Tensor, "n features"] | None:
        """How far each feature is from its baseline; None where features are codes or have several elements."""
        given = self.problem.given
        if given.codes is not None or given.missing or self.values[0].numel() != self.features:
            return None
        away = (given.values - given.baselines).double()
        return given.features.reduce(away, slice(None)).cpu()

    def keys(self, seed: int, purpose: str) -> Int[Tensor, " n"]:
        """A key for each input, for draws that depend on it alone."""
        return noise.input_keys(self.values, seed, f"audit/{purpose}")

    def shaped(self, explanation: Float[Tensor, "n features"]) -> Float[Tensor, "n *rest"]:
        """One number per feature, in a shape that metrics take."""
        features = self.problem.features
        if isinstance(features, Grid):
            return explanation.reshape(len(explanation), *features.cell)
        return features.spread_out(explanation)

    def at(self, rows: slice) -> "Subject":
        """The same with some of the inputs."""
        return replace(
            self,
            problem=self.problem[rows],
            truths={kind: replace(truth, attribution=truth.attribution[rows]) for kind, truth in self.truths.items()},
            given={name: values[rows] for name, values in self.given.items()},
        )


@dataclass(frozen=True, eq=False)
class Ground:
    """A subject as metrics of one kind see it.

    Attributes:
        subject: What they are tried on.
        kind: The kind of explanations that they rate.
        truth: The true explanation, if it is known.
        seed: Of all draws.
        level: Coverage of the intervals.
    """

    subject: Subject
    kind: Kind
    truth: Float[Tensor, "n features"] | None
    seed: int
    level: float

    @property
    def anchors(self) -> Mapping[str, Float[Tensor, "n features"]]:
        """Explanations to start from: the truth, or those that were given, unless they are of the other kind."""
        if self.truth is not None:
            return {"truth": self.truth}
        given, kinds = self.subject.given, self.subject.kinds
        return {name: one for name, one in given.items() if kinds.get(name, self.kind) == self.kind} or given

    def named(self, trial: str, anchor: str) -> str:
        """What a trial about one of the anchors is called."""
        return trial if anchor == "truth" else f"{trial}: {anchor}"


def case_subject(case: Case, methods: Mapping[Kind, Attribution]) -> Subject:
    """A case as a subject."""
    truths = {kind: truth for kind in KINDS if (truth := case.truth(kind)) is not None}
    problem = case.problem.with_target(Columns(case.problem.classes))
    return Subject(case.name, problem, truths, methods=methods if problem.scorer.differentiable else {})

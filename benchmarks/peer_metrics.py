"""Faithfulness metrics of Captum and Quantus as the audit's trials want them: explanations in, one score per input out.

Each is called as its library means it, on the same cases and with the same explanations as ours.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import quantus
import torch
from captum.metrics import infidelity
from torch import Tensor, nn

from verax.auditing.audited_problem import AuditedProblem, Bench
from verax.metrics import Kind
from verax.problem.features import Grid
from verax.problem.problem import Problem

DRAWS = 640
Score = Callable[[AuditedProblem, Tensor], Any]  # from explanations in the shape of the inputs to one number per input


@dataclass(frozen=True)
class PeerMetric:
    """A metric of another library.

    Attributes:
        name: What it is called in the table.
        kind: The truth that it is judged by.
        higher_is_better: The direction.
        score: How it is called.
    """

    name: str
    kind: Kind
    higher_is_better: bool
    score: Score


@dataclass(frozen=True, eq=False)
class PeerBench(Bench):
    """A metric of another library on a subject; each call starts from the same seed, so that draws are shared."""

    peer: PeerMetric

    def scores(
        self, explanations: Mapping[str, Tensor], problem: Problem | None = None
    ) -> dict[str, dict[str, Tensor]]:
        """Score explanations one after the other, as the library wants it; higher is better."""
        sign, found = 1 if self.peer.higher_is_better else -1, {}
        for name, explanation in explanations.items():
            with seeded():
                values = self.peer.score(self.subject, self.subject.shaped(explanation))
            found[name] = sign * torch.as_tensor(np.asarray(values, dtype=np.float64))
        return {self.peer.name: found}


@contextlib.contextmanager
def seeded() -> Iterator[None]:
    """Both libraries draw from the global streams. What Quantus would say of unchanged rows is left out: it is slow."""
    state = np.random.get_state()  # noqa: NPY002
    with (
        torch.random.fork_rng(),
        warnings.catch_warnings(),
        patch("quantus.helpers.warn.warn_perturbation_caused_no_change"),
    ):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002
        yield
    np.random.set_state(state)  # noqa: NPY002


class OneColumn(nn.Module):
    """A case's model as Quantus wants it: rows of single precision in, one column per class out."""

    def __init__(self, subject: AuditedProblem) -> None:
        super().__init__()
        module = subject.problem.scorer.adapter.module
        assert module is not None
        self.model, self.dtype, self.shape = module, subject.values.dtype, subject.values.shape[1:]

    def forward(self, rows: Tensor) -> Tensor:
        """One value per row, as a column."""
        return self.model(rows.to(self.dtype).reshape(-1, *self.shape))[:, None]


def by_captum(subject: AuditedProblem, shaped: Tensor, normalize: bool, baseline: bool) -> Tensor:
    """Captum's infidelity: noise of 0.2, or random sets of features that go to the baseline.

    For the latter the perturbation is 1 where a feature goes, as its decorator with ``multiply_by_inputs`` has it.
    """
    model, x = OneColumn(subject), subject.values
    baselines, numbers = subject.problem.baselines.expand_as(x), feature_numbers(subject)

    def noise(inputs: Tensor) -> tuple[Tensor, Tensor]:
        moved = 0.2 * torch.randn_like(inputs)
        return moved, inputs - moved

    def removal(inputs: Tensor, baselines: Tensor) -> tuple[Tensor, Tensor]:
        chosen = torch.rand(len(inputs), subject.features) < torch.rand(len(inputs), 1)
        gone = chosen[:, numbers.clamp(min=0)] & (numbers >= 0)
        return gone.double(), torch.where(gone, baselines, inputs)

    with torch.no_grad():
        return infidelity(
            model,
            removal if baseline else noise,
            x,
            shaped.double(),
            baselines=baselines if baseline else None,
            target=0,
            n_perturb_samples=DRAWS,
            normalize=normalize,
        )


def feature_numbers(subject: AuditedProblem) -> Tensor:
    """The feature of each element of a row, the same for all rows of a case; -1 for what is never removed."""
    found = subject.problem.features
    shape = subject.values.shape[1:]
    return torch.arange(shape.numel()).reshape(shape) if isinstance(found, Grid) else found.numbers()[0].reshape(shape)


def by_quantus(make: Callable[[int, float], Any], reduce: Callable[[Any], Any] = np.asarray) -> Score:
    """A metric of Quantus, made for so many numbers per input and a baseline."""

    def score(subject: AuditedProblem, shaped: Tensor) -> Any:
        x = subject.values
        metric = make(x[0].numel(), float(subject.problem.baselines.flatten()[-1]))
        batch = x.double() if x.ndim > 2 else x[:, None].double()  # its check of sizes wants a channel
        return reduce(
            metric(
                model=OneColumn(subject).eval(),
                x_batch=batch.numpy(),
                y_batch=np.zeros(len(x), dtype=int),
                a_batch=shaped.reshape(batch.shape).numpy(),
                softmax=False,
                channel_first=True,
                batch_size=len(x),
            )
        )

    return score


_QUIET = {"disable_warnings": True, "display_progressbar": False, "return_aggregate": False}
PEERS = [
    PeerMetric(
        f"Captum {word}Infidelity {what}, {DRAWS} draws",
        "baseline" if baseline else "local",
        False,
        lambda subject, shaped, normalize=normalize, baseline=baseline: by_captum(subject, shaped, normalize, baseline),
    )
    for baseline, what in ((False, "(noise)"), (True, "(removal)"))
    for normalize, word in ((True, "normalised "), (False, ""))
]
PEERS += [
    PeerMetric(
        "Quantus FaithfulnessCorrelation",
        "baseline",
        True,
        by_quantus(
            lambda size, b: quantus.FaithfulnessCorrelation(
                nr_runs=100, subset_size=size // 2, perturb_baseline=b, **_QUIET
            )
        ),
    ),
    PeerMetric(
        "Quantus FaithfulnessEstimate",
        "baseline",
        True,
        by_quantus(lambda size, b: quantus.FaithfulnessEstimate(perturb_baseline=b, **_QUIET)),
    ),
    PeerMetric(
        "Quantus PixelFlipping",
        "baseline",
        False,  # the mean of the curve
        by_quantus(
            lambda size, b: quantus.PixelFlipping(perturb_baseline=b, **_QUIET),
            lambda found: np.asarray(found).mean(1),
        ),
    ),
    PeerMetric(
        "Quantus Monotonicity",
        "baseline",
        True,
        by_quantus(lambda size, b: quantus.Monotonicity(perturb_baseline=b, **_QUIET)),
    ),
    PeerMetric(
        "Quantus MonotonicityCorrelation",
        "baseline",
        True,
        by_quantus(lambda size, b: quantus.MonotonicityCorrelation(nr_samples=10, **_QUIET)),
    ),
]

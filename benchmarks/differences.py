"""Where Verax behaves differently from Captum and Quantus: every line is measured while this runs.

Prints a markdown table. Nothing in it is written down beforehand but the questions.
"""

import contextlib
import io
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import common
import numpy as np
import quantus
import torch
from infidelity import Captum
from scipy.stats import spearmanr
from torch import Tensor, nn

import verax
from verax.metrics import Infidelity, PredictionChange, SensitivityN

Fact = tuple[str, str, str]
QUIET = {"disable_warnings": True, "normalise": False}


class Asked:
    """A model and its inputs."""

    model: nn.Module
    inputs: Tensor

    def problem(self, **settings: Any) -> verax.Problem:
        """A new one for each call, so that unperturbed rows are scored in each."""
        return verax.Problem(self.model, self.inputs, **settings)


class Tabular(Asked):
    """The paper's network with some inputs and attributions."""

    def __init__(self, rows: int = 64, count: int = 46) -> None:
        self.model, self.inputs = common.paper_mlp(), common.normal_inputs(rows)
        self.attributions = common.attributions_like_a_study(self.model, self.inputs, count)
        self.captum = Captum(self.model, self.inputs)

    def flip(self, attribution: Tensor, **options: Any) -> np.ndarray:
        """Curves from Quantus, most relevant first."""
        metric = quantus.PixelFlipping(**{"perturb_baseline": 0.0, **QUIET, **options})
        classes = self.captum.classes.numpy()
        return np.array(run_quantus(metric, self.captum.model, self.inputs, attribution, classes, softmax=False))


class Images(Asked):
    """A small convolutional network with images of 8 by 8 pixels and attributions with little meaning."""

    def __init__(self, rows: int = 32) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            convolution = nn.Conv2d(1, 4, 3)
            self.model = nn.Sequential(convolution, nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)).eval()
        self.inputs = common.normal_inputs(rows, 64).reshape(rows, 1, 8, 8)
        self.attributions = self.inputs * common.normal_inputs(rows, 64, seed=5).reshape(rows, 1, 8, 8)
        with torch.no_grad():
            self.classes = self.model(self.inputs).argmax(1).numpy()

    def score(self, metric: Any, rows: int | None = None, **options: Any) -> Any:
        """Evaluate a Quantus metric on the first rows, or on all."""
        arrays = self.inputs[:rows], self.attributions[:rows], self.classes[:rows]
        return run_quantus(metric, self.model, *arrays, softmax=True, **options)


def run_quantus(
    metric: Any, model: nn.Module, inputs: Tensor, attribution: Tensor, classes: Any, **options: Any
) -> Any:
    arrays = {"x_batch": inputs.numpy(), "y_batch": classes, "a_batch": attribution.numpy()}
    with contextlib.redirect_stdout(io.StringIO()):
        return metric(model=model, **arrays, **options)


def outcome(work: Callable[[], Any]) -> str:
    """Say what came back, or which error."""
    try:
        return f"works, result of shape {np.shape(work())}"
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"


def apart(one: Any, other: Any) -> float:
    """Largest difference relative to the size of the numbers."""
    one, other = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    return float((np.abs(one - other) / np.abs(one).mean()).max())


def rows_of_infidelity() -> Fact:
    case, samples = Tabular(), 40
    with common.recorded(case.model) as theirs:
        for one in case.attributions:
            case.captum.infidelity(one, samples, samples)
    with common.recorded(case.model) as ours:
        Infidelity(samples=samples)(case.problem(), case.attributions)
    question = f"Model rows for Infidelity of {len(case.attributions)} attributions, 64 inputs, {samples} draws"
    return question, f"Captum: {sum(theirs):,}", f"{sum(ours):,}, {sum(theirs) / sum(ours):.0f} times fewer"


def rows_of_curves() -> Fact:
    case = Tabular()
    with common.recorded(case.model) as theirs:
        for one in case.attributions:
            case.flip(one), case.flip(-one)
    with common.recorded(case.model) as ours:
        PredictionChange()(case.problem(), case.attributions)
    question = f"Model rows for MoRF and LeRF curves of {len(case.attributions)} attributions, many alike, 64 inputs"
    return question, f"Quantus: {sum(theirs):,}", f"{sum(ours):,}, {sum(theirs) / sum(ours):.1f} times fewer"


def ranking() -> Fact:
    case, samples, seeds = Tabular(100, 1), 100, range(4)
    noise = common.normal_inputs(24 * 100, seed=7).reshape(24, 100, 20)
    near = case.attributions[0] * (1 + 0.05 * noise)

    def with_captum(seed: int, reset: bool) -> list[float]:
        torch.manual_seed(seed)
        means = []
        for one in near:
            if reset:
                torch.manual_seed(seed)
            means.append(float(case.captum.infidelity(one, samples, samples).mean()))
        return means

    def with_verax(seed: int) -> list[float]:
        result = Infidelity(samples=samples, seed=seed)(case.problem(), near)
        return [one.mean for one in result.mean()]

    def agreement(means: list[list[float]]) -> float:
        return float(np.mean([spearmanr(a, b).statistic for a, b in itertools.combinations(means, 2)]))

    fresh, reset = (agreement([with_captum(seed, way) for seed in seeds]) for way in (False, True))
    shared = agreement([with_verax(seed) for seed in seeds])
    question = "Rank correlation between seeds, Infidelity of 24 near-equal attributions, 100 draws"
    return question, f"Captum: {fresh:.2f}; {reset:.2f} if one resets the seed before every call", f"{shared:.2f}"


def repeated_calls() -> Fact:
    case = Tabular(count=1)
    theirs = [case.captum.infidelity(case.attributions[0], 100, 100) for _ in range(2)]
    before = torch.get_rng_state()
    ours = [Infidelity(samples=100)(case.problem(), case.attributions[0]).value for _ in range(2)]
    touched = "changed" if not torch.equal(before, torch.get_rng_state()) else "untouched"
    same = "equal bit for bit" if torch.equal(*ours) else f"{apart(*ours):.1e}"
    question = "Infidelity called twice with the same arguments: largest relative difference"
    return question, f"Captum: {apart(*theirs):.0%}", f"{same}, global random state {touched}"


def reversed_rows() -> Fact:
    case, theirs, ours = Tabular(count=1), [], []
    attribution = case.attributions[0]
    for inputs, one, size in ((case.inputs, attribution, None), (case.inputs.flip(0), attribution.flip(0), 7)):
        torch.manual_seed(0)
        theirs.append(Captum(case.model, inputs).infidelity(one, 100, 100))
        problem = verax.Problem(case.model, inputs, batch_size=size)
        ours.append(Infidelity(samples=100)(problem, one).value)
    question = "Same seed, rows in reverse order: largest relative change of a row's Infidelity"
    found = f"{apart(ours[0], ours[1].flip(0)):.1e} (with batches of 7 as well)"
    return question, f"Captum: {apart(theirs[0], theirs[1].flip(0)):.0%}", found


def standard_error() -> Fact:
    case = Tabular(count=1)
    theirs = case.captum.infidelity(case.attributions[0], 100, 100)
    runs = [Infidelity(samples=100, seed=seed)(case.problem(), case.attributions[0]) for seed in range(20)]
    spread = torch.stack([run.value for run in runs]).std(0).mean()
    errors = torch.stack([run.standard_error for run in runs]).mean()
    relative = (runs[0].standard_error / runs[0].value).median()
    named = "no standard_error" if not hasattr(theirs, "standard_error") else "standard_error"
    found = f"median {relative:.0%} of a score; {errors / spread:.2f} of the real spread over 20 seeds"
    return (
        "Monte-Carlo error of Infidelity, 100 draws",
        f"Captum: {named}, only a {type(theirs).__name__} of {tuple(theirs.shape)}",
        found,
    )


def more_samples() -> Fact:
    case = Images()
    theirs, rows = [], []
    for samples in (1, 10):
        with common.recorded(case.model) as sizes:
            theirs.append(case.score(quantus.Infidelity(n_perturb_samples=samples, **QUIET)))
        rows.append(sum(sizes))
    metrics = [Infidelity(perturbation="baseline", normalize=False, samples=n) for n in (1, 10)]  # as Quantus has it
    ours = [metric(case.problem(), case.attributions) for metric in metrics]
    found = apart(ours[0].value, ours[1].value)
    question = "Infidelity with 1 and with 10 samples: largest relative difference"
    return question, f"Quantus: {apart(*theirs):.0%}, at {rows[1] / rows[0]:.1f} times the rows", f"{found:.0%}"


def changed_pixels() -> Fact:
    case = Images(rows=1)
    with common.recorded(case.model, Tensor.clone) as batches:
        case.score(quantus.Infidelity(n_perturb_samples=1, **QUIET))
    theirs = [int((batch != case.inputs).sum()) for batch in batches[1:]]  # the unperturbed image comes first
    with common.recorded(case.model, Tensor.clone) as batches:
        Infidelity(perturbation="baseline", subset=16, samples=4)(case.problem(), case.attributions)
    ours = (torch.cat(batches[1:]) != case.inputs).sum((1, 2, 3)).tolist()
    question = "Pixels changed in successive perturbations of Infidelity, patches or subsets of 16"
    return question, f"Quantus: {', '.join(map(str, theirs))}", ", ".join(map(str, ours))


def batches_of_sensitivity() -> Fact:
    case, metric = Images(), quantus.SensitivityN(features_in_step=8, **QUIET)
    theirs = [np.mean(case.score(metric, rows, batch_size=size)) for rows, size in ((None, 32), (None, 4), (4, 4))]
    ours = [SensitivityN()(case.problem(batch_size=size), case.attributions) for size in (32, 4)]
    found = f"{apart(ours[0].value, ours[1].value):.1e} relative difference, {len(ours[0].value)} scores"
    peer = "Quantus: {:.4f} and {:.4f}; first 4 images alone {:.4f}".format(*theirs)
    return "Sensitivity-N of 32 images, batches of 32 and of 4", peer, found


def batches_of_road() -> Fact:
    case, metric = Images(), quantus.ROAD(percentages=[20, 50, 80], noise=0.0, **QUIET)
    theirs = [
        list(case.score(metric, rows, batch_size=size).values()) for rows, size in ((None, 32), (None, 4), (4, 4))
    ]
    whole, parts, first = (", ".join(f"{float(score):.2f}" for score in scores) for scores in theirs)
    ours = [PredictionChange()(case.problem(batch_size=size), case.attributions).value for size in (32, 4)]
    peer = f"Quantus ROAD: ({whole}) and ({parts}); first 4 images alone ({first})"
    question = "Removal curve of 32 images, batches of 32 and of 4"
    return question, peer, f"PC: {apart(*ours):.1e} relative difference, {len(ours[0])} scores"


def points_of_curves() -> Fact:
    case = Tabular(count=1)
    theirs = case.flip(case.attributions[0])
    ours = PredictionChange()(case.problem(), case.attributions[0]).morf.numpy()
    with torch.no_grad():
        clean = case.captum.model(case.inputs).amax(1).numpy()

    def says(curves: np.ndarray) -> str:
        starts = "is" if np.allclose(curves[:, 0], clean, atol=1e-6) else "is not"
        return f"{curves.shape[1]} points, the first {starts} the unperturbed score"

    return "Curve over 20 features", f"Quantus: {says(theirs)}", says(ours)


def ties() -> Fact:
    case = Tabular(count=1)
    tied = (case.attributions[0] > 0.5 * case.attributions[0].std()).float()
    stable = np.argsort(-tied.numpy(), axis=1, kind="stable")

    def deviating(curves: Any) -> int:
        ranked = torch.zeros_like(tied)
        ranked.scatter_(1, torch.from_numpy(stable), torch.arange(20.0, 0, -1).expand(len(tied), -1))
        unique = PredictionChange()(case.problem(), ranked).morf[:, 1:]
        return int((np.abs(np.asarray(curves) - unique.numpy()) > 1e-6).any(1).sum())

    ours = PredictionChange()(case.problem(), tied).morf[:, 1:]
    question = "Attributions of 0 and 1 only: inputs (of 64) whose curve does not follow a stable sort"
    return question, f"Quantus: {deviating(case.flip(tied))}", f"{deviating(ours)}"


def drifting_baseline() -> Fact:
    case = Tabular(rows=1, count=1)
    with common.recorded(case.model, Tensor.clone) as batches:
        case.flip(case.attributions[0], perturb_baseline="mean")
    theirs = len(batches[-1].unique())
    with common.recorded(case.model, Tensor.clone) as batches:
        PredictionChange()(case.problem(baselines=float(case.inputs.mean())), case.attributions[0])
    ours = min(len(row.unique()) for row in torch.cat(batches))
    question = "Different values in an input whose 20 features were all replaced by its mean"
    return question, f"Quantus: {theirs}", f"{ours}"


def uneven_steps() -> Fact:
    case = Tabular(count=1)
    peer = outcome(lambda: case.flip(case.attributions[0], features_in_step=2))
    found = outcome(lambda: PredictionChange(steps=10)(case.problem(), case.attributions[0]).morf)
    return "20 tabular features, 2 in each step", f"Quantus: {peer}", found


def areas() -> Fact:
    case = Tabular(count=1)
    peer = outcome(lambda: case.flip(case.attributions[0], return_auc_per_sample=True))
    found = outcome(lambda: PredictionChange()(case.problem(), case.attributions[0]).aupc_morf)
    return f"Area under the curve of each input, NumPy {np.__version__}", f"Quantus: {peer}", found


FACTS = (rows_of_infidelity, rows_of_curves, ranking, repeated_calls, reversed_rows, standard_error, more_samples)
FACTS += (changed_pixels, batches_of_sensitivity, batches_of_road, points_of_curves, ties, drifting_baseline)
FACTS += (uneven_steps, areas)


def main() -> None:
    found = common.versions()
    print(f"| Measured | Captum {found['captum']} or Quantus {found['quantus']} | Verax {found['verax']} |")
    print("|---|---|---|")
    for fact in FACTS:
        print(f"| {' | '.join(fact())} |", flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()

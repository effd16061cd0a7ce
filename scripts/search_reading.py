"""Which reading of DPC did the paper use? Every combination of what it leaves open against all it says about HELOC.

``python scripts/search_reading.py heloc.csv --out docs/results/reading-search.csv`` trains the linear model and the MLP
by each recipe with five seeds (of the split and of training), scores the paper's configurations on validation rows,
and asks each combination of reading, kind of Infidelity, number k of perturbed features, LIME's kernel width and the
MLP's recipe which of the statements in ``scripts/paper_statements.py`` hold. Beside the CSV file it writes tables of
the best of each reading, of each choice, of the readings' flaws and of the models, which have names that begin like its
own. What is finished is kept in the folder ``--work``; a second call goes on there.

The rule, stated before the search was run:

1. The combination with the most counted statements wins, and its reading becomes the default. Counted are the numbers
   and sentences that the question listed: the rank correlations and Pareto sets of the 44 configurations and of LIME on
   both models (8), the gradient substantially best and DeepLiftSHAP often below random under DPC on the linear model
   (2), the gradient like random and IG and DeepLiftSHAP best under PC on both models (4): 14.
2. Where combinations of several readings have the most, the sentence on the shared experiment decides ("PC and DPC can
   be computed from the same Guided Perturbation Experiment without additional model evaluations"): ``signed`` and
   ``literal`` order as PC does, ``magnitude`` does not.
3. If ``signed`` and ``literal`` are still both in it, the statements that are not counted decide, then the sum of the
   distances of the eight numbers, each in units of the most that it may be away.

Only combinations of the question take part: readings ``magnitude``, ``signed``, ``literal``; Infidelity plain (the
paper's equation and Captum's default) or normalised as Captum does it; k of all, 1, 5, 10; kernel width absolute or
times the root of d; the MLP by our recipe or by heart (99.9 % training accuracy). Shown beside and not ranked: our
normalised Infidelity, whose scale cannot be negative; the less regularised recipe, which was chosen with an eye on one
of the numbers; LPC and the effect correlation in DPC's place.
"""

import argparse
import dataclasses
import functools
import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from falsehoods import half_reversed, negated_inverse
from heloc_models import BY_HEART
from paper_statements import Means, judge
from reading_tables import READINGS, Combination, as_csv, outcome, rows_csv, tables

import verax
from verax.attribution import Attribution, Gradient, LimeTabular, grid
from verax.core.files import write_atomically
from verax.datasets import Dataset, load_heloc
from verax.metrics import DirectedPredictionChange, Infidelity, LocalPredictionChange, Metric, PredictionChange
from verax.paper.models import MLP
from verax.paper.models.recipes import recipe_for, varied
from verax.paper.models.shipped import architecture_for
from verax.paper.models.training import Trained, train

BESIDE = ("lpc", "effect correlation")
KINDS = ("plain", "normalised", "normalised, at least 0")
SUBSETS = (None, 1, 5, 10)
KERNELS = {False: "absolute", True: "times root of d"}
RECIPES = ("ours", "by heart", "less-regularised")
MODELS = (("linear", "ours"), *(("mlp", recipe) for recipe in RECIPES))
RANKED = (READINGS, KINDS[:2], SUBSETS, tuple(KERNELS.values()), RECIPES[:2])
DRAWS = 1280
GUIDED: dict[str, Metric] = {
    "pc": PredictionChange(),
    "pc by magnitude": PredictionChange(order="magnitude"),
    **{reading: DirectedPredictionChange(order=reading) for reading in READINGS},
    "lpc": LocalPredictionChange(),
}
Piece = dict[str, Any]


def trained(dataset: Dataset, model: str, recipe: str, seed: int) -> Trained:
    """A model of the paper, by one of the recipes."""
    if recipe == "by heart":
        return train(MLP(20, dropout=0.0), dataset, dataclasses.replace(BY_HEART, seed=seed), device="cpu")
    variant = None if recipe == "ours" else recipe
    settings = dataclasses.replace(varied(recipe_for("heloc", model), model, variant), seed=seed)
    return train(architecture_for(model, dataset), dataset, settings, device="cpu")


def configurations(every: int = 1) -> list[Attribution]:
    """The paper's, with 20 random attributions and LIME under both kernel widths."""
    both = [grid("tabular", scale_kernel=scaled, random_seeds=10) for scaled in KERNELS]
    lime = [[one for one in found if isinstance(one, LimeTabular)][::every] for found in both]
    return [one for one in both[0] if not isinstance(one, LimeTabular)] + lime[0] + lime[1]


def measured(model: Any, dataset: Dataset, rows: int, chosen: list[Attribution], draws: int = DRAWS) -> Piece:
    """Means over inputs of every metric, one number per configuration."""
    inputs, _ = dataset.part("validation")
    inputs = inputs[torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))[:rows]]
    background, labels = dataset.part("train")
    problem = verax.Problem(model, inputs, background=background, background_labels=labels)
    stack = verax.explain(problem, chosen)
    guided = verax.evaluate(problem, stack, GUIDED)
    means = {name: result.scores.double().mean(1).tolist() for name, result in guided.items()}
    for subset in SUBSETS:
        metric = Infidelity(samples=draws, subset=subset)
        moments = verax.evaluate(problem, stack, [metric])["infidelity"].moments
        pp, ps, ss = moments.pp, moments.ps, moments.ss
        captum = (ss - ps.square() / torch.where(pp == 0, 1, pp)) / draws
        clamped = (ss - ps.clamp(min=0).square() / torch.where(pp == 0, 1, pp)) / draws
        for kind, values in zip(KINDS, ((pp - 2 * ps + ss) / draws, captum, clamped), strict=True):
            means[f"{kind}, {subset}"] = values.mean(1).tolist()
        means[f"effect correlation, {subset}"] = moments.correlation.mean(1).tolist()
    means["norm"] = [float(values.flatten(1).norm(dim=1).mean()) for values in stack.values()]
    return {"names": list(stack), "means": means, "flaws": flaws(model, inputs, stack[Gradient().canonical])}


def flaws(model: Any, inputs: torch.Tensor, gradient: torch.Tensor) -> dict[str, dict[str, float]]:
    """How attributions that are known to be false fare against the gradient, by reading."""
    false = {"half": half_reversed(gradient), "inverse": negated_inverse(gradient)}
    result = verax.evaluate(
        verax.Problem(model, inputs), {"gradient": gradient, **false}, {name: GUIDED[name] for name in READINGS}
    )
    found: dict[str, dict[str, float]] = {}
    for reading in READINGS:
        truth, half, inverse = result[reading].scores
        wins = {"half wins": half > truth + 1e-6, "inverse ties or wins": inverse > truth - 1e-6}
        shares = {name: float(values.double().mean()) for name, values in wins.items()}
        means = {"gradient": truth, "half": half, "inverse": inverse}
        found[reading] = shares | {name: float(values.mean()) for name, values in means.items()}
    return found


def piece_file(work: Path, model: str, recipe: str, seed: int) -> Path:
    return work / f"{model}-{recipe.replace(' ', '-')}-seed{seed}.json"


def make_piece(data: Path, work: Path, model: str, recipe: str, seed: int, rows: int) -> str:
    """Train a model, measure it and write a file; returns a line about it."""
    torch.set_num_threads(1)
    start = time.monotonic()
    dataset = load_heloc(data, seed=seed)
    network = trained(dataset, model, recipe, seed)
    found = measured(verax.Scorer(network.module, returns="logits"), dataset, rows, configurations())
    write_atomically(
        piece_file(work, model, recipe, seed), json.dumps(found | {"rows": rows, "quality": network.metrics}).encode()
    )
    quality = f"training accuracy {network.metrics['train']['accuracy']:.4f}"
    return f"{model}, {recipe}, seed {seed}: {quality}, {time.monotonic() - start:.0f} s"


def make_pieces(options: argparse.Namespace) -> None:
    """Make what is missing, two at a time; those that are ranked first."""
    options.work.mkdir(parents=True, exist_ok=True)
    todo = [
        (model, recipe, seed, options.rows)
        for model, recipe in MODELS
        for seed in range(options.seeds)
        if not piece_file(options.work, model, recipe, seed).exists()
    ]
    spawn = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    with ProcessPoolExecutor(options.processes, mp_context=spawn) as pool:
        waiting = [pool.submit(make_piece, options.data, options.work, *one) for one in todo]
        for place, future in enumerate(as_completed(waiting), start=1):
            print(f"{place} of {len(todo)}: {future.result()}", flush=True)


def means_of(piece: Piece, reading: str, kind: str, subset: int | None, scaled: bool, exact: bool = False) -> Means:
    """What a statement reads: one model, reading, Infidelity and kernel."""
    other = f"scale_kernel={not scaled}"
    places = [at for at, name in enumerate(piece["names"]) if other not in name]
    columns = {name: np.array(values)[places] for name, values in piece["means"].items()}
    dpc = columns[f"{reading}, {subset}" if reading == "effect correlation" else reading]
    names = tuple(piece["names"][at] for at in places)
    return Means(names, columns["pc"], dpc, columns[f"{kind}, {subset}"], columns["norm"], exact)


def combinations(pieces: dict[tuple[str, str], list[Piece]], *, exact: bool = False) -> list[Combination]:
    """All combinations with their verdicts, the best first; ``exact`` ranks by rounding as well."""
    found = []
    recipes = [recipe for model, recipe in pieces if model == "mlp"]
    for reading, kind, subset, scaled, recipe in product((*READINGS, *BESIDE), KINDS, SUBSETS, KERNELS, recipes):
        pick = functools.partial(means_of, reading=reading, kind=kind, subset=subset, scaled=scaled, exact=exact)
        tables = {"linear": pieces["linear", "ours"], "mlp": pieces["mlp", recipe]}
        verdicts = judge({model: [pick(piece) for piece in seeds] for model, seeds in tables.items()})
        key = reading, kind, subset, KERNELS[scaled], recipe
        ranked = all(value in values for value, values in zip(key, RANKED, strict=True))
        found.append(Combination(*key, tuple(verdicts), ranked))
    return sorted(found, key=lambda one: one.order, reverse=True)


def flaw_rows(pieces: dict[tuple[str, str], list[Piece]]) -> list[tuple[str, ...]]:
    """A table of what false attributions score, means over seeds."""
    heads = (
        "reading",
        "model",
        "half-reversed beats gradient",
        "-1/g ties or wins",
        "gradient",
        "half-reversed",
        "-1/g",
    )
    rows: list[tuple[str, ...]] = [heads]
    for reading, ((model, recipe), seeds) in product(READINGS, pieces.items()):
        found = [piece["flaws"][reading] for piece in seeds]
        mean = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
        shares = [f"{mean[name]:.1%}" for name in ("half wins", "inverse ties or wins")]
        scores = [f"{mean[name]:+.4f}" for name in ("gradient", "half", "inverse")]
        rows.append((reading, f"{model}, {recipe}", *shares, *scores))
    return rows


def quality_rows(pieces: dict[tuple[str, str], list[Piece]]) -> list[tuple[str, ...]]:
    """A table of how well the models were trained, and how PC by magnitude would rate methods.

    Were one experiment by magnitude to serve both, PC would be read from it, too. Where the inputs of a model differ,
    pieces were made by calls with different ``--rows``.
    """
    rows: list[tuple[str, ...]] = [
        ("model", "inputs", "training accuracy, lowest", "test AUROC, mean", "PC by magnitude: IG x input, gradient")
    ]
    for (model, recipe), seeds in pieces.items():
        accuracy = min(piece["quality"]["train"]["accuracy"] for piece in seeds)
        area = np.mean([piece["quality"]["test"]["auroc"] for piece in seeds])
        medians = [by_magnitude(piece) for piece in seeds]
        both = ", ".join(f"{np.mean([one[name] for one in medians]):+.4f}" for name in medians[0])
        inputs = " or ".join(str(count) for count in sorted({piece["rows"] for piece in seeds}))
        rows.append((f"{model}, {recipe}", inputs, f"{accuracy:.4f}", f"{area:.4f}", both))
    return rows


def by_magnitude(piece: Piece) -> dict[str, float]:
    """Medians of PC where features go by the size of their attribution."""
    names, values = piece["names"], np.array(piece["means"]["pc by magnitude"])
    times = [name.startswith("IntegratedGradients") and "multiply_by_inputs=True" in name for name in names]
    return {"IG x input": float(np.median(values[times])), "gradient": float(values[names.index("Gradient()")])}


def finished(options: argparse.Namespace) -> dict[tuple[str, str], list[Piece]]:
    """The pieces of all models that have all seeds."""
    found = {}
    for model, recipe in MODELS:
        files = [piece_file(options.work, model, recipe, seed) for seed in range(options.seeds)]
        if all(path.exists() for path in files):
            found[model, recipe] = [json.loads(path.read_text()) for path in files]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the CSV file")
    parser.add_argument("--out", type=Path, required=True, help="the CSV file for all combinations")
    parser.add_argument(
        "--work",
        type=Path,
        default=Path("reading-search"),
        help="a folder for pieces, which may differ in --rows",
    )
    parser.add_argument("--rows", type=int, default=768, help="validation rows, chosen at random (default 768)")
    parser.add_argument("--seeds", type=int, default=5, help="of split and training (default 5)")
    parser.add_argument("--processes", type=int, default=2, help="workers of one thread each (default 2)")
    parser.add_argument("--judge", action="store_true", help="judge what is finished, and make nothing more")
    options = parser.parse_args()
    if not options.judge:
        make_pieces(options)
    pieces = finished(options)
    found = combinations(pieces)
    beside = tables(found, combinations(pieces, exact=True))
    beside |= {"flaws": flaw_rows(pieces), "models": quality_rows(pieces)}
    write_atomically(options.out, as_csv(found).encode())
    for name, rows in beside.items():
        write_atomically(options.out.with_stem(f"{options.out.stem}-{name}"), rows_csv(rows).encode())
        print(f"\n{name}\n\n{rows_csv(rows)}")
    print("\n".join(outcome(found)))


if __name__ == "__main__":
    main()

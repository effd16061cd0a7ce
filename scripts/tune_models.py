"""Search the training recipe of one of the paper's models on validation rows; needs the extra ``tune`` (Optuna).

``python scripts/tune_models.py heloc mlp --data heloc.csv --trials 40 --out tuning``
``python scripts/tune_models.py isic inception --data ISIC_FOLDER --trials 12 --out tuning --device cuda``

Run it again to go on where it stopped; run it several times at once, each with another ``--seed``, to share the work.
Trials are kept in ``OUT/DATASET-MODEL.journal``, their table in ``OUT/DATASET-MODEL.csv``. The value of a trial is the
validation AUROC of its best epoch; for HELOC the mean over five ways to divide training and validation rows. Test rows
are taken out before the search begins.
"""

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState

from verax.datasets import Dataset, Split, load_heloc, load_isic, standardise_columns
from verax.paper.models import MLP, InceptionV1, Linear
from verax.paper.models.recipes import Recipe
from verax.paper.models.training import Epoch, train
from verax.scoring.model_files.saved import Architecture

DIVISIONS = 5
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)


def heloc_linear(trial: Trial) -> Recipe:
    return Recipe(
        epochs=40,
        patience=10,
        batch_size=trial.suggest_categorical("batch_size", [64, 128, 256, 512]),
        learning_rate=trial.suggest_float("learning_rate", 1e-3, 1e-1, log=True),
        weight_decay=trial.suggest_float("weight_decay", 1e-4, 1.0, log=True),
        noise=trial.suggest_float("noise", 0.0, 0.5),
    )


def heloc_mlp(trial: Trial) -> Recipe:
    return Recipe(
        epochs=30,
        patience=10,
        batch_size=trial.suggest_categorical("batch_size", [64, 128, 256, 512]),
        learning_rate=trial.suggest_float("learning_rate", 3e-4, 1e-2, log=True),
        weight_decay=trial.suggest_float("weight_decay", 1e-4, 1.0, log=True),
        noise=trial.suggest_float("noise", 0.0, 0.6),
        label_smoothing=trial.suggest_float("label_smoothing", 0.0, 0.2),
        average=trial.suggest_categorical("average", [0.0, 1.0, 3.0]),
    )


def isic_linear(trial: Trial) -> Recipe:
    # Neighbouring pixels are alike, so all weights move together: a step must be small, and the decay strong.
    share = trial.suggest_categorical("augment", ["none", "flips", "0.3 of all"])
    return Recipe(
        epochs=40,
        batch_size=trial.suggest_categorical("batch_size", [64, 256]),
        learning_rate=trial.suggest_float("learning_rate", 3e-7, 1e-4, log=True),
        weight_decay=trial.suggest_float("weight_decay", 1.0, 1e4, log=True),
        augment=share != "none",
        augment_share=0.3 if share == "0.3 of all" else 0.0,
    )


def isic_inception(trial: Trial) -> Recipe:
    return Recipe(
        epochs=45,  # half of the shipped recipe's, so that many settings can be tried
        batch_size=128,
        schedule="onecycle",
        learning_rate=trial.suggest_float("learning_rate", 7e-4, 4e-3, log=True),
        weight_decay=trial.suggest_float("weight_decay", 0.01, 0.3, log=True),
        augment=True,
        augment_share=trial.suggest_float("augment_share", 0.1, 0.7),
        label_smoothing=trial.suggest_categorical("label_smoothing", [0.0, 0.1]),
        average=trial.suggest_categorical("average", [0.0, 3.0]),
    )


@dataclasses.dataclass(frozen=True)
class Search:
    """A search: its space, what learns, and settings to try before any others."""

    space: Callable[[Trial], Recipe]
    architecture: Architecture
    first: tuple[dict[str, Any], ...]


SEARCHES = {
    ("heloc", "linear"): Search(
        heloc_linear, Linear(20), ({"batch_size": 256, "learning_rate": 1e-2, "weight_decay": 1e-2, "noise": 0.1},)
    ),
    ("heloc", "mlp"): Search(
        heloc_mlp,
        MLP(20),
        (
            {"batch_size": 256, "learning_rate": 2e-3, "weight_decay": 1e-2, "noise": 0.3}
            | {"label_smoothing": 0.0, "average": 0.0},
        ),
    ),
    ("isic", "linear"): Search(
        isic_linear,
        Linear((3, 224, 224)),
        ({"augment": "flips", "batch_size": 256, "learning_rate": 3e-6, "weight_decay": 100.0},),
    ),
    ("isic", "inception"): Search(
        isic_inception,
        InceptionV1(channels=3),
        ({"learning_rate": 2e-3, "weight_decay": 0.05, "augment_share": 0.4, "label_smoothing": 0.0, "average": 0.0},),
    ),
}


def divisions(name: str, data: Path) -> list[Dataset]:
    """The data sets of a search, without the test rows: ISIC's own division, or several of HELOC."""
    if name == "isic":
        images = load_isic(data)
        return [_divided(images, images.split.train, images.split.validation, 0)]
    table = load_heloc(data)
    known = np.concatenate([table.split.train, table.split.validation])
    found = []
    for number in range(DIVISIONS):
        order = np.random.default_rng(number).permutation(known)
        train_rows, validation_rows = np.split(order, [len(table.split.train)])
        moments = standardise_columns(table.inputs[train_rows])
        divided = _divided(table, np.sort(train_rows), np.sort(validation_rows), number)
        found.append(dataclasses.replace(divided, standardisation=moments))
    return found


def _divided(dataset: Dataset, train_rows: np.ndarray, validation_rows: np.ndarray, seed: int) -> Dataset:
    """The data set with validation rows in place of its test rows: a search cannot look at what is not there."""
    return dataclasses.replace(dataset, split=Split(train_rows, validation_rows, validation_rows, seed))


def objective(search: Search, data: list[Dataset], trial: Trial, epochs: int | None, device: str | None) -> float:
    """The mean validation AUROC of one recipe; a poor one is given up half way where there is one data set."""
    recipe = search.space(trial)
    if epochs is not None:
        recipe = dataclasses.replace(recipe, epochs=epochs)

    def report(epoch: Epoch) -> None:
        trial.report(epoch.score, epoch.number)
        if trial.should_prune():
            raise optuna.TrialPruned

    scores = []
    for number, one in enumerate(data):
        own = dataclasses.replace(recipe, seed=number)
        found = train(search.architecture, one, own, device=device, progress=report if len(data) == 1 else None)
        scores.append(found.metrics["validation"]["auroc"])
    return mean(scores)


def show(study: optuna.Study, table: Path) -> None:
    """Print all finished trials, best first, and write them as CSV."""
    trials = sorted(study.get_trials(states=FINISHED), key=lambda one: -_value(one))
    names = list(dict.fromkeys(name for one in trials for name in one.params))
    lines = [["trial", "state", "validation AUROC", *names, "seconds"]]
    for one in trials:
        values = [_short(one.params.get(name, "")) for name in names]
        seconds = f"{one.duration.total_seconds():.0f}" if one.duration else ""
        lines.append([str(one.number), one.state.name.lower(), f"{_value(one):.4f}", *values, seconds])
    table.write_text("".join(",".join(line) + "\n" for line in lines), encoding="utf-8")
    for at, line in enumerate(lines):
        print("| " + " | ".join(line) + " |" + ("\n" + "|---" * len(line) + "|" if at == 0 else ""))
    print(f"\nbest: trial {study.best_trial.number}, validation AUROC {study.best_value:.4f}, {study.best_params}")


def _value(trial: FrozenTrial) -> float:
    """Of a trial that was given up, the best epoch until then."""
    return max([trial.value or 0.0, *trial.intermediate_values.values()])


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=["heloc", "isic"])
    parser.add_argument("model", choices=["linear", "mlp", "inception"])
    parser.add_argument("--data", type=Path, required=True, help="heloc: a CSV file; isic: a folder")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the trials")
    parser.add_argument("--trials", type=int, default=40, help="finished trials in all, earlier runs counted in")
    parser.add_argument("--seconds", type=float, help="start no further trial after so long")
    parser.add_argument("--epochs", type=int, help="instead of those in the search space")
    parser.add_argument("--device", help="cpu or cuda; cuda where there is one")
    parser.add_argument("--seed", type=int, default=0, help="of the sampler")
    given = parser.parse_args()
    if (given.dataset, given.model) not in SEARCHES:
        parser.error(f"there is no {given.model} model for {given.dataset}")
    search, name = SEARCHES[given.dataset, given.model], f"{given.dataset}-{given.model}"
    given.out.mkdir(parents=True, exist_ok=True)
    storage = JournalStorage(JournalFileBackend(str(given.out / f"{name}.journal")))
    study = optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)
    # Of the trials until now, too: going on with the first seed would draw the first settings again.
    study.sampler = optuna.samplers.TPESampler(seed=given.seed * 10_000 + len(study.trials))
    study.pruner = optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=(given.epochs or 40) * 3 // 4)
    for settings in search.first:
        study.enqueue_trial(settings, skip_if_exists=True)
    if len(study.get_trials(states=FINISHED)) < given.trials:
        data = divisions(given.dataset, given.data)
        study.optimize(
            lambda trial: objective(search, data, trial, given.epochs, given.device),
            timeout=given.seconds,
            callbacks=[optuna.study.MaxTrialsCallback(given.trials, states=FINISHED)],
        )
    show(study, given.out / f"{name}.csv")


if __name__ == "__main__":
    main()

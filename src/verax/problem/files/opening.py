"""``verax.open_problem``: files in, a ``verax.Problem`` out."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from verax.data.array_files import read_attributions
from verax.problem.files.tables import FileRows, ProblemFiles, class_numbers, open_rows, read_target
from verax.problem.files.texts import check_no_texts, open_texts, read_token_attributions
from verax.problem.problem import Problem
from verax.problem.replacement import ReplacementLike
from verax.problem.text.tokens import TextInputs
from verax.scoring.adapters import Returns
from verax.scoring.class_scores import Output

_Path = str | os.PathLike[str]


def open_problem(
    model: _Path,
    inputs: _Path,
    *,
    target: Any = None,
    output: Output = "probability",
    background: _Path | None = None,
    background_labels: _Path | None = None,
    baselines: Any = None,
    features: Any = None,
    replacement: ReplacementLike = None,
    returns: Returns | None = None,
    missing: str | None = None,
    batch_size: int | None = None,
    device: str | None = None,
    trust: bool = False,
    text_column: str | None = None,
    word_column: str | None = None,
    unit: str | None = None,
    replace: str | None = None,
) -> Problem:
    """Open a model file and the rows to explain as a problem, with words that mean what they mean on the command line.

    Args:
        model: A file: ``.onnx``, ``.skops`` (scikit-learn), ``.safetensors`` (``verax train``), ``.json`` or ``.ubj``
            (XGBoost), ``.txt`` (LightGBM), ``.cbm`` (CatBoost), ``.pt2`` (``torch.export``; needs ``trust``); or a
            folder of ``transformers``.
        inputs: A file: ``.npy``, ``.npz``, ``.safetensors``, ``.parquet`` or ``.csv``; of texts ``.csv``, ``.jsonl`` or
            ``.parquet``. Columns are found by name where the model knows names; a table for a ``.skops`` model may
            have text and gaps.
        target: A class or value: number, name, ``"label:TEXT"`` for a name like a number, or a file of them, one per
            row. By default the predicted class.
        output: The score that metrics track, ``"probability"`` or ``"logit"``.
        background: A file of training rows.
        background_labels: A file of their class numbers.
        baselines: What removed features become: a number, ``"mean"``, ``"median"``, ``"mode"``, ``"zero"``,
            ``"missing"``, or a file. 0 by default; in tables with text or gaps the mean, and the most frequent
            category.
        features: A file with the number of the feature that each element belongs to, negative for what is never
            removed; or ``"element"`` or ``"pixel"``.
        replacement: What removed features become instead, one of ``verax.replacement``.
        returns: What the model returns where the file does not say it: ``"logits"``, ``"probabilities"``, ``"values"``.
        missing: ``"allow"`` passes gaps and NaN on to any model, ``"raise"`` raises for them; by default allowed where
            the model is known to take them.
        batch_size: Rows per model call; automatic by default.
        device: Where the model runs.
        trust: Open a file that can run any code (``.pt2``, or ``.skops`` with classes of your own).
        text_column: Texts: the column, or the key of a ``.jsonl`` line; ``"text"`` by default.
        word_column: Texts of a tagger: the column, or the key, of the word whose class counts.
        unit: Texts: what one feature is, ``"token"``, ``"word"`` or ``"sentence"``.
        replace: Texts: what a removed token becomes, ``"mask"``, ``"pad"``, ``"unk"`` or ``"delete"``.

    Example:
        >>> import tempfile, numpy as np, verax
        >>> from verax.models import save
        >>> from verax.paper.models import Linear
        >>> folder = tempfile.TemporaryDirectory()
        >>> np.save(f"{folder.name}/x.npy", np.ones((5, 3), np.float32))
        >>> model = f"{folder.name}/m.safetensors"
        >>> save(model, Linear(3).build(seed=0), Linear(3), dataset=None, hyperparameters={}, metrics={}, seed=0)
        >>> problem = verax.open_problem(model, f"{folder.name}/x.npy", target=1, baselines=0.5)
        >>> len(problem), problem.baselines[0].tolist()
        (5, [0.5, 0.5, 0.5])
        >>> folder.cleanup()
    """
    files = ProblemFiles(
        model=Path(model),
        inputs=Path(inputs),
        background=None if background is None else Path(background),
        baselines=baselines,
        features=features,
        returns=returns,
        missing=missing,
        device=device,
        trust=trust,
        text_column=text_column,
        word_column=word_column,
        unit=unit,
        replace=replace,
    )
    settings = {"target": target, "output": output, "replacement": replacement, "batch_size": batch_size}
    return open_explained(files, (), {**settings, "background_labels": background_labels})[0]


def open_explained(
    files: ProblemFiles, attributions: Sequence[Path], settings: Mapping[str, Any]
) -> tuple[Problem, dict[str, Any]]:
    """A problem and attributions of its rows; what is quick to read is read, and fits, before a large model is opened.

    Args:
        files: Model, rows, and their settings.
        attributions: Files of attributions.
        settings: Target, output, and what else ``verax.open_problem`` passes on to the problem.
    """
    settings = {**settings, "target": read_target(settings.get("target"))}
    if files.model.is_dir():
        settings.pop("background_labels", None)
        return open_texts(files, attributions, settings)
    check_no_texts(files)
    if settings.get("background_labels") is not None:
        settings["background_labels"] = class_numbers("background_labels", settings["background_labels"])
    problem = open_rows(files, settings)
    return problem, attributions_of(problem, attributions)


def attributions_of(problem: Problem, paths: Sequence[Path]) -> dict[str, Any]:
    """Attributions from files, by name, with columns in the order of the problem's rows.

    Args:
        problem: Of files, as ``verax.open_problem`` gives it.
        paths: Files of attributions.
    """
    rows = problem.rows
    if isinstance(rows, TextInputs):
        return read_token_attributions(paths, rows)
    if not isinstance(rows, FileRows) or rows.file is None:
        raise TypeError("problem: expected one of files, as verax.open_problem gives it.")
    return read_attributions(paths, replace(rows.file, values=rows.values))

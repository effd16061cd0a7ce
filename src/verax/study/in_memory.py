"""A study from Python: models and data that are objects of the running program."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from verax.attribution import METHODS, Attribution
from verax.core.arguments import kind_in_words
from verax.core.registry import to_dict
from verax.data.base import Dataset, Part, assembled
from verax.data.columns import LabelTask, columns_of, numbers_of, read_labels
from verax.data.file import held_out_rows, table_dataset
from verax.metrics.choose import Metrics, metrics_for_numbers
from verax.study.data_spec import LIVE, configuration
from verax.study.explained_models import Machine
from verax.study.metrics import written
from verax.study.models import Live
from verax.study.run import Finished
from verax.study.run import run_study as run_spec
from verax.study.spec import StudySpec, load_spec, parse_spec

_HERE = Machine()
_EVERY = 97  # of the grid's LIME configurations: a prime number, so that all their settings occur
Attributions = Sequence[Attribution | str] | Mapping[str, Attribution | str] | Attribution | str


def run_study(
    spec: str | Path | StudySpec | None = None,
    out: str | Path | None = None,
    *,
    models: Mapping[str, Any] | None = None,
    data: Any = None,
    attributions: Attributions | None = None,
    metrics: Metrics | None = None,
    task: LabelTask = "auto",
    held_out: Any = None,
    part: Part = "validation",
    limit: int | None = None,
    name: str = "data",
    seed: int = 0,
    examples: int = 4,
    trust: int = 0,
    machine: Machine = _HERE,
    workers: int = 1,
    log: Callable[[str], None] = lambda line: None,
) -> Finished:
    """Run a study, or what is left of it, and write its report: of a spec, or of models and data at hand.

    Models see rows in the units of the data. Inputs are perturbed in standard deviations of the training rows: a
    removed number becomes its mean, a category the most frequent one, and ``sigma=0.2`` of Infidelity is a fifth of a
    standard deviation. Gradient methods are left out for models without gradients, and the log names them.

    A study of objects is computed in this process. Run it again with the same directory to go on: results are found by
    a hash of each model, of the weights and settings of a torch module, of the serialised content and the predictions
    of any other model. A model that is fitted anew is the same one where the fit is repeatable (``random_state``).

    Args:
        spec: A shipped name, the path of a TOML file, or a spec that was read; then no models and data.
        out: The study's directory.
        models: What is explained, by name: whatever ``verax.evaluate`` takes as ``model``.
        data: Rows and labels, ``(frame, y)``: a data frame of pandas or polars, with categories and gaps, or an array
            ``(N, features)`` or ``(N, channels, height, width)``; labels of any kind. Or a ``verax.datasets.Dataset``.
        attributions: Methods, or their names, in a list, or in a dict, whose own names are not kept: tables and figures
            name a method by its configuration, such as ``KernelShap(samples=1024, seed=0)``. By default the paper's and
            those that remove features, with few of LIME's configurations.
        metrics: As in ``verax.evaluate``.
        task: What the labels are for, ``"classification"``, ``"regression"``, or as they look.
        held_out: The rows that the models have not learnt from: row numbers, or one truth value per row. Half of them
            become ``"validation"``, half ``"test"`` rows, all others ``"train"``. By default rows are split at random,
            and the report says that a model may have learnt from the rows it is measured on.
        part: The rows to explain. By default 60 % of the rows are ``"train"``, the background of methods that need one,
            20 % ``"validation"`` and 20 % ``"test"``.
        limit: Explain only so many of them, drawn at random by the seed; fewer are a part of more.
        name: What tables and figures call the data.
        seed: Of the split, and of the order in which rows are explained.
        examples: Inputs of each model that are shown in the report.
        trust: Inputs of each model that are asked whether the numbers can be trusted, or 0: how far perturbed rows lie
            from the data, how near scores are to what is possible, and which metric tells explanations apart.
        machine: Where to compute.
        workers: Processes that compute at once on a CPU, for a spec.
        log: Told what will be done, and what happens.

    Returns:
        The finished study: ``.report`` is the path of its report, ``.to_frame()`` its table of scores.

    Example:
        >>> import tempfile, numpy as np, verax
        >>> from sklearn.linear_model import LinearRegression
        >>> x = np.random.default_rng(0).normal(size=(60, 3))
        >>> y = x @ [3.0, 1.0, 0.0]
        >>> methods = [verax.attribution.LimeTabular(samples=64), verax.attribution.Random()]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     study = verax.run_study(
        ...         models={"line": LinearRegression().fit(x, y)}, data=(x, y), attributions=methods, out=folder
        ...     )
        ...     study.to_frame().shape[0]  # 12 rows by two methods
        24
    """
    if out is None:
        raise ValueError("out: say in which directory the study is kept.")
    if spec is not None:
        if models is not None or data is not None:
            raise ValueError("spec: it names its models and data; leave models and data out.")
        if held_out is not None:
            raise ValueError("held_out: a spec names the column itself, held_out of its data; leave held_out out.")
        study_spec = spec if isinstance(spec, StudySpec) else load_spec(spec, limit=limit)
        return run_spec(study_spec, out, machine=machine, workers=workers, log=log)
    if not models or data is None:
        raise ValueError("models, data: expected both, {name: model} and (rows, labels), or a spec.")
    dataset = _dataset(data, task, name, seed, held_out)
    table: dict[str, Any] = {"name": LIVE, "part": part, "seed": seed, "attributions": attributions_table(attributions)}
    table["models"] = [{"name": str(key), "live": True} for key in models]
    if limit is not None:
        table["limit"] = limit
    named = metrics_for_numbers(dataset.inputs[0].size, metrics)
    content = {
        "name": name,
        "data": [table],
        "metrics": {"list": [written(column, metric) for column, metric in named.items()]},
        "uncertainty": {"inputs": 0},
        "trust": {"inputs": trust},
        "examples": examples,
    }
    label = getattr(None if isinstance(data, Dataset) else data[1], "name", None)  # of labels that are a column
    live = Live(dataset, {str(key): model for key, model in models.items()}, "" if label is None else str(label))
    return run_spec(parse_spec(content, "run_study"), out, machine=machine, log=log, live=live)


def _dataset(data: Any, task: LabelTask, name: str, seed: int, held_out: Any) -> Dataset:
    if isinstance(data, Dataset):
        if held_out is not None:
            raise ValueError("held_out: a verax.datasets.Dataset brings its own split; leave held_out out.")
        return data
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise TypeError(f"data: expected (rows, labels) or a verax.datasets.Dataset, got {type(data).__name__}.")
    rows, labels = data
    ids = [f"row {row}" for row in range(len(rows))]
    labels = labels.numpy(force=True) if isinstance(labels, torch.Tensor) else labels
    labels_read = read_labels(labels, len(rows), "y", task)
    kept = None if held_out is None else held_out_rows(held_out, len(rows), "held_out")
    if hasattr(rows, "columns"):
        return table_dataset(name, columns_of(rows, "data"), labels_read, ids, seed, kept)
    array = rows.numpy(force=True) if isinstance(rows, torch.Tensor) else np.asarray(rows)
    if array.dtype.kind not in "fiu" or array.ndim not in (2, 4) or not array.size:
        raise ValueError(
            f"data: expected a data frame, or numbers (N, features) or (N, channels, height, width), got "
            f"{array.dtype} {array.shape}."
        )
    if np.isinf(array).any():
        raise ValueError("data: expected finite numbers, or NaN where one is missing; got infinity.")
    if array.ndim == 4:
        pixels = array if array.dtype == np.uint8 else array.astype(np.float32)
        classes, kind = labels_read.class_names, labels_read.task
        return assembled(
            name, pixels, labels_read.values, ids, class_names=classes, task=kind, seed=seed, held_out=kept
        )
    names = [f"feature {place}" for place in range(array.shape[1])]
    return table_dataset(name, numbers_of(array, names), labels_read, ids, seed, kept)


def attributions_table(methods: Any) -> dict[str, Any]:
    """The table of a spec that means these methods, which ``run_study`` explains."""
    if methods is None:
        return {"every": _EVERY, "removals": True}
    if isinstance(methods, Mapping):
        labelled = [(f"attributions[{name!r}]", entry) for name, entry in methods.items()]
    else:
        several = isinstance(methods, Iterable) and not isinstance(methods, str) and not hasattr(methods, "shape")
        labelled = [("attributions", entry) for entry in (methods if several else [methods])]
    others = []
    for label, entry in labelled:
        method = METHODS.get(entry, label)() if isinstance(entry, str) else entry
        if not isinstance(method, Attribution):
            raise TypeError(
                f"{label}: expected a method of verax.attribution, which the study computes, or its name, got "
                f"{kind_in_words(entry)}; attributions that are computed already go to verax.compare."
            )
        table = {"method": type(method).__name__, **to_dict(method)}
        if configuration(table) != method:
            raise ValueError(f"{label}: {method.canonical} has a setting that a file cannot hold; leave it out.")
        others.append(table)
    return {"grid": False, "others": others}

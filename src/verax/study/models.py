"""The models of a study: your own, opened, tried and identified by a hash; others trained as it says, or copied."""

import contextlib
import importlib
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from torch import Tensor, nn

from verax.core import noise
from verax.core.files import digest, tensor_hash
from verax.core.shapes import Float
from verax.data.base import Dataset, Part, as_numbers
from verax.data.file import column_values
from verax.scoring.adapters import Adapter, Returns, adapt, labels_of
from verax.scoring.adapters.torch_module import TorchModule
from verax.scoring.model_files.opening import file_hash, open_model
from verax.scoring.model_files.saved import TRAINING, CheckpointError, ModelFileError, SavedModel, load, save
from verax.scoring.raw_rows import on_standardised
from verax.scoring.scorer import Scorer
from verax.statistics.prediction_quality import Figures, class_figures, value_figures
from verax.study.data_spec import DataSpec, ModelSpec
from verax.study.explained_models import NAMES, ExplainedModel, Material, state_hash, usable
from verax.study.store import Store

_MOST = 1024  # rows of each kind on which a model is measured or identified
_UNHASHABLE = (pickle.PicklingError, TypeError, AttributeError, ValueError, RuntimeError)  # RecursionError among them

Predict = Callable[[Float[Tensor, "n *shape"]], Tensor]


def model_identity(model: Any, adapter: Adapter, material: Material, predict: Predict) -> str:
    """Hash of a model that was given as an object.

    The weights and the settings of a torch module. Of any other model the serialised content, unless it cannot be
    serialised or changes as the model predicts, and in any case its predictions, because functions are serialised by
    name alone: on the data, and on rows that the data do not hold, where models that predict alike on the data differ.
    """
    module = adapter.module if isinstance(adapter, TorchModule) else None
    if module is not None and any(True for _ in module.parameters()):
        settings = _content_hash([_settings(part) for part in module.modules()])
        rest = {"predictions": _predictions(material, predict)} if settings is None else {"settings": settings}
        return digest(weights=state_hash(module), module=repr(module), **rest)
    before, predictions = _content_hash(model), _predictions(material, predict)
    return digest(content=before if before == _content_hash(model) else None, predictions=predictions)


def _settings(module: nn.Module) -> dict[str, Any]:
    kind = type(module)
    settings: dict[str, Any] = {"class": f"{kind.__module__}.{kind.__qualname__}"}
    for name, value in vars(module).items():
        if not name.startswith("_") and name != "training":
            settings[name] = tensor_hash(value) if isinstance(value, Tensor) else value
    return settings


def _content_hash(content: Any) -> str | None:
    """Hash of a serialised form, the same in every process; None where there is none."""
    with contextlib.suppress(*_UNHASHABLE):
        return str(joblib.hash(content, hash_name="sha1"))
    return None


def _predictions(material: Material, predict: Predict) -> str:
    """Hash of the scores of the data's rows, of rows mixed from pairs of them, and of rows with features removed."""
    background = material.background[:_MOST]
    keys = noise.input_keys(torch.arange(len(background))[:, None].double(), 0, "identity")
    kept = noise.uniforms(keys, 0, 1, background[0].numel()).reshape(background.shape) < 0.5
    removed = torch.zeros_like(background[:1]) if material.baselines is None else material.baselines
    mixed = torch.where(kept, background, background.roll(1, 0))
    without = torch.where(kept, background, removed.to(background))
    return tensor_hash(*(predict(rows) for rows in (material.inputs[:_MOST], background, mixed, without)))


@dataclass(frozen=True)
class Live:
    """Objects of a running program that a study is about."""

    dataset: Dataset  # the data
    models: Mapping[str, Any]  # what ``verax.evaluate`` takes as ``model``, by name
    label: str = ""  # what is predicted, by the name that its column had; empty where it had none


def is_own(spec: ModelSpec) -> bool:
    """Whether a model is not one of the shipped architectures."""
    return spec.live or (spec.path is not None and Path(spec.path).suffix.lower() != ".safetensors")


def own_model(data: DataSpec, spec: ModelSpec, material: Material, live: Live | None) -> ExplainedModel:
    """Open a model of one's own, try it on two rows, and measure it."""
    adapter, model_facts = _adapter(spec, live, material.dataset)
    _check_gaps(spec, material, adapter)
    dataset = material.dataset
    try:
        behind = on_standardised(adapter, material.scale, dataset.columns, dataset.feature_names)
    except ValueError as error:
        raise ModelFileError(f"{spec.name}: {error}") from None
    returns = behind.returns if model_facts else None
    scorer = Scorer(behind, returns=returns, precision=spec.precision)
    _try(spec, scorer, material)
    _check_task(spec, scorer, dataset)
    chosen, left_out = usable(data, spec, material, behind)
    if spec.path is not None:
        identity = file_hash(spec.path)
    else:
        model = _object(spec, live)
        content = adapter if isinstance(model, Scorer) else model
        identity = model_identity(content, adapter, material, partial(_scores, scorer))
    figures = measured(scorer, material)
    kind = type(getattr(adapter, "estimator", None) or adapter.module or adapter).__name__
    return ExplainedModel(data, spec, material, behind, returns, kind, figures, chosen, left_out, identity)


def measured(scorer: Scorer, material: Material) -> dict[str, Figures]:
    """How good a model is on the rows that it may not have learnt from; nothing where its classes are others."""
    dataset, figures = material.dataset, dict[str, Figures]()
    names = dataset.class_names
    parts: tuple[Part, ...] = ("validation", "test")
    for part in parts:
        rows = dataset.split.rows(part)[:_MOST]
        labels = torch.from_numpy(dataset.labels[rows])
        if len(set(labels.tolist())) < 2:
            continue
        scores = _scores(scorer, _inputs(material, rows))
        if dataset.task == "regression":
            figures[part] = value_figures(scores[:, 0], labels)
        elif scores.shape[1] == len(names):  # by the model's own labels where they are the data's, else by their order
            outputs = [str(label) for label in labels_of(scorer.adapter) or ()]
            same = set(outputs) == set(names)
            order = [outputs.index(name) for name in names] if same else list(range(len(names)))
            figures[part] = class_figures(scores[:, order], labels)
    return figures


def _adapter(spec: ModelSpec, live: Live | None, dataset: Dataset) -> tuple[Adapter, bool]:
    returns: Returns | None = spec.returns or ("values" if dataset.task == "regression" else None)
    if spec.path is not None:
        try:
            return open_model(spec.path, returns=returns, trust=spec.trust), returns is not None
        except (ValueError, TypeError, ImportError) as error:
            raise ModelFileError(f"{spec.name}: {error}") from None
    model = _object(spec, live)
    if isinstance(model, Scorer):
        return model.adapter, True
    return adapt(model, returns, None), returns is not None


def _object(spec: ModelSpec, live: Live | None) -> Any:
    if live is None or spec.name not in live.models:
        raise ModelFileError(
            f"{spec.name}: was an object of a Python program; run the program again, verax.run_study(..., out=...) "
            "with the same directory, or save the model and give its path."
        )
    return live.models[spec.name]


def _inputs(material: Material, rows: Any) -> Float[Tensor, "n *shape"]:
    if material.inputs.ndim != 2:
        return material.scale.apply(as_numbers(material.dataset.inputs[rows]))
    values, scale = column_values(material.dataset)
    return scale.apply(torch.from_numpy(np.asarray(values[rows], dtype=np.float64)))


def _scores(scorer: Scorer, rows: Float[Tensor, "n *shape"]) -> Float[Tensor, "n outputs"]:
    with scorer.session(rows, "torch", "probability") as session:
        return session.class_scores(rows).double().cpu()


def _try(spec: ModelSpec, scorer: Scorer, material: Material) -> None:
    """Score two rows, so that a model for other rows is told before any work."""
    rows = material.inputs[:2]
    try:
        _scores(scorer, rows)
    except (ValueError, TypeError, RuntimeError, LookupError, AttributeError, NotImplementedError) as error:
        reason = str(error.__cause__ or error).splitlines() or [type(error).__name__]
        columns = ", ".join(material.dataset.feature_names[:8])
        has = f"has rows of shape {tuple(rows.shape[1:])}" + (f" ({columns})" if columns else "")
        raise ModelFileError(
            f"{spec.name}: cannot score the rows of {material.dataset.name}, which {has}: {reason[0].rstrip('.')}."
        ) from error


def _check_gaps(spec: ModelSpec, material: Material, adapter: Adapter) -> None:
    columns = material.dataset.columns
    if columns is None or any(columns.categories) or bool(getattr(adapter, "takes_missing", False)):
        return
    gaps = [name for name, column in zip(columns.names, columns.values.T, strict=True) if np.isnan(column).any()]
    if gaps:
        raise ModelFileError(
            f"{spec.name}: takes no missing values, but there are some in {', '.join(gaps[:5])}; put an imputer before "
            "the model in a pipeline, or fill the gaps in the data."
        )


def _check_task(spec: ModelSpec, scorer: Scorer, dataset: Dataset) -> None:
    values = scorer.adapter.returns == "values"
    if values != (dataset.task == "regression"):
        finds, expected = ("values", "classes") if values else ("classes", "values")
        other = "classification" if dataset.task == "regression" else "regression"
        raise ModelFileError(
            f'{spec.name}: predicts {finds}, but the labels of {dataset.name} are {expected}; say task = "{other}" of '
            f'the data, or returns = "{"probabilities" if values else "values"}" of the model, whichever is wrong.'
        )


def keep_model(model: ModelSpec, dataset: Dataset, store: Store, device: str, log: Callable[[str], None]) -> None:
    """Train a model or copy its file, unless that was done; what is damaged or another model is set aside."""
    path = store.model(model.name)
    if not path.is_file():
        log(f"{model.name}: training" if model.path is None else f"{model.name}: from {model.path}")

    def progress(epoch: Any, recipe: Any) -> None:
        if epoch.number == 1 or epoch.number % 10 == 0:
            log(f"{model.name}: epoch {epoch.number} of {recipe.epochs}, loss {epoch.loss:.3f}, {epoch.words}")

    try:
        obtain_model(model, dataset, path, device, progress)
    except ModelFileError as error:
        if model.path is not None and not path.is_file():
            raise
        endings = (".checkpoint",) if isinstance(error, CheckpointError) else (".safetensors", ".json")
        files = [path.with_suffix(ending) for ending in endings]
        for line in store.set_aside([(file, str(error)) for file in files if file.exists()]):
            log(line)
        obtain_model(model, dataset, path, device, progress)


def obtain_model(
    model: ModelSpec,
    dataset: Dataset,
    path: Path,
    device: str | None = None,
    progress: Callable[[Any, Any], None] = lambda epoch, recipe: None,
) -> SavedModel:
    """The trained model of a spec, trained or copied to ``path`` when it is not there; raises for another file."""
    if path.is_file():
        kept = load(path)
        check_fits(model, dataset, kept)
        _check_source(model, dataset, kept)
        return kept
    if model.path is not None:
        trained = load(Path(model.path).expanduser())
        check_fits(model, dataset, trained)
        keep = {name: trained.info[name] for name in ("hyperparameters", "metrics", "seed")}
        save(path, trained.module, trained.architecture, dataset=dataset, name=model.name, **keep)
        return load(path)
    assert model.architecture is not None  # noqa: S101  # the spec has one or the other
    training = importlib.import_module(TRAINING)
    settings = {"recipe": model.recipe, "seed": model.seed, "device": device}
    training.train_shipped(model.architecture, dataset, path, progress=progress, **settings)
    return load(path)


def untrained(model: ModelSpec, dataset: Dataset) -> SavedModel:
    if model.path is not None:
        return load(Path(model.path).expanduser())
    assert model.architecture is not None  # noqa: S101  # the spec has one or the other
    architecture = importlib.import_module(TRAINING).architecture_for(model.architecture, dataset)
    names = dataset.class_names, dataset.feature_names
    return SavedModel(architecture.build(model.seed).eval(), architecture, dataset.standardisation, *names, info={})


def _check_source(model: ModelSpec, dataset: Dataset, kept: SavedModel) -> None:
    if kept.info.get("name", model.name) != model.name:  # only copies of files say it
        raise ModelFileError(f"{model.name}: the model kept here is {kept.info['name']}, under another's name.")
    if model.path is None:
        recipe, fingerprint = kept.info["hyperparameters"].get("recipe"), kept.info["data"]["fingerprint"]
        made = (NAMES[type(kept.architecture).__name__], recipe, kept.info["seed"], fingerprint)
        same = made == (model.architecture, model.recipe, model.seed, dataset.fingerprint)
    else:
        try:
            same = load(Path(model.path).expanduser()).info["weights"] == kept.info["weights"]
        except (FileNotFoundError, ModelFileError):  # gone or damaged: the copy is what there is
            same = True
    if not same:
        raise ModelFileError(f"{model.name}: the model kept here is not the one that the spec asks for.")


def check_fits(model: ModelSpec, dataset: Dataset, saved: SavedModel) -> None:
    """Raise for a model that learnt other inputs than those it would be explained on."""
    shape = tuple(dataset.inputs.shape[1:])
    learnt = saved.standardisation
    if learnt is None:
        raise ModelFileError(f"{model.name}: was saved without its data, so it is not known how to standardise inputs.")
    same = learnt.mean.shape == dataset.standardisation.mean.shape and all(
        torch.equal(getattr(learnt, part), getattr(dataset.standardisation, part)) for part in ("mean", "std")
    )
    if not same:
        raise ModelFileError(
            f"{model.name}: was trained on data standardised in another way than {dataset.name} with split seed "
            f"{dataset.split.seed}; train it on this split, or give the seed of its split."
        )
    expected = getattr(saved.architecture, "shape", shape)
    if expected != shape:
        raise ModelFileError(f"{model.name}: expects inputs of shape {expected}, {dataset.name} has {shape}.")
    if saved.info.get("data") is not None and saved.task != dataset.task:
        raise ModelFileError(f"{model.name}: was trained for {saved.task}, the labels are for {dataset.task}.")

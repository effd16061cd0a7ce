"""A study that nobody ran: tables and examples with the shape of the paper's results, made from a seed."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from paper.synthetic import METRICS
from verax.attribution.base import Attribution
from verax.attribution.grid import grid
from verax.auditing import Audit, Finding, LeftOut, trials
from verax.auditing.trials.damage import WORSE
from verax.study.tables import (
    BEST_BY,
    COSTS_SCHEMA,
    DISTANCE_SCHEMA,
    LIMITS_SCHEMA,
    UNCERTAINTY_SCHEMA,
    Example,
    ModelInfo,
    Tables,
    Trust,
    empty,
    scores_schema,
)

# name, dataset, modality, architecture, AUROC, accuracy, features, size of PC, of DPC, of Infidelity
MODELS = {
    "HELOC-Linear": ("heloc", "tabular", "linear", 0.7976, 0.7221, 20, 0.13, 0.05, 2e-4),
    "HELOC-MLP": ("heloc", "tabular", "mlp", 0.7962, 0.7262, 20, 0.11, 0.04, 1.5e-4),
    "ISIC-Linear": ("isic", "image", "linear", 0.6539, 0.7661, 50176, 0.3, 0.02, 6.5e-5),
    "ISIC-Inception": ("isic", "image", "inception", 0.8776, 0.8613, 50176, 0.12, 0.08, 6.4e-4),
}
SETTINGS = {"steps": 20, "samples": 1280, "sigma": 0.2, "normalize": True, "seed": 0, "baseline": "mean"}
PROVENANCE = {
    "verax": "0.1.0",
    "torch": "2.9.0",
    "command": "verax study run paper-heloc --out results --device cpu",
    "data heloc (sha256)": "9f2c" * 16,
    "seed": "0",
}
FEATURES = (
    "ExternalRiskEstimate",
    "MSinceOldestTradeOpen",
    "AverageMInFile",
    "NumSatisfactoryTrades",
    "NumTrades60Ever2DerogPubRec",
    "NumTrades90Ever2DerogPubRec",
    "PercentTradesNeverDelq",
    "MaxDelq2PublicRecLast12M",
    "MaxDelqEver",
    "NumTotalTrades",
    "NumTradesOpeninLast12M",
    "PercentInstallTrades",
    "MSinceMostRecentInqexcl7days",
    "NumInqLast6M",
    "NumInqLast6Mexcl7days",
    "NetFractionRevolvingBurden",
    "NumRevolvingTradesWBalance",
    "NumInstallTradesWBalance",
    "NumBank2NatlTradesWHighUtilization",
    "PercentTradesWBalance",
)
# how good a method is under PC and DPC, and its share of the worst Infidelity
QUALITY = {
    "Gradient": (0.05, 0.95, 0.15),
    "GuidedBackprop": (0.08, 0.7, 0.3),
    "SmoothGrad": (0.1, 0.9, 0.2),
    "VarGrad": (0.0, 0.15, 0.8),
    "IntegratedGradients": (0.2, 0.75, 0.35),
    "DeepLiftSHAP": (0.15, 0.7, 0.4),
    "LimeTabular": (0.1, 0.6, 0.4),
    "LimeImage": (0.25, 0.5, 0.5),
    "Edges": (0.02, 0.05, 0.95),
    "Random": (0.0, 0.0, 1.0),
}


def study(names: Sequence[str] = tuple(MODELS), inputs: int = 12, every: int = 7, uncertain: bool = True) -> Tables:
    """A study of these models, with every so-manieth configuration of LIME."""
    scores = pl.concat([_scores(name, inputs, every) for name in names])
    uncertainty = pl.concat([_uncertainty(name) for name in names]) if uncertain else empty(UNCERTAINTY_SCHEMA)
    models = tuple(_info(name, inputs) for name in names)
    return Tables(scores, uncertainty, models, SETTINGS, pl.concat([_costs(name, inputs) for name in names]), METRICS)


def trusted(tables: Tables) -> Trust:
    """Answers for every model, limits and an audit for the first one alone."""
    first, *others = tables.models
    configuration = str(tables.scores["configuration"][0])
    far = {"metric": "pc", "replacement": "Baseline", "configuration": configuration, "inputs": 16}
    near = dict.fromkeys(("metric", "replacement", "configuration"), "") | {"inputs": 16}
    distance = [
        {"model": model.name, "space": space, "ratio": 1.25, "beyond": 0.125, "low": 0.1, "high": 0.15, **what}
        for model in tables.models
        for space in ("inputs", "features")
        for what in (near, far)
    ]
    limit = {"model": first.name, "metric": "dpc_signed", "configuration": configuration, "inputs": 14}
    limit |= {"score": 0.12, "possible": 0.2, "share": 0.6, "low": 0.55, "high": 0.65}
    limit |= {"exact": False, "found_by": "a search 1 wide, then in 20 steps"}
    told = [
        Finding(
            *(column, "Baseline", "your model", "tells_apart", f"{BEST_BY}dpc_signed", worse),
            *(needed, needed, needed, needed <= 16, "local", None, 16, 0.0, ""),
        )
        for column, needed in (("dpc_signed", 9.0), ("infidelity", 40.0))
        for worse in WORSE
    ]
    left_out = (LeftOut("pc", "your model", "a reason"),)
    audit = Audit(told, left_out, (trials.TellsApart(),), 16, 1234, 0.5, 0.95, {})
    absent = {model.name: ("limits: not asked of images.",) for model in others}
    tables_of = (
        pl.DataFrame(distance, schema=dict(DISTANCE_SCHEMA)),
        pl.DataFrame([limit], schema=dict(LIMITS_SCHEMA)),
    )
    return Trust(16, *tables_of, {first.name: audit}, absent)


def without(tables: Tables, columns: Sequence[str]) -> Tables:
    """The same study with these columns of the scores left out, that is null."""
    types = tables.scores.schema
    scores = tables.scores.with_columns(pl.lit(None, dtype=types[name]).alias(name) for name in columns)
    return replace(tables, scores=scores)


def renamed(tables: Tables, change: Callable[[str], str]) -> Tables:
    """The same study with models of other names."""
    new = {model.name: change(model.name) for model in tables.models}
    frames = [
        frame.with_columns(pl.col("model").cast(pl.String).replace(new))
        for frame in (tables.scores, tables.uncertainty, tables.costs)
    ]
    models = tuple(replace(model, name=new[model.name]) for model in tables.models)
    return replace(tables, scores=frames[0], uncertainty=frames[1], models=models, costs=frames[2])


def configurations(modality: str, every: int = 7) -> list[Attribution]:
    """The paper's grid, thinned out where it is LIME's."""
    whole = grid("tabular") if modality == "tabular" else grid("image")
    return [one for at, one in enumerate(whole) if not type(one).__name__.startswith("Lime") or at % every == 0]


def _rng(*key: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def _info(name: str, inputs: int) -> ModelInfo:
    dataset, modality, architecture, auroc, accuracy, features, *_ = MODELS[name]
    metrics = {"test": {"auroc": auroc, "accuracy": accuracy}, "validation": {"auroc": auroc + 0.01}}
    return ModelInfo(name, dataset, modality, architecture, metrics, inputs, features)


def _is_local(one: Attribution) -> bool:
    return not getattr(one, "multiply_by_inputs", False)


def _means(name: str, one: Attribution) -> Mapping[str, float]:
    """What a configuration gets on average: PC, DPC, Infidelity, and the norm of its attribution."""
    *_, pc_size, dpc_size, inf_size = MODELS[name]
    method, draw = type(one).__name__, _rng(name, repr(one))
    pc, dpc, infidelity = QUALITY[method]
    linear = name.endswith("Linear")
    if not _is_local(one):
        pc, dpc, infidelity = 0.9, 0.25 if linear else 0.4, 0.85
    norm = 1.0
    if method.startswith("Lime"):
        strength = one.alpha * (3 if one.kernel_width < 0.4 else 0.5)  # type: ignore[attr-defined]
        weak = 1 / (1 + strength * 4)
        norm = 1e-4 if strength > 1.2 else weak
        dpc, infidelity = dpc * weak, 1 - (1 - infidelity) * weak
        if getattr(one, "replacement", None) == "dataset":
            dpc, infidelity = dpc * 0.6, infidelity * 0.7
    if linear and method in ("Gradient", "GuidedBackprop"):
        infidelity = 0.01
    spread = draw.normal(size=3)
    tiny = norm < 1e-3
    return {
        "pc": 0.0 if tiny else pc_size * (pc + 0.06 * spread[0]),
        "dpc_signed": 0.0 if tiny else dpc_size * (dpc + 0.12 * spread[1]),
        "infidelity": inf_size * (1.02 if tiny else float(np.clip(infidelity + 0.05 * spread[2], 0.004, 1.0))),
        "norm": norm,
    }


def _scores(name: str, inputs: int, every: int) -> pl.DataFrame:
    dataset, modality, *_ = MODELS[name]
    return pl.concat(
        [_of_configuration(name, dataset, modality, one, inputs) for one in configurations(modality, every)]
    )


def _of_configuration(name: str, dataset: str, modality: str, one: Attribution, inputs: int) -> pl.DataFrame:
    mean, draw = _means(name, one), _rng(name, repr(one), "inputs")
    factor = 1 + 0.5 * draw.normal(size=(4, inputs))
    method, at = type(one).__name__, np.arange(inputs)
    cost = 3073 / 729 if method.startswith("Lime") else 64.0
    columns: dict[str, Any] = {
        "dataset": [dataset] * inputs,
        "model": [name] * inputs,
        "modality": [modality] * inputs,
        "input": at,
        "input_id": [f"{dataset}-{i}" for i in at],
        "target": at % 2,
        "method": [method] * inputs,
        "configuration": [repr(one)] * inputs,
        "local": [_is_local(one)] * inputs,
        "pc": mean["pc"] * factor[0],
        "dpc_signed": mean["dpc_signed"] * factor[1],
        "dpc_magnitude": mean["dpc_signed"] * 1.6 * factor[1],
        "dpc_literal": mean["dpc_signed"] * 0.1 * factor[2],
        "infidelity_plain": np.abs(mean["infidelity"] * 3 * factor[3]),
        "infidelity": np.abs(mean["infidelity"] * factor[3]),
        "infidelity_baseline": np.abs(mean["infidelity"] * 40 * factor[2]),
        "attribution_norm": np.full(inputs, mean["norm"]),
        "attribution_rows": np.full(inputs, cost),
        "attribution_rows_backward": np.full(inputs, 0.0 if method.startswith("Lime") else cost),
        "attribution_seconds": np.full(inputs, cost * 2e-5),
        "guided_rows": np.full(inputs, 55.0),
        "guided_seconds": np.full(inputs, 1e-3),
        "sampled_rows": np.full(inputs, 1281 / 775),
        "sampled_seconds": np.full(inputs, 1e-4),
    }
    columns["infidelity_plain_se"] = columns["infidelity_plain"] * 0.06
    columns["infidelity_se"] = columns["infidelity"] * 0.06
    columns["infidelity_baseline_se"] = columns["infidelity_baseline"] * 0.06
    schema = scores_schema(METRICS)
    return pl.DataFrame({key: columns[key] for key in schema}, schema=dict(schema))


def _uncertainty(name: str) -> pl.DataFrame:
    dataset, modality, *_ = MODELS[name]
    rows = []
    for one, draws in product(configurations(modality, 200), (20, 40, 80, 160, 320, 640)):
        value = _means(name, one)["infidelity"]
        exact = value * 0.9 / np.sqrt(draws)
        rows.append({
            "dataset": dataset, "model": name, "method": type(one).__name__, "configuration": repr(one), "draws": draws,
            "inputs": 64, "value": value * (1 + 0.05 * _rng(repr(one), draws).normal() * np.sqrt(20 / draws)),
            "resampled_sd": exact * np.sqrt(1 - draws / 640), "analytic_se": exact,
            "independent_sd": exact * 1.05 if draws == 640 else None,
            "per_input_resampled": exact * 8 * np.sqrt(1 - draws / 640), "per_input_analytic": exact * 8,
        })  # fmt: skip
    return pl.DataFrame(rows, schema=dict(UNCERTAINTY_SCHEMA))


def _costs(name: str, inputs: int) -> pl.DataFrame:
    dataset = MODELS[name][0]
    units = [("attribution LimeTabular", 729, 3073, 0, 729 * 448, 0), ("attribution Gradient", 1, 1, 1, 1, 1)]
    units += [("guided", 775, 42625, 0, 775 * 80, 0), ("infidelity", 775, 1281, 0, 775 * 1281, 0)]
    rows = [
        {"dataset": dataset, "model": name, "unit": unit, "inputs": inputs, "configurations": count,
         "seconds": forward * inputs * 2e-5 + 0.5, "model_seconds": forward * inputs * 1.4e-5,
         "rows_forward": float(forward * inputs), "rows_backward": float(backward * inputs),
         "rows_forward_unshared": float(single * inputs), "rows_backward_unshared": float(back * inputs),
         "device": "cpu"}
        for unit, count, forward, backward, single, back in units
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=dict(COSTS_SCHEMA))


def examples(tables: Tables, count: int = 3, size: int = 64) -> list[Example]:
    """A few explained inputs of every model: the best and the worst configuration of each method."""
    return [_example(model, count, size) for model in tables.models if model.name in MODELS]


def _example(model: ModelInfo, count: int, size: int) -> Example:
    draw = _rng(model.name, "example")
    image = model.modality == "image"
    members: dict[str, list[str]] = {}
    for one in configurations(model.modality):
        members.setdefault(type(one).__name__, []).append(repr(one))
    roles = {"best": 0, "worst": -1}
    chosen = [(method, role, forms[at]) for method, forms in members.items() for role, at in roles.items()]
    inputs = _images(draw, count, size) if image else draw.uniform(0, 100, (count, len(FEATURES))).round()
    signal = inputs.mean(1, keepdims=True) - 0.5 if image else draw.normal(size=(count, len(FEATURES)))
    noise = np.array([0.3 if role == "best" else 2.5 for _, role, _ in chosen])
    scale = noise.reshape(-1, *(1,) * inputs.ndim)
    attributions = signal + scale * draw.normal(size=(len(chosen), *inputs.shape)) * np.std(signal)
    curves = _curves(draw, len(chosen), count)
    areas = (curves[1] - curves[0]).mean(-1), (curves[3] - curves[2]).mean(-1)
    return Example(
        model.name, model.dataset, model.modality, ("Good", "Bad"), () if image else FEATURES, inputs,
        tuple(f"{model.dataset}-{i}" for i in range(count)), np.arange(count) % 2, 0.5 + 0.49 * draw.random(count),
        tuple(form for *_, form in chosen), tuple(method for method, *_ in chosen),
        tuple(role for _, role, _ in chosen),
        attributions, *curves, areas[1], areas[0],
    )  # fmt: skip


def _curves(draw: np.random.Generator, members: int, count: int) -> list[np.ndarray]:
    at = np.linspace(0, 1, 21)
    start = draw.uniform(0.6, 0.95, (1, count, 1))
    bend = draw.uniform(1.5, 5, (4, members, count, 1))
    fall = (start - 0.4) * (1 - (1 - at) ** bend)
    slow = (start - 0.4) * at**bend
    return [start - fall[0], start - slow[1], start - 0.5 * fall[2], start - 0.5 * slow[3]]


def _images(draw: np.random.Generator, count: int, size: int) -> np.ndarray:
    """Dark spots on skin."""
    y, x = np.mgrid[0:size, 0:size] / size - 0.5
    images = np.empty((count, 3, size, size))
    for at in range(count):
        dx, dy, width = draw.uniform(-0.1, 0.1), draw.uniform(-0.1, 0.1), draw.uniform(0.15, 0.3)
        angle = np.arctan2(y - dy, x - dx)
        edge = width * (1 + 0.15 * np.sin(3 * angle + at) + 0.08 * np.sin(7 * angle))
        spot = 1 / (1 + np.exp((np.hypot(x - dx, y - dy) - edge) * 60))
        skin, dark = np.array([0.85, 0.68, 0.58]), np.array([0.35, 0.2, 0.15])
        images[at] = (skin[:, None, None] * (1 - spot) + dark[:, None, None] * spot) + 0.02 * draw.normal(
            size=(size, size)
        )
    return images.clip(0, 1)

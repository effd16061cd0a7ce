"""Small studies whose answers are known: every configuration has true means, inputs add noise around them."""

import zlib
from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl

from verax.attribution import grid
from verax.paper.claim_rules_costs import BOTH_INFIDELITIES, Runtime
from verax.paper.published import PAPER_INFIDELITY
from verax.study.summary import settings_of
from verax.study.tables import (
    COST_COLUMNS,
    COSTS_SCHEMA,
    UNCERTAINTY_SCHEMA,
    MetricInfo,
    ModelInfo,
    Tables,
    scores_schema,
)

HELOC_LINEAR = ModelInfo(
    "HELOC-Linear", "heloc", "tabular", "linear", {"test": {"auroc": 0.8, "accuracy": 0.73}}, 0, 20
)
HELOC_MLP = ModelInfo("HELOC-MLP", "heloc", "tabular", "mlp", {"test": {"auroc": 0.8, "accuracy": 0.73}}, 0, 20)
ISIC_LINEAR = ModelInfo("ISIC-Linear", "isic", "image", "linear", {"test": {"auroc": 0.825, "accuracy": 0.7}}, 0, 50176)
ISIC_INCEPTION = ModelInfo(
    "ISIC-Inception", "isic", "image", "inception", {"test": {"auroc": 0.87, "accuracy": 0.85}}, 0, 50176
)
METRICS = (
    MetricInfo("pc", "PC", higher_is_better=True, kind="baseline", noisy=False),
    MetricInfo("dpc_signed", "DPC", higher_is_better=True, kind="local", noisy=False),
    MetricInfo("dpc_magnitude", "DPC, signed order", higher_is_better=True, kind="local", noisy=False),
    MetricInfo("dpc_literal", "DPC, literal", higher_is_better=True, kind="local", noisy=False),
    MetricInfo(PAPER_INFIDELITY, "Infidelity, plain", higher_is_better=False, kind="local", noisy=True),
    MetricInfo("infidelity", "Infidelity, normalised", higher_is_better=False, kind="local", noisy=True),
    MetricInfo("infidelity_baseline", "Infidelity, baseline-oriented", False, "baseline", noisy=True),
)
COLUMNS = tuple(metric.column for metric in METRICS)
PAPER_MODELS = (HELOC_LINEAR, HELOC_MLP, ISIC_LINEAR, ISIC_INCEPTION)


@cache
def explained(modality, every=7):
    """The paper's grid with every 7th configuration of LIME, which visits all values of all settings."""
    members = grid(modality)
    lime = [member for member in members if type(member).__name__.startswith("Lime")]
    dropped = set(lime) - set(lime[::every])
    return [member for member in members if member not in dropped]


@cache
def read(configuration):
    """Its settings, and a number that tells it from others, the same in every process."""
    return settings_of(configuration), zlib.crc32(configuration.encode()) / 2**32


def truth(member, model):
    """Means as the paper has them: (pc, dpc, infidelity, norm)."""
    name, (given, jitter) = type(member).__name__, read(member.canonical)
    pc, dpc = {
        "Gradient": (0.01, 0.12),
        "GuidedBackprop": (0.01, 0.12 if model.architecture == "linear" else 0.09),
        "SmoothGrad": (0.01, 0.12 if model.architecture == "linear" else 0.10),
        "VarGrad": (0.01, 0.03),
        "Random": (0.0, 0.0),
        "Edges": (0.005, 0.01),
    }.get(name, (0.0, 0.0))
    if name in ("IntegratedGradients", "DeepLiftSHAP"):
        multiplied = 0.02 if name == "IntegratedGradients" else -0.02
        local = 0.11 if model.modality == "tabular" else multiplied + 0.0015  # a weaker effect on images
        pc = 0.02 if member.local else 0.3 + 0.02 * (given.get("baseline") == "mean")
        dpc = local if member.local else multiplied
    if name.startswith("Lime"):
        return _lime_truth(given, jitter)
    return pc, dpc + 1e-3 * jitter * (name not in ("Gradient", "SmoothGrad", "GuidedBackprop")), 1e-3 - 1e-4 * dpc, 1.0


def _lime_truth(given, jitter):
    if given["alpha"] >= (1.0 if "replacement" in given else 0.55):
        return 0.0, 0.0, 1.2e-3, 1e-4  # regularised to nothing
    dpc = 0.02 + 0.05 * jitter
    infidelity = 1e-3 - 1e-4 * dpc
    if given.get("replacement") == "image":
        dpc += 0.03
    elif given.get("replacement") == "dataset":
        infidelity -= 5e-5
    return 0.03, dpc, infidelity, 1.0


def scores_of(model, members, inputs, truth=truth, noise=1e-3, seed=0):
    """One row per configuration and input."""
    rng = np.random.default_rng([seed, zlib.crc32(model.name.encode())])
    means = np.array([truth(member, model) for member in members])
    count = len(members)
    values = (
        means[:, :, None] + rng.normal(size=(count, 4, inputs)) * np.array([noise, noise, noise * 1e-3, 0])[:, None]
    )
    repeated = np.repeat(np.arange(count), inputs)
    frame = pl.DataFrame(
        {
            "method": [type(member).__name__ for member in members],
            "configuration": [member.canonical for member in members],
            "local": [member.local for member in members],
        }
    )[repeated]
    pc, dpc, infidelity, norm = values.transpose(1, 0, 2).reshape(4, -1)
    number = np.tile(np.arange(inputs), count)
    frame = frame.with_columns(
        *(pl.lit(text).alias(name) for name, text in _names(model).items()),
        pl.Series("input", number),
        pl.Series("input_id", number).cast(pl.String),
        pl.lit(1).alias("target"),
        pl.Series("pc", pc),
        *(pl.Series(name, dpc) for name in ("dpc_signed", "dpc_magnitude", "dpc_literal")),
        *(pl.Series(metric.column, infidelity) for metric in METRICS if metric.noisy),
        *(pl.lit(1e-5).alias(f"{metric.column}_se") for metric in METRICS if metric.noisy),
        pl.Series("attribution_norm", np.maximum(norm, 0)),
        *(pl.lit(1.0).alias(name) for name in COST_COLUMNS),
    )
    return frame.select(pl.col(name).cast(kind) for name, kind in scores_schema(METRICS).items())


def uncertainty_of(model, members, deviation=3e-4):
    """Deviations that shrink with the root of the draws."""
    rows = [
        {
            **{key: value for key, value in _names(model).items() if key != "modality"},
            "method": type(member).__name__,
            "configuration": member.canonical,
            "draws": draws,
            "inputs": 8,
            "value": truth(member, model)[2],
            **dict.fromkeys(
                ("resampled_sd", "analytic_se", "independent_sd", "per_input_resampled", "per_input_analytic"),
                deviation / draws**0.5,
            ),
        }
        for member in members
        for draws in (20, 40, 80, 160, 320, 640)
    ]
    return pl.DataFrame(rows, schema=dict(UNCERTAINTY_SCHEMA))


def study(models=PAPER_MODELS, inputs=24, truth=truth, noise=1e-3, members=None, **settings_given):
    """A study of these models in which the paper's claims hold, unless the truth is another."""
    explain = {model.name: explained(model.modality) if members is None else members(model) for model in models}
    scores = pl.concat([scores_of(model, explain[model.name], inputs, truth, noise) for model in models])
    uncertainty = pl.concat([uncertainty_of(model, explain[model.name]) for model in models])
    costs = pl.DataFrame([timing(model, "unit", 1.0) for model in models], schema=dict(COSTS_SCHEMA))
    verified = {"compared": 100, "different": [], "bitwise": True}
    given = {"steps": 20, "samples": {"heloc": 1280, "isic": 640}, "sigma": 0.2, "verified": verified, **settings_given}
    described = tuple(replace(model, inputs=inputs) for model in models)
    return Tables(scores, uncertainty, described, given, costs, METRICS)


def runtime(subject="ISIC-Inception", infidelity=9.0, dpc=1.0, both=0.8, noise=0.01, runs=20):
    """A runtime table: seconds of one attribution under each metric, and of both Infidelities, twice the first."""
    rng = np.random.default_rng(0)
    seconds = {"Infidelity": infidelity, "DPC": dpc, BOTH_INFIDELITIES: 2 * infidelity, "PC and DPC": both}
    seconds["PC and DPC, signed order"] = both / 2
    times = {case: (mean * rng.lognormal(sigma=noise, size=runs)).tolist() for case, mean in seconds.items()}
    rows = {case: 64 * many for case, many in zip(seconds, (640, 40, 1280, 78, 40), strict=True)}
    return Runtime(subject, "a device", 64, rows, times)


def without_metrics(tables, *columns):
    """The same study, had it not been asked for these metrics."""
    kept = tuple(metric for metric in tables.metrics if metric.column not in columns)
    return replace(tables, scores=tables.scores.select(list(scores_schema(kept))), metrics=kept)


def timing(model, unit, seconds):
    """A row of the costs table."""
    return {
        **{key: value for key, value in _names(model).items() if key != "modality"},
        **dict.fromkeys(("inputs", "configurations"), 1),
        **dict.fromkeys(("model_seconds", "rows_forward", "rows_forward_unshared"), 1.0),
        **dict.fromkeys(("rows_backward", "rows_backward_unshared"), 0.0),
        "unit": unit,
        "seconds": seconds,
        "device": "cpu",
    }


def _names(model):
    return {"dataset": model.dataset, "model": model.name, "modality": model.modality}

"""How far a study's numbers can be trusted: what was asked of a few inputs of each model, beside the scores."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from verax.auditing.result import Audit

BEST_BY = "the best by "  # before the metric's column: what an explanation is called in an audit
DISTANCE_SCHEMA: Mapping[str, Any] = {
    **dict.fromkeys(("model", "metric", "replacement", "configuration", "space"), pl.String()),
    **dict.fromkeys(("ratio", "beyond", "low", "high"), pl.Float64()),
    "inputs": pl.Int64(),
}
LIMITS_SCHEMA: Mapping[str, Any] = {
    **dict.fromkeys(("model", "metric", "configuration"), pl.String()),
    **dict.fromkeys(("score", "possible", "share", "low", "high"), pl.Float64()),
    "exact": pl.Boolean(),
    "found_by": pl.String(),
    "inputs": pl.Int64(),
}


@dataclass(frozen=True)
class Trust:
    """What a study asked beside its scores, on a few inputs of each model.

    Attributes:
        inputs: How many of each model were to be looked at.
        distance: How far perturbed rows lie from the training rows: one row per model, space and metric, under the
            metric's best configuration; ``metric`` is empty for the inputs as they are. Columns as in
            ``DISTANCE_SCHEMA``.
        limits: Of each model and metric whose limits are known: what its best configuration scores on these inputs,
            what the best possible attribution would, and the first as a share of the second, on a scale where 0 is
            chance. Columns as in ``LIMITS_SCHEMA``.
        audits: By model: which metrics tell its best explanations from worse ones.
        left_out: Sentences, by model: what was not asked, and why.
    """

    inputs: int
    distance: pl.DataFrame
    limits: pl.DataFrame
    audits: Mapping[str, Audit]
    left_out: Mapping[str, tuple[str, ...]]

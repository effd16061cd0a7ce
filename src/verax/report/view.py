"""What the pages and figures show, analysed once: this is the only module of the report that calls the analysis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from verax.analysis import canonical
from verax.analysis.agreement import Agreement, agreement
from verax.analysis.claims import Claim, claims
from verax.analysis.outliers import near_zero
from verax.analysis.pareto import pareto
from verax.analysis.summary import configurations, methods
from verax.analysis.tables import LIME_METHODS, METRICS, Example, Tables
from verax.analysis.uncertainty import curves
from verax.report.names import in_order, kind_of, label_of, method_name

_GOLDEN = 0.6180339887  # multiples of it, modulo 1, spread evenly whatever their number
_KEYS = ["model", "configuration"]


@dataclass(frozen=True)
class View:
    """A study with what the analysis says about it, each part computed when it is first asked for."""

    tables: Tables
    examples: Sequence[Example]

    @property
    def models(self) -> list[str]:
        """Names of the models, in the study's order."""
        return [model.name for model in self.tables.models]

    @cached_property
    def summary(self) -> pl.DataFrame:
        """One row per model and configuration, as the analysis gives it, with names as plain strings."""
        return configurations(self.tables.scores)

    def measured(self, metric: str, model: str | None = None) -> bool:
        """Whether the study has any value of this metric (for this model)."""
        rows = self.summary if model is None else self.summary.filter(pl.col("model") == model)
        return rows[metric].count() > 0

    def missing(self) -> list[str]:
        """Metrics that the study left out."""
        return [metric for metric in METRICS if not self.measured(metric)]

    def boxes(self, metric: str) -> pl.DataFrame:
        """Per model, method and variant the spread over configurations, in reading order."""
        found = methods(self.summary, metric, by=("model", "method", "local"))
        order = {variant: at for at, variant in enumerate(in_order(found.select("method", "local").iter_rows()))}
        places = [
            (self.models.index(model), order[method, local])
            for model, method, local in found.select("model", "method", "local").iter_rows()
        ]
        return found[sorted(range(found.height), key=places.__getitem__)]

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The summary with what charts need: label, kind, jitter, twin, and where a LIME configuration stands."""
        variant = pl.struct("method", "local")
        at = pl.int_range(pl.len())
        frame = self.summary.with_columns(
            variant.map_elements(lambda v: label_of(**v), return_dtype=pl.String).alias("label"),
            variant.map_elements(lambda v: kind_of(**v), return_dtype=pl.String).alias("kind"),
            pl.col("method").map_elements(method_name, return_dtype=pl.String).alias("name"),
            pl.col("method").is_in(LIME_METHODS).alias("lime"),
            ((at * _GOLDEN) % 1).round(3).alias("jitter"),
            pl.col("configuration").map_elements(_pair, return_dtype=pl.String).alias("pair"),
        )
        frame = self._marked(frame, self.pareto_set, "pareto")
        return self._marked(frame, self.near_zero, "near_zero")

    @staticmethod
    def _marked(frame: pl.DataFrame, found: pl.DataFrame, name: str) -> pl.DataFrame:
        marks = found.select(*_KEYS, pl.lit(True).alias(name))
        return frame.join(marks, on=_KEYS, how="left", maintain_order="left").with_columns(
            pl.col(name).fill_null(False)
        )

    @property
    def labels(self) -> list[str]:
        """Methods with their variants, in reading order."""
        variants = self.summary.select("method", "local").unique().iter_rows()
        return list(dict.fromkeys(label_of(*variant) for variant in in_order(variants)))

    @property
    def method_names(self) -> list[str]:
        """Methods without variants, in reading order."""
        variants = self.summary.select("method").unique().iter_rows()
        return list(dict.fromkeys(method_name(method) for method, _ in in_order((m, True) for (m,) in variants)))

    @cached_property
    def lime(self) -> pl.DataFrame:
        """LIME's configurations that have both DPC and Infidelity."""
        both = (pl.col("dpc_magnitude").is_not_null(), pl.col("infidelity").is_not_null())
        return self.summary.filter(pl.col("method").is_in(LIME_METHODS), *both)

    @cached_property
    def pareto_set(self) -> pl.DataFrame:
        """Configurations of LIME that no other of the same model beats in DPC and Infidelity."""
        return pareto(self.lime, maximise="dpc_magnitude", minimise="infidelity").select(_KEYS)

    @cached_property
    def near_zero(self) -> pl.DataFrame:
        """Configurations of LIME whose attributions are next to nothing."""
        return near_zero(self.lime).select(_KEYS)

    @cached_property
    def agreements(self) -> Mapping[tuple[str, bool], Agreement]:
        """Agreement of DPC with Infidelity by model, over LIME alone (True) and over the other methods (False)."""
        return {
            (model, lime): agreement(self.tables.scores, model, x="dpc_magnitude", y="infidelity", lime=lime)
            for model in self.models
            for lime in (True, False)
            if self._comparable(model, lime)
        }

    def _comparable(self, model: str, lime: bool) -> bool:
        own = self.summary.filter(pl.col("model") == model, pl.col("method").is_in(LIME_METHODS) == lime)
        return own.filter(pl.col("dpc_magnitude").is_not_null(), pl.col("infidelity").is_not_null()).height > 2

    @cached_property
    def uncertainty(self) -> pl.DataFrame:
        """Infidelity against draws per model and method; no rows where the study has none."""
        found = curves(self.tables.uncertainty)
        return found.with_columns(pl.col("method").map_elements(method_name, return_dtype=pl.String).alias("name"))

    @cached_property
    def claims(self) -> list[Claim]:
        """The paper's claims that concern the study's models, with what the study says to each."""
        return claims(self.tables, missing=False)

    @cached_property
    def settings(self) -> pl.DataFrame:
        """LIME's settings that vary, one column each, beside model and configuration."""
        grid = self.summary.filter(pl.col("method").is_in(LIME_METHODS)).select(_KEYS)
        found = [canonical.settings(form) for form in grid["configuration"]]
        names = dict.fromkeys(name for one in found for name in one)
        columns = {name: [one.get(name) for one in found] for name in names}
        varied = {name: values for name, values in columns.items() if len({v for v in values if v is not None}) > 1}
        return grid.with_columns(pl.Series(name, values, dtype=pl.Object) for name, values in varied.items())


def _pair(configuration: str) -> str:
    """The same word for a configuration and its twin."""
    return min(configuration, canonical.twin(configuration) or configuration)

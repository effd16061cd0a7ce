"""What the pages and figures show, analysed once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pkgutil import resolve_name
from typing import Any

import polars as pl

from verax.attribution.names import in_order, kind_of, label_of, label_of_method, labels_in_order, lime_methods
from verax.study.ranking import Agreement, Winner, agreement, near_zero, pareto, winner
from verax.study.summary import configurations, curves, methods, settings_of, with_other_input_factor
from verax.study.tables import (
    LEADING_DPC,
    LEADING_INFIDELITY,
    LEADING_PC,
    NORMALISED_INFIDELITY,
    Example,
    MetricInfo,
    Tables,
)

_PAPER = "verax.paper.answered:answer_report"  # above the report, so that it is imported by name
_GOLDEN = 0.6180339887  # multiples of it, modulo 1, spread evenly whatever their number
_KEYS = ["model", "configuration"]


@dataclass(frozen=True)
class View:
    """A study with what the analysis says about it, each part computed when it is first asked for."""

    tables: Tables
    examples: Sequence[Example]

    @property
    def models(self) -> list[str]:
        return [model.name for model in self.tables.models]

    @cached_property
    def _configurations(self) -> pl.DataFrame:
        return configurations(self.tables.scores, self.tables.metrics)

    @cached_property
    def pair(self) -> tuple[str, str]:
        """DPC and Infidelity, which are drawn against each other: the paper's, or the normalised one without it."""
        configurations = self._configurations
        plain = LEADING_INFIDELITY in configurations.columns and configurations[LEADING_INFIDELITY].count()
        return LEADING_DPC, LEADING_INFIDELITY if plain else NORMALISED_INFIDELITY

    @cached_property
    def summary(self) -> pl.DataFrame:
        configurations = self._configurations
        absent = [name for name in (*self.pair, f"{self.pair[1]}_mc_error") if name not in configurations.columns]
        return configurations.with_columns(pl.lit(None, pl.Float64).alias(name) for name in absent)

    @cached_property
    def measured(self) -> tuple[MetricInfo, ...]:
        return tuple(metric for metric in self.tables.metrics if self.summary[metric.column].count())

    def leading(self, *columns: str) -> list[MetricInfo]:
        leading = [metric for name in columns for metric in self.measured if metric.column == name]
        return leading or list(self.measured[: len(columns)])

    @property
    def main(self) -> list[MetricInfo]:
        return self.leading(LEADING_PC, LEADING_DPC)

    def boxes(self, metric: MetricInfo) -> pl.DataFrame:
        boxes = methods(self.summary, metric, by=("model", "method", "local"))
        order = in_order(boxes.select("method", "local").iter_rows())
        keys = boxes.select("model", "method", "local").iter_rows()
        places = [(self.models.index(model), order.index((method, local))) for model, method, local in keys]
        return boxes[sorted(range(boxes.height), key=places.__getitem__)]

    def winner(self, model: str, metric: MetricInfo) -> Winner | None:
        return winner(self.tables, model, metric)

    @cached_property
    def _labels(self) -> dict[str, str]:
        return dict(self.rows.select("configuration", "label").iter_rows())

    def label(self, configuration: str) -> str:
        return self._labels[configuration]

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The summary with what charts need: label, kind, jitter, pair, and where a LIME configuration stands."""
        variant = pl.struct("method", "local")
        at = pl.int_range(pl.len())
        frame = self.summary.with_columns(
            variant.map_elements(lambda v: label_of(**v), return_dtype=pl.String).alias("label"),
            variant.map_elements(lambda v: kind_of(**v), return_dtype=pl.String).alias("kind"),
            pl.col("method").map_elements(label_of_method, return_dtype=pl.String).alias("name"),
            pl.col("method").is_in(lime_methods()).alias("lime"),
            ((at * _GOLDEN) % 1).round(3).alias("jitter"),
            pl.col("configuration").map_elements(_pair, return_dtype=pl.String).alias("pair"),
        )
        for name, marked in (("pareto", self.pareto_set), ("near_zero", self.near_zero)):
            marks = marked.with_columns(pl.lit(True).alias(name))
            frame = frame.join(marks, on=_KEYS, how="left", maintain_order="left")
        return frame.with_columns(pl.col("pareto", "near_zero").fill_null(False))

    @property
    def labels(self) -> list[str]:
        variants = self.summary.select("method", "local").unique().iter_rows()
        return list(dict.fromkeys(label_of(*variant) for variant in in_order(variants)))

    @property
    def method_names(self) -> list[str]:
        return labels_in_order(self.summary["method"].unique())

    @cached_property
    def lime(self) -> pl.DataFrame:
        return self.summary.filter(pl.col("method").is_in(lime_methods())).drop_nulls(self.pair)

    @cached_property
    def pareto_set(self) -> pl.DataFrame:
        """Configurations of LIME that no other of the same model beats in DPC and Infidelity."""
        return pareto(self.lime, *self.pair).select(_KEYS)

    @cached_property
    def near_zero(self) -> pl.DataFrame:
        return near_zero(self.lime).select(_KEYS)

    @cached_property
    def agreements(self) -> Mapping[tuple[str, bool], Agreement]:
        """Agreement of DPC with Infidelity by model, over LIME alone (True) and over the other methods (False)."""
        return {
            (model, lime): agreement(*(self.tables.matrix(model, metric) for metric in self.pair), lime=lime)
            for model in self.models
            for lime in (True, False)
            if self.comparable(model, lime).height > 2
        }

    def comparable(self, model: str, lime: bool) -> pl.DataFrame:
        """Configurations of LIME, or of the other methods, that have both DPC and Infidelity."""
        return self.rows.filter(pl.col("model") == model, pl.col("lime") == lime).drop_nulls(self.pair)

    @cached_property
    def uncertainty(self) -> pl.DataFrame:
        lines = curves(self.tables.uncertainty)
        return lines.with_columns(pl.col("method").map_elements(label_of_method, return_dtype=pl.String).alias("name"))

    @cached_property
    def paper(self) -> Any:
        """The paper's claims, answered by the study; None where it has no model of the paper."""
        return resolve_name(_PAPER)(self.tables)

    @cached_property
    def settings(self) -> dict[str, list[Any]]:
        """LIME's settings that vary, by name: the values in the order of the rows, None for other methods."""
        rows = self.rows.select("configuration", "lime").iter_rows()
        listed = [settings_of(form) if lime else {} for form, lime in rows]
        names = dict.fromkeys(name for settings in listed for name in settings)
        columns = {name: [settings.get(name) for settings in listed] for name in names}
        return {name: values for name, values in columns.items() if len(set(values) - {None}) > 1}


def present(names: Iterable[str], column: pl.Series) -> list[str]:
    """Those of some names that a column holds."""
    held = set(column)
    return [name for name in names if name in held]


def _pair(configuration: str) -> str:
    return min(configuration, with_other_input_factor(configuration) or configuration)

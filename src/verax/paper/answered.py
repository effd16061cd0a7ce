"""The paper's claims, answered over one study or over several together."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl

from verax.core.files import table_bytes, write_atomically
from verax.paper.claim_rules_costs import read_runtime
from verax.paper.claims import ALL_MODELS, SYMBOLS, Claim, as_frame, as_markdown, claims, evidences_of
from verax.paper.evidence import Evidence, Verdict
from verax.paper.published import AS_READ, PAPER, PAPER_INFIDELITY, PAPER_READING
from verax.paper.readings import Readings, readings
from verax.study.ranking import agreement, compared, front_size
from verax.study.results import read_results
from verax.study.store import StoreError
from verax.study.study import open_study
from verax.study.tables import NORMALISED_INFIDELITY, Schema, Tables

ENDINGS = (".md", ".csv", ".json")
DIGITS = 6  # significant ones: more than any mean of a study is sure of
RANKS: Schema = {
    **dict.fromkeys(("model", "group", "metric", "infidelity"), pl.String()),
    **dict.fromkeys(("configurations", "inputs"), pl.Int64()),
    **dict.fromkeys(("spearman", "spearman_low", "spearman_high"), pl.Float64()),
    **dict.fromkeys(("ties", "infidelity_ties"), pl.Int64()),
    **dict.fromkeys(("pareto", "pareto_low", "pareto_high"), pl.Float64()),
}
GROUPS = {"all others": False, "LIME": True}  # of configurations, and whether they are LIME's


Cell = tuple[Claim | None, int]  # a verdict, over so many columns
Row = tuple[int, str, tuple[Cell, ...]]


@dataclass(frozen=True)
class AnsweredClaims:
    """The claims as in the paper, those that depend on readings also under others, and what decided."""

    claims: list[Claim]  # as in the paper
    readings: Readings | None  # None where no other reading was measured
    evidences: Sequence[Evidence] = ()  # of each model what was measured, for the tables beside the claims

    as_read: ClassVar[str] = AS_READ
    flaw: ClassVar[str] = PAPER_READING.flaw
    symbols: ClassVar[Mapping[str, str]] = SYMBOLS

    def matrix(self, models: Sequence[str]) -> list[Row]:
        """The claims that concern these models, in the paper's order: a verdict per model, or one for all."""
        verdicts: dict[tuple[int, str], dict[str, Claim]] = {}
        for claim in self.claims:
            verdicts.setdefault((claim.number, claim.claim), {})[claim.model] = claim
        rows = []
        for (number, text), by_model in verdicts.items():
            cells: tuple[Cell, ...] = tuple((by_model.get(model), 1) for model in models)
            if not any(claim for claim, _ in cells):
                cells = ((by_model.get(ALL_MODELS), len(models)),)
            if any(claim for claim, _ in cells):
                rows.append((number, text, cells))
        return rows

    def sentences(self) -> list[str]:
        """How many claims hold, and how many under other readings."""
        verdicts = Counter(claim.verdict for claim in self.claims)
        measured = len(self.claims) - verdicts["not measured"]
        text = f"Of the paper's claims, taken model by model, {verdicts['reproduced']} of {measured} measured were"
        names: tuple[Verdict, ...] = ("cannot be told", "not measured")
        text += " reproduced" + "".join(f"; {name}: {verdicts[name]}" for name in names if verdicts[name]) + "."
        if self.readings is None:
            return [text]
        counts = zip(self.readings.heads[1:], self.readings.survivors[1:], strict=True)
        words = ", ".join(f"{label} {count}" for label, count in counts if count)
        shared = "Of those that hold as in the paper, and are about what another metric rates as well, it shares"
        return [text, f"{shared}: {words}."]

    def as_markdown(self) -> str:
        """All tables on one page, each claim with the rule of its verdict."""
        text = as_markdown(self.claims)
        if self.readings is None:
            return text
        return f"{text}\nUnder each reading that was measured:\n\n{self.readings.as_markdown()}"

    def save(self, path: Path) -> None:
        """Write the page (``.md``), or the claims as in the paper as a table (``.csv``, ``.json``)."""
        ending = path.suffix.lower()
        page = ending == ".md"
        write_atomically(path, self.as_markdown().encode() if page else table_bytes(as_frame(self.claims), ending))

    def save_report(self, folder: Path) -> None:
        """What stands beside a study's report."""
        self.save(folder / "claims.md")
        if self.readings is not None:
            write_atomically(folder / "claims-by-reading.csv", table_bytes(self.readings.to_frame(), ".csv"))

    def save_all(self, folder: Path) -> list[Path]:
        """Write the page and the claims as tables into a folder, with what they rest on as small tables.

        ``claims.md``, ``claims.csv``, ``claims-by-reading.csv``, and of ``analysis.small_tables`` ``models.csv``,
        ``ranks.csv`` (rank agreement, ties and sizes of Pareto sets), and ``means-MODEL.csv`` with ``errors-MODEL.csv``
        (of each configuration and metric).
        """
        tables = dict(small_tables(self.evidences))
        if self.readings is not None:
            tables["claims-by-reading"] = self.readings.to_frame()
        pages = [folder / f"claims{ending}" for ending in (".md", ".csv")]
        for page in pages:
            self.save(page)
        paths = {folder / f"{name}.csv": table for name, table in tables.items()}
        for path, table in paths.items():
            write_atomically(path, table_bytes(table, ".csv"))
        return [*pages, *paths]


def answer_claims(folders: Sequence[Path], runtimes: Sequence[Path] = ()) -> AnsweredClaims:
    """Answer the paper's claims over the models of all studies together."""
    studies = [(folder, open_study(folder)) for folder in folders]
    places: dict[str, Path] = {}
    for folder, study in studies:
        for name in study.models:
            if name in places:
                raise ValueError(f"DIR: expected each model in one study, got {name} in {places[name]} and {folder}.")
            places[name] = folder
    timed = tuple(read_runtime(path) for path in runtimes)  # before any work
    several = [read_results(study).tables for _, study in studies]
    for folder, tables in zip(folders, several, strict=True):
        if tables.scores.is_empty():
            raise StoreError(f"{folder}: no finished unit yet, so there is nothing to answer.")
    return _answered(replace(several[0], runtimes=several[0].runtimes + timed), *several[1:])


def answer_report(tables: Tables) -> AnsweredClaims | None:
    """The claims for the report of a study; None where the paper claims nothing about its models."""
    return _answered(tables) if of_the_paper(tables) else None


def of_the_paper(tables: Tables) -> bool:
    """Whether a study has a model of the paper, on its data, whose name its own begins with."""
    return any(info.name in PAPER and info.name.lower().startswith(f"{info.dataset}-") for info in tables.models)


def _answered(*studies: Tables) -> AnsweredClaims:
    evidences = evidences_of(*studies)
    verdicts = claims(*studies, evidences=evidences)
    read = readings(*studies, as_in_paper=verdicts, evidences=evidences)
    return AnsweredClaims(verdicts, read if read.metrics else None, evidences)


def small_tables(evidences: Sequence[Evidence]) -> Iterator[tuple[str, pl.DataFrame]]:
    """Tables by the names of their files: ``models``, ``ranks``, and of each model ``means`` and ``errors``."""
    figures = [
        (info.name, info.dataset, info.inputs, info.features, part, name, value)
        for info in (evidence.info for evidence in evidences)
        for part, figures_of_part in info.metrics.items()
        for name, value in figures_of_part.items()
    ]
    heads = ("model", "dataset", "inputs", "features", "split", "figure", "value")
    yield "models", _rounded(pl.DataFrame(figures, schema=heads, orient="row"))
    yield "ranks", _rounded(pl.concat([ranks(evidence) for evidence in evidences]))
    for evidence in evidences:
        columns = [metric.column for metric in evidence.tables.metrics]
        means, errors = [*columns, "attribution_norm"], [f"{column}_error" for column in columns]
        for name, shown in (("means", means), ("errors", errors)):
            table = evidence.configurations.select("configuration", "inputs", *shown)
            yield f"{name}-{evidence.info.name}", _rounded(table)


def ranks(evidence: Evidence) -> pl.DataFrame:
    """One row per group of configurations, Infidelity and other metric: do they rank alike, and who is best by both?

    ``spearman`` with its 95 % interval over inputs, ``ties`` and ``infidelity_ties`` (how many configurations share
    their rank with another), ``pareto`` with its interval (the size of the Pareto set of the metric and Infidelity).
    """
    tables, name = evidence.tables, evidence.info.name
    measured = [metric.column for metric in tables.metrics if evidence.configurations[metric.column].count()]
    columns = [column for column in measured if len(tables.matrix(name, column).inputs) > 1]
    losses = [column for column in (PAPER_INFIDELITY, NORMALISED_INFIDELITY) if column in columns]
    higher = {metric.column: metric.higher_is_better for metric in tables.metrics}
    rows = [
        {"model": name, "group": group, "metric": metric, "infidelity": loss}
        | _ranked(evidence, metric, loss, lime=lime, higher=higher[metric])
        for group, lime in GROUPS.items()
        for loss in losses
        for metric in columns
        if metric != loss
    ]
    return pl.DataFrame(rows, schema=dict(RANKS))


def _ranked(evidence: Evidence, metric: str, loss: str, *, lime: bool, higher: bool) -> dict[str, object]:
    gains, losses = evidence.pair(metric, loss)
    ranked = agreement(gains, losses, lime=lime, resamples=evidence.resamples, seed=evidence.seed)
    facts: dict[str, object] = {"configurations": ranked.configurations, "inputs": ranked.inputs}
    if not np.isfinite(ranked.spearman.mean):
        return facts
    places = compared(gains.configurations, lime=lime)
    gains, losses = (part.part(places) for part in (gains if higher else gains.negated(), losses))
    named = {"spearman": ranked.spearman, "pareto": front_size(gains, losses, evidence.resamples, evidence.seed)}
    for name, figure in named.items():
        facts |= {name: figure.mean, f"{name}_low": figure.low, f"{name}_high": figure.high}
    return facts | dict(zip(("ties", "infidelity_ties"), ranked.ties, strict=True))


def _rounded(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(pl.selectors.float().round_sig_figs(DIGITS))

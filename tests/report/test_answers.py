"""The first screen: it answers the question in words that fit the study."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from report.html import Page
from report.synthetic import PROVENANCE, examples, renamed, study, without
from verax.metrics import DirectedPredictionChange, LocalPredictionChange, PredictionChange
from verax.metrics.choose import COLUMNS
from verax.report import write_report
from verax.report.answers import QUESTIONS, Answer, cards
from verax.report.view import View
from verax.study.metrics import described
from verax.study.ranking import winner
from verax.study.tables import ALONE_SCHEMA, DISTANCE_SCHEMA, LIMITS_SCHEMA, Tables, Trust, empty


@pytest.fixture(scope="module")
def small() -> Tables:
    return study(("HELOC-MLP",), inputs=6, every=60)


def only(tables: Tables, pattern: str) -> Tables:
    """The study with these configurations alone."""
    kept = pl.col("configuration").cast(pl.String).str.contains(pattern)
    return replace(tables, scores=tables.scores.filter(kept))


def answered(tables: Tables) -> tuple[Answer, ...]:
    (card,) = cards(View(tables, ()))
    return card.answers


def facts(tables: Tables, at: int = 0) -> dict[str, str]:
    return dict(answered(tables)[at].facts)


def test_the_page_begins_with_the_answers(page_text: str, tables: Tables) -> None:
    first = Page(page_text.partition("<nav")[0])
    assert "Which explanation should I trust on heloc and isic?" in first.text
    for model in tables.models:
        assert model.name in first.text
        for column in ("dpc_signed", "pc"):
            found = winner(tables, model.name, tables.metric(column))
            assert found is not None
            assert found.configuration in first.text
            assert f"of {found.others} others, paired over {found.inputs} inputs" in first.text
    assert len(first.all("article")) == len(tables.models)
    assert "AUROC 79.6 %" in first.text


@pytest.fixture(scope="module")
def page_text(report: Path) -> str:
    return report.read_text(encoding="utf-8")


def test_each_kind_of_question_is_decided_by_its_own_metric(small: Tables) -> None:
    local, baseline = answered(small)
    assert (local.question, local.metric) == (QUESTIONS["local"], "DPC")
    assert (baseline.question, baseline.metric) == (QUESTIONS["baseline"], "PC")
    assert baseline.verdict == "Trust"
    (alone,) = answered(without(small, ("pc", "infidelity_baseline", "dpc_signed", "dpc_magnitude", "dpc_literal")))
    assert alone.metric == "Infidelity, plain"


def with_deciding(tables: Tables, best: str) -> Tables:
    """The same study with the metrics that decide, which rate one method best."""
    metrics = tuple(
        described(column, metric, noisy=False)
        for column, metric in (*COLUMNS.items(), ("lpc", LocalPredictionChange()))
    )
    truth = (pl.col("method").cast(pl.String) == best).cast(pl.Float64) + 0.01 * pl.col("input")
    scores = tables.scores.with_columns(truth.alias(metric.column) for metric in metrics)
    return replace(tables, scores=scores, metrics=(*tables.metrics, *metrics))


def test_the_metrics_that_decide_do_so_wherever_a_study_has_them(small: Tables) -> None:
    for answer, label in zip(
        answered(with_deciding(small, "VarGrad")), ("Effect correlation", "Effect correlation (removal)"), strict=True
    ):
        assert (answer.metric, answer.label, answer.verdict) == (label, "VarGrad", "Trust")
        assert "Known limitations" not in dict(answer.facts)


def test_the_papers_metrics_follow_as_evidence_with_what_they_are_blind_to(small: Tables) -> None:
    known = tuple(replace(metric, known_limitations=f"{metric.label} errs.") for metric in small.metrics)
    local, baseline = answered(with_deciding(replace(small, metrics=known), "VarGrad"))
    for answer, labels in ((local, ["DPC", "Infidelity, plain"]), (baseline, ["PC"])):
        evidence = {name: words for name, words in answer.facts if words.endswith("errs.")}
        assert [*evidence] == labels
        for label in labels:
            assert re.fullmatch(rf".+ is best: .+ \(.+ to .+\)\. {re.escape(label)} errs\.", evidence[label])


def test_where_they_are_missing_the_screen_says_what_the_deciding_metric_misses(small: Tables, tmp_path: Path) -> None:
    real = {
        "pc": described("pc", PredictionChange(), noisy=False),
        "dpc_signed": described("dpc_signed", DirectedPredictionChange("signed"), noisy=False),
    }
    told = replace(small, metrics=tuple(real.get(metric.column, metric) for metric in small.metrics))
    local, baseline = answered(told)
    for answer, label in ((local, "DPC"), (baseline, "PC")):
        words = dict(answer.facts)["Known limitations"]
        assert words.startswith(f"Decided by {label}, which verdicts should not rest on: It is blind to a constant")
    assert "resized by how far each feature is from its baseline" in dict(local.facts)["Known limitations"]
    write_report(tmp_path / "page.html", told, (), PROVENANCE)
    first = Page((tmp_path / "page.html").read_text(encoding="utf-8").partition("<nav")[0])
    assert dict(local.facts)["Known limitations"] in first.text


def test_a_question_without_an_answer_is_not_ranked(small: Tables, tmp_path: Path) -> None:
    flat = {"local": "the model is made of trees"}
    trees = replace(small, models=tuple(replace(model, unanswered=flat) for model in small.models))
    local, baseline = answered(trees)
    assert (local.verdict, local.label, local.code) == ("There is no answer: the model is made of trees.", "", "")
    assert baseline.label
    write_report(tmp_path / "page.html", trees, (), PROVENANCE)
    text = (tmp_path / "page.html").read_text(encoding="utf-8").partition("<nav")[0]
    assert "There is no answer: the model is made of trees." in Page(text).text
    assert "decided by <" not in text


def test_how_sure(small: Tables) -> None:
    assert facts(only(small, r"^Gradient\("))["How sure"] == "It was the only one."
    two = only(small, r"^Gradient\(|^Guided")
    far = pl.when(pl.col("method") == "Gradient").then(9 + 0.1 * pl.col("input")).otherwise(0.2 * pl.col("input"))
    apart = replace(two, scores=two.scores.with_columns(far.alias("dpc_signed")))
    assert facts(apart)["How sure"] == "Better than the only other one, paired over 6 inputs."
    near = replace(two, scores=two.scores.with_columns((pl.col("input") * 1.0).alias("dpc_signed")))
    words = facts(near)["How sure"]
    assert words == "Not significantly different from the only other one, paired over 6 inputs: Guided Backpropagation."
    tied = facts(only(small, r"^Gradient\(|^SmoothGrad\(|^Guided"))["How sure"]
    assert re.match(r"Not significantly different from \d+ of \d+ others, paired over 6 inputs: ", tied)
    assert "SmoothGrad (" in tied
    one = replace(small, scores=small.scores.filter(pl.col("input") == 0))
    assert facts(one)["How sure"].startswith("Not at all: one input shows no significant difference from the ")


def test_above_chance(small: Tables) -> None:
    assert "better than random attributions by" in facts(small, 1)["Above chance"]
    alone = only(small, r"^Gradient\(")
    unknown = replace(alone, metrics=tuple(replace(metric, chance=None) for metric in alone.metrics))
    assert "is not known: the study has no random attributions" in facts(unknown)["Above chance"]
    zero = replace(alone, metrics=tuple(replace(metric, chance=0.0) for metric in alone.metrics))
    assert "better than 0, which is chance by" in facts(zero)["Above chance"]


def test_nothing_is_trusted_that_does_not_beat_chance(small: Tables) -> None:
    noise = (pl.col("dpc_signed") * (1 - 2 * (pl.col("input") % 2))).alias("dpc_signed")
    chance = replace(small, scores=small.scores.with_columns(noise))
    local, _ = answered(chance)
    assert local.verdict.startswith("Trust none of those tried.")
    assert "not shown to be better than random attributions" in dict(local.facts)["Above chance"]


def test_the_limit_has_a_place_where_it_is_known(small: Tables) -> None:
    assert "Below the limit" not in facts(small)
    row = {"model": "HELOC-MLP", "metric": "dpc_signed", "configuration": "any", "found_by": "all", "inputs": 16}
    row |= {"score": 0.12, "possible": 0.2, "share": 0.6, "low": 0.55, "high": 0.65, "exact": True}

    def said(**changed: Any) -> str:
        limits = pl.DataFrame([row | changed], schema=dict(LIMITS_SCHEMA))
        return facts(replace(small, trust=Trust(16, empty(DISTANCE_SCHEMA), limits, {}, {})))["Below the limit"]

    sentence = "0.600 [0.550, 0.650] of what is possible, on 16 inputs: 0.12, where an attribution can get 0.2"
    assert said() == f"{sentence}."
    assert said(exact=False) == f"At most {sentence} or more."


def test_costs_are_those_of_the_winner_alone_where_known(small: Tables) -> None:
    assert facts(small, 1)["Cost"] == (
        "64 model rows (64 with gradients) and about 1.3 ms per input, shared with other settings of its method."
    )
    assert "Cheapest tie" not in facts(small, 1)
    found = winner(small, "HELOC-MLP", small.metric("pc"))
    assert found is not None
    rows = [("HELOC-MLP", found.configuration, 640.0, 0.0), ("HELOC-MLP", found.ties[-1], 1.0, 1.0)]
    alone = pl.DataFrame(rows, schema=dict(ALONE_SCHEMA), orient="row")
    known = facts(replace(small, alone=alone), 1)
    assert known["Cost"] == "640 model rows and about 6.4 ms per input."
    assert known["Cheapest tie"] == f"{found.ties[-1]}: 1 model row (1 with gradients) per input."


def test_a_bad_model_is_marked(small: Tables, tmp_path: Path) -> None:
    weak = replace(small, models=tuple(replace(model, weakness="It guesses.") for model in small.models))
    assert answered(weak)[0].verdict == "Most faithful to a model that has learnt nothing:"
    write_report(tmp_path / "page.html", weak, (), {**PROVENANCE, "warning": "It guesses."})
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert page.all("article", **{"class": "weak"})
    assert "no better than its base rate: see the warning above" in page.text


def test_a_regression_is_told_in_its_own_words(small: Tables, tmp_path: Path) -> None:
    figures = {"test": {"r2": 0.4521, "rmse": 54.3}}
    named = renamed(small, lambda name: "Diabetes-Linear")
    models = tuple(replace(m, dataset="diabetes", metrics=figures, task="regression") for m in named.models)
    (example,) = examples(small, count=1)
    example = replace(example, model="Diabetes-Linear", class_names=())
    write_report(tmp_path / "page.html", replace(named, models=models), [example], PROVENANCE)
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "Which explanation should I trust on diabetes?" in page.text
    assert "R² 0.452, scores in the unit of what is predicted" in page.text
    shown = page.text + str(page.json("charts"))
    for word in ("AUROC", "probability"):
        assert word not in shown
    assert not re.search(r"\bclass(es)?\b", shown, re.IGNORECASE)


def test_nothing_measured_is_said(small: Tables, tmp_path: Path) -> None:
    write_report(tmp_path / "page.html", only(small, r"^Random\("), (), PROVENANCE)
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "No explanation of this model was measured." in page.text

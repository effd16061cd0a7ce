"""The paper's claims under other readings of its metrics."""

from dataclasses import replace

import polars as pl
import pytest

from paper.synthetic import HELOC_LINEAR, HELOC_MLP, ISIC_LINEAR, explained, study, without_metrics
from verax.paper.claims import QUESTIONS, claims
from verax.paper.published import PAPER_DPC, PAPER_INFIDELITY
from verax.paper.readings import OWN, readings
from verax.study.tables import MetricInfo

FEW = 20  # resamples
OTHERS = ["dpc_magnitude", "dpc_literal", PAPER_INFIDELITY, "infidelity", "infidelity_baseline"]


def few_members(model):
    return explained(model.modality, 100)


def asked_again(tables):
    return readings(tables, as_in_paper=claims(tables, resamples=FEW), resamples=FEW)


STUDY = study([HELOC_LINEAR, HELOC_MLP], inputs=6, members=few_members)
FOUND = asked_again(STUDY)


def cells(found, number, model="HELOC-Linear", words=""):
    (row,) = [row for row in found.rows if (row.number, row.model) == (number, model) and words in row.claim]
    return dict(zip((OWN, *(metric.column for metric in found.metrics)), row.claims, strict=True))


def measured_as(column, **changes):
    """The study with one more metric: DPC's scores times so much."""
    info = MetricInfo(column, column, higher_is_better=True, kind="local", noisy=False)
    factor = changes.pop("factor", 1.0)
    scores = STUDY.scores.with_columns((factor * pl.col(PAPER_DPC)).alias(column))
    return replace(STUDY, scores=scores, metrics=(*STUDY.metrics, replace(info, **changes)))


def test_the_papers_own_reading_comes_first_and_is_what_the_claims_say():
    assert [metric.column for metric in FOUND.metrics] == OTHERS
    assert FOUND.heads[0] == OWN
    asked = [question for question in QUESTIONS if question.reads]
    own = claims(STUDY, resamples=FEW, questions=asked)
    assert [row.claims[0] for row in FOUND.rows] == own
    assert {question.number for question in asked} == {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 17}


def test_a_metric_stands_for_what_rates_the_same_kind_and_is_not_compared_with_itself():
    assert cells(FOUND, 1)["infidelity_baseline"] is not None
    assert cells(FOUND, 1)["dpc_magnitude"] is None
    assert cells(FOUND, 6)["infidelity"] is not None
    assert cells(FOUND, 6)["infidelity_baseline"] is None
    assert cells(FOUND, 7, words="negative")[PAPER_INFIDELITY] is None
    assert cells(FOUND, 6)[PAPER_INFIDELITY] is not None
    assert cells(FOUND, 7, words="negative")["dpc_magnitude"] is not None


@pytest.mark.parametrize(("subject", "column"), [(PAPER_DPC, "infidelity"), ("pc", "infidelity_baseline")])
def test_a_reading_is_what_the_claims_say_of_a_study_that_measured_it(subject, column):
    metric = STUDY.metric(column)  # lower is better, so that its scores are negated
    renamed = STUDY.scores.with_columns(-pl.col(column).alias(subject), pl.col(f"{column}_se").alias(f"{subject}_se"))
    others = [one for one in STUDY.metrics if one.column != subject]
    measured = replace(STUDY, scores=renamed, metrics=(replace(metric, column=subject), *others))
    asked = [one for one in QUESTIONS if one.reads == (subject,)]
    expected = claims(measured, resamples=FEW, questions=asked)
    place = [one.column for one in FOUND.metrics].index(column) + 1
    keys = {(claim.number, claim.claim, claim.model) for claim in expected}
    found = [row.claims[place] for row in FOUND.rows if (row.number, row.claim, row.model) in keys]
    assert found == expected
    assert len(found) > 3


def test_equal_scores_give_equal_answers_and_opposite_ones_the_opposite():
    """The synthetic study has one and the same DPC in all readings."""
    for row in FOUND.rows:
        own, signed = row.claims[0], row.claims[1 + OTHERS.index("dpc_magnitude")]
        assert signed is None or replace(signed, note=own.note) == own
    against = asked_again(measured_as("against", factor=-1.0))
    for number in (5, 6):
        words = "gradient best" if number == 5 else ""
        found = cells(against, number, words=words)
        assert (found[OWN].verdict, found["against"].verdict) == ("reproduced", "not reproduced")


def test_normalised_infidelity_is_read_as_infidelity_where_a_claim_compares_it_with_dpc():
    """Here it says the opposite of the plain one, with which all other metrics are compared."""
    scores = STUDY.scores.with_columns(-pl.col(PAPER_INFIDELITY).alias("infidelity"))
    found = cells(asked_again(replace(STUDY, scores=scores)), 7, words="negative")
    assert [found[name].verdict for name in (OWN, "dpc_magnitude")] == ["reproduced", "reproduced"]
    assert found["infidelity"].verdict == "not reproduced"
    opposite = {"+": "-", "-": "+"}
    assert found["infidelity"].ours[:5] == opposite[found[OWN].ours[0]] + found[OWN].ours[1:5]


def test_readings_of_several_studies_are_those_that_some_study_measured():
    heloc = study([HELOC_MLP], inputs=4, members=few_members)
    isic = without_metrics(study([ISIC_LINEAR], inputs=4, members=few_members), "dpc_magnitude")
    own = claims(heloc, isic, resamples=FEW)
    found = readings(heloc, isic, as_in_paper=own, resamples=FEW)
    assert [metric.column for metric in found.metrics] == OTHERS
    assert cells(found, 7, "HELOC-MLP", "negative")["dpc_magnitude"] is not None
    assert cells(found, 7, "ISIC-Linear", "negative")["dpc_magnitude"] is None
    assert cells(found, 4, "all models")["dpc_literal"].verdict == "reproduced"
    assert cells(found, 4, "all models")["dpc_magnitude"].verdict == "not measured"


def test_direction_is_taken_into_account():
    """The negated DPC, of which lower is better, says what DPC says."""
    found = asked_again(measured_as("loss", factor=-1.0, higher_is_better=False))
    for row in found.rows:
        own, loss = row.claims[0], row.claims[-1]
        assert loss is None or (loss.ours, loss.verdict) == (own.ours, own.verdict)


def test_survivors_are_those_of_the_claims_that_hold():
    holding = [row for row in FOUND.rows if row.claims[0].verdict == "reproduced"]
    assert FOUND.survivors[0] == f"{len(holding)} of {len(holding)}"
    local = [row for row in holding if row.claims[1] is not None]
    assert FOUND.survivors[1] == f"{len(local)} of {len(local)}"


def test_the_table_is_the_same_in_every_form():
    frame = FOUND.to_frame()
    assert frame.height == sum(claim is not None for row in FOUND.rows for claim in row.claims)
    for row in FOUND.rows:
        part = frame.filter(pl.col("claim") == row.claim, pl.col("model") == row.model, pl.col("reading") == OWN)
        assert part["ours"].item() == row.claims[0].ours
    lines = FOUND.as_markdown().splitlines()
    assert len(lines) == 2 + len(FOUND.rows) + 1
    assert lines[0].startswith(f"| # | claim | model | {OWN} | DPC, signed order |")
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
    assert f"✓ {FOUND.rows[0].claims[0].ours}" in lines[2]


@pytest.mark.parametrize("gone", [(PAPER_DPC,), ("pc", "infidelity"), ("dpc_magnitude", "dpc_literal")])
def test_metrics_that_were_left_out_break_nothing(gone):
    found = asked_again(without_metrics(STUDY, *gone))
    assert [metric.column for metric in found.metrics] == [name for name in OTHERS if name not in gone]
    for row in found.rows:
        verdicts = {claim.verdict for claim in row.claims if claim}
        assert row.claims[0] is not None
        assert verdicts


def test_a_metric_without_values_is_no_reading():
    empty = STUDY.scores.with_columns(pl.lit(None, pl.Float32).alias("dpc_magnitude"))
    found = asked_again(replace(STUDY, scores=empty))
    assert "dpc_magnitude" not in [metric.column for metric in found.metrics]


def test_a_metric_of_fewer_inputs_is_asked_on_those():
    some = pl.when(pl.col("input") < 3).then("dpc_magnitude").alias("dpc_magnitude")
    found = asked_again(replace(STUDY, scores=STUDY.scores.with_columns(some)))
    assert cells(found, 6)["dpc_magnitude"].verdict == "reproduced"

"""The winner of a model: who it is, from whom it is told apart, how far above chance, at what price."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats

from verax.study.ranking import Price, best_configuration, winner
from verax.study.tables import (
    ALONE_SCHEMA,
    COSTS_SCHEMA,
    UNCERTAINTY_SCHEMA,
    MetricInfo,
    ModelInfo,
    Tables,
    empty,
    scores_schema,
)

DPC = MetricInfo("dpc", "DPC", higher_is_better=True, kind="local", noisy=False, chance=0.0)
LOSS = MetricInfo("loss", "Loss", higher_is_better=False, kind="local", noisy=False)
NOISE = np.random.default_rng(0).normal(size=(5, 40))


def study(scores, metric=DPC):
    """One model; scores by configuration, each (N,)."""
    frames = [
        pl.DataFrame(
            {name: [0] * len(values) for name in scores_schema([metric])}
            | {
                "model": ["m"] * len(values),
                "method": [form.partition("(")[0]] * len(values),
                "configuration": [form] * len(values),
                "local": [True] * len(values),
                "input": range(len(values)),
                metric.column: values,
                "attribution_rows": [4.0] * len(values),
                "attribution_rows_backward": [1.0] * len(values),
                "attribution_seconds": [0.5] * len(values),
            },
            strict=False,
        )
        for form, values in scores.items()
    ]
    model = ModelInfo("m", "data", "tabular", "mlp", {}, 40, 3)
    nothing = empty(UNCERTAINTY_SCHEMA), empty(COSTS_SCHEMA)
    return Tables(pl.concat(frames), nothing[0], (model,), {}, nothing[1], (metric,))


def paired_p(first, second):
    return stats.ttest_rel(first, second).pvalue


def test_the_best_mean_wins_and_ties_are_those_of_the_corrected_paired_test():
    common = NOISE[0]  # inputs that are hard for all: only paired differences see through it
    scores = {
        "Gradient()": 1.0 + common + 0.05 * NOISE[1],
        "SmoothGrad(sigma=0.1)": 1.02 + common + 0.05 * NOISE[2],
        "VarGrad(sigma=0.1)": 0.5 + common + 0.05 * NOISE[3],
        "Random(seed=0)": 0.05 * NOISE[4],
    }
    found = winner(study(scores), "m", DPC)
    assert found is not None
    means = {name: values.mean() for name, values in scores.items()}
    best = max(means, key=means.__getitem__)
    assert found.configuration == best
    assert (found.inputs, found.others) == (40, 2)
    others = [name for name in scores if name not in (best, "Random(seed=0)")]
    wanted = [name for name in others if paired_p(scores[best], scores[name]) > 0.05 / 2]
    assert list(found.ties) == wanted
    assert "VarGrad(sigma=0.1)" not in found.ties
    assert found.score.mean == pytest.approx(means[best])
    assert found.score.low == pytest.approx(stats.t.interval(0.95, 39, means[best], stats.sem(scores[best]))[0])


def test_many_comparisons_widen_the_ties():
    """A difference with p = 0.03 is told apart from one other, but not from one of twenty."""
    shape = NOISE[1] - NOISE[1].mean()
    gap = stats.t.ppf(1 - 0.03 / 2, 39) * stats.sem(shape)
    scores = {"Gradient()": np.zeros(40) + 5, "SmoothGrad(sigma=0.1)": 5 - gap - shape}
    assert paired_p(*scores.values()) == pytest.approx(0.03)
    assert winner(study(scores), "m", DPC).ties == ()
    worse = {f"SmoothGrad(sigma={n}.0)": 1 + 0.01 * NOISE[n % 5] for n in range(1, 20)}
    assert winner(study(scores | worse), "m", DPC).ties == ("SmoothGrad(sigma=0.1)",)


def test_lower_may_be_better():
    scores = {"Gradient()": 1 + 0.1 * NOISE[0], "VarGrad(sigma=0.1)": 3 + 0.1 * NOISE[1]}
    found = winner(study(scores | {"Random(seed=0)": np.full(40, 4.0)}, LOSS), "m", LOSS)
    assert (found.configuration, found.ties, found.random) == ("Gradient()", (), True)
    assert found.score.mean == pytest.approx(scores["Gradient()"].mean())
    assert found.gain.mean == pytest.approx((4 - scores["Gradient()"]).mean())
    assert found.beats_chance is True


def test_chance_is_random_then_the_metrics_number_then_unknown():
    good = {"Gradient()": 1 + 0.1 * NOISE[0]}
    random = {"Random(seed=0)": 1 + 0.1 * NOISE[1], "Random(seed=1)": NOISE[2]}
    measured = winner(study(good | random), "m", DPC)
    assert measured.random
    assert measured.gain.mean == pytest.approx((good["Gradient()"] - sum(random.values()) / 2).mean())
    by_number = winner(study(good), "m", DPC)
    assert not by_number.random
    assert by_number.gain.mean == pytest.approx(good["Gradient()"].mean())
    unknown = winner(study(good, LOSS), "m", LOSS)
    assert (unknown.gain, unknown.beats_chance) == (None, None)


def test_what_chance_does_as_well_does_not_beat_it():
    scores = {"Gradient()": 0.01 + NOISE[0] - NOISE[0].mean(), "Random(seed=0)": NOISE[1] - NOISE[1].mean()}
    assert winner(study(scores), "m", DPC).beats_chance is False


def test_references_do_not_compete_and_alone_have_no_winner():
    scores = {"Random(seed=0)": np.full(40, 9.0), "Gradient()": NOISE[0]}
    found = winner(study(scores), "m", DPC)
    assert (found.configuration, found.beats_chance) == ("Gradient()", False)
    assert winner(study({"Random(seed=0)": NOISE[0]}), "m", DPC) is None


def test_one_input_tells_nothing_apart():
    found = winner(study({"Gradient()": [1.0], "VarGrad(sigma=0.1)": [0.0]}), "m", DPC)
    assert (found.configuration, found.ties, found.beats_chance) == ("Gradient()", ("VarGrad(sigma=0.1)",), None)


@pytest.mark.parametrize("lower", [False, True])
def test_the_best_configuration_is_the_winner(lower):
    metric = replace(DPC, higher_is_better=not lower)
    tables = study({"Gradient()": NOISE[0], "VarGrad(sigma=0.1)": NOISE[0] + 0.1, "Random()": NOISE[1] + 9})
    found = best_configuration(tables.scores, "m", metric)
    assert found == winner(tables, "m", metric).configuration == ("Gradient()" if lower else "VarGrad(sigma=0.1)")
    assert best_configuration(study({"Random()": NOISE[0]}).scores, "m", metric) is None


def test_prices_are_those_alone_where_known():
    names = ["Gradient()", "SmoothGrad(sigma=0.1)", "VarGrad(sigma=0.1)"]
    tables = study({name: 3 - 0.001 * place + NOISE[0] for place, name in enumerate(names)} | {"Random()": NOISE[1]})
    found = winner(tables, "m", DPC)
    assert (found.configuration, found.price) == (names[0], Price(4.0, 1.0, 0.5, shared=True))
    alone = pl.DataFrame([("m", names[0], 20.0, 5.0)], schema=dict(ALONE_SCHEMA), orient="row")
    known = winner(replace(tables, alone=alone), "m", DPC)
    assert known.price == Price(20.0, 5.0, 2.5, shared=False)


def test_the_cheapest_tie_has_the_fewest_rows():
    names = ["Gradient()", "SmoothGrad(sigma=0.1)", "VarGrad(sigma=0.1)"]
    tables = study({name: NOISE[place] - NOISE[place].mean() - 0.001 * place for place, name in enumerate(names)})
    alone = pl.DataFrame(
        [("m", names[1], 20.0, 5.0), ("m", names[2], 3.0, 1.0)], schema=dict(ALONE_SCHEMA), orient="row"
    )
    found = winner(replace(tables, alone=alone), "m", DPC)
    assert found.ties == tuple(names[1:])
    assert found.cheapest == (names[2], Price(3.0, 1.0, 0.4, shared=False))
    assert winner(study({"Gradient()": NOISE[0]}), "m", DPC).cheapest is None


@pytest.mark.parametrize("sign", [1, -1])
def test_of_configurations_that_differ_by_rounding_the_first_wins_and_the_others_are_ties(sign):
    names = ["Gradient()", "SmoothGrad(sigma=0.1)", "VarGrad(sigma=0.1)"]
    scores = {name: NOISE[0] + 1 + sign * 1e-15 * place for place, name in enumerate(names)}
    tables = study(scores | {"LimeTabular()": NOISE[1]})
    best = winner(tables, "m", DPC)
    assert (best.configuration, best.ties) == (names[0], tuple(names[1:]))
    assert best_configuration(tables.scores, "m", DPC) == names[0]

"""Small examples of what modules of this folder share among themselves."""

import numpy as np
import torch

from verax.statistics.anytime import AnytimeSums, BettingTest, ScoreRange, mean_below
from verax.statistics.intervals import (
    bounded_mean,
    participation_ratio,
    proportion,
    ratios_of_means,
    resampled_columns,
    resampled_estimate,
    resampled_means,
    t_quantile,
)
from verax.statistics.paired import (
    effect_size,
    holm,
    inputs_needed,
    paired_difference,
    paired_p_values,
    power,
    real_differences,
    signed_rank_p,
)
from verax.statistics.prediction_quality import class_figures, in_words, value_figures
from verax.statistics.ranks import (
    kendall,
    krippendorff_alpha,
    rank_agreement,
    ranks,
    spearman,
    split_half_agreement,
    tie_count,
    tied,
)
from verax.statistics.sums import QuantileSketch, ScoreSums


def test_totals_score_sums():
    values = torch.tensor([1e16, 1.0, -1e16], dtype=torch.float64)
    assert (float(values.sum()), (ScoreSums.of(values[:2]) + ScoreSums.of(values[2:])).mean * 3) == (0.0, 1.0)
    assert str(ScoreSums.of(torch.tensor([1.0, 2.0, 3.0])).estimate()) == "2.0 [-0.5, 4.5]"


def test_totals_quantile_sketch():
    first, second = QuantileSketch(torch.arange(1.0, 51.0)), QuantileSketch(torch.arange(51.0, 102.0))
    assert abs(first.merged(second).quantile(0.5) / 51 - 1) < 0.01


def test_rare_effects_bounded_mean():
    assert str(bounded_mean(torch.zeros(50), 0.0, 1.0)) == "0.000 [0.000, 0.071]"


def test_rare_effects_participation_ratio():
    assert participation_ratio(torch.tensor([[0.0, 0.0, 0.0, 3.0], [1.0, -1.0, 1.0, 1.0]])).tolist() == [1.0, 4.0]


def test_ranks_tied():
    assert tied(np.array([0.3, 0.1, 0.1 + 1e-15, 0.5])).tolist() == [0.3, 0.1, 0.1, 0.5]


def test_ranks_tie_count():
    assert tie_count(np.array([0.3, 0.1, 0.1 + 1e-15, 0.5])) == 2


def test_ranks_spearman():
    assert float(spearman(np.array([1.0, 2.0, 3.0]), np.array([9.0, 8.0, 7.0]))) == -1.0


def test_ranks_ranks():
    assert ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [1.0, -1.5, 1.0, -0.5]


def test_ranks_kendall():
    assert kendall(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 3.0, 2.0])).item() == 0.3333333333333333


def test_ranks_rank_agreement():
    scores = torch.arange(5.0)[:, None] + torch.zeros(5, 9)
    assert str(rank_agreement(scores, -scores)) == "-1 [-1, -1]"


def test_ranks_krippendorff_alpha():
    assert str(krippendorff_alpha(torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])).mean) == "1.0"


def test_ranks_split_half_agreement():
    assert str(split_half_agreement(torch.tensor([[1.0] * 8, [2.0] * 8, [3.0] * 8])).mean) == "1.0"


def test_prediction_quality_class_figures():
    assert class_figures(torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]]), torch.tensor([0, 1, 1]))["auroc"] == 1.0


def test_prediction_quality_value_figures():
    assert value_figures(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]))["r2"] == 0.5


def test_prediction_quality_in_words():
    assert in_words({"auroc": 0.75, "accuracy": 0.5}) == "AUROC 0.7500, accuracy 0.5000"


def test_paired_paired_difference():
    assert str(paired_difference(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, 1.5, 2.5]))) == "0.5 [0.5, 0.5]"


def test_paired_paired_p_values():
    scores = torch.tensor([1.0, 2.0, 3.0, 4.0])
    found = paired_p_values(scores, torch.stack((scores, scores - 1, scores.flip(0))))
    assert [round(p, 3) for p in found] == [1.0, 0.0, 1.0]


def test_paired_real_differences():
    assert real_differences(torch.tensor([1.0, 2.0]), torch.tensor([[1.0 + 1e-7, 1.0]])).tolist() == [[0.0, 1.0]]


def test_paired_holm():
    assert [round(p, 3) for p in holm([0.01, 0.04, 0.03])] == [0.03, 0.06, 0.06]


def test_paired_signed_rank_p():
    assert (round(signed_rank_p(torch.arange(1.0, 7.0)), 4), signed_rank_p(torch.zeros(5))) == (0.0312, 1.0)


def test_paired_effect_size():
    assert str(effect_size(torch.tensor([1.0, 2.0, 3.0, 2.0]))) == "2.4 [-0.7, 5.6]"


def test_paired_power():
    assert (round(power(0.5, 34), 2), round(power(0.0, 34), 2)) == (0.81, 0.05)


def test_paired_inputs_needed():
    assert repr((inputs_needed(0.5), inputs_needed(-0.5), inputs_needed(0.0))) == "(54.0, 54.0, inf)"


def test_intervals_resampled_means():
    assert resampled_means(torch.tensor([[1.0, 1.0], [2.0, 2.0]]), 3, seed=0).tolist() == [
        [1.0, 2.0],
        [1.0, 2.0],
        [1.0, 2.0],
    ]


def test_intervals_resampled_columns():
    assert resampled_columns(torch.tensor([[1.0, 2.0]] * 8), seed=0).mean(1).unique().tolist() == [1.0, 1.5, 2.0]


def test_intervals_resampled_estimate():
    assert str(resampled_estimate(5.0, torch.tensor([1.0, 2.0, 3.0]))) == "5.0 [1.1, 5.0]"


def test_intervals_t_quantile():
    assert round(t_quantile(0.975, 10), 3) == 2.228


def test_intervals_proportion():
    assert str(proportion(torch.tensor([True, True, True, False]))) == "0.75 [0.30, 0.95]"


def test_intervals_ratios_of_means():
    assert (
        str(ratios_of_means(torch.tensor([[1.0, 2.0, 3.5]]), torch.tensor([2.0, 4.0, 6.0]))[0]) == "0.54 [0.40, 0.68]"
    )


def test_anytime_anytime_sums():
    zeros = AnytimeSums.of(torch.zeros(1000), ScoreRange(-1.0, 1.0, certain=True))
    assert str(zeros.estimate()) == "0.0000 [-0.0048, 0.0048]"


def test_anytime_mean_below():
    tosses, coin = torch.tensor([0.0, 0.0, 1.0]), ScoreRange(0.0, 1.0, certain=True)
    assert (mean_below(tosses.repeat(10), 0.5, coin), mean_below(tosses.repeat(100), 0.5, coin)) == (False, True)


def test_anytime_betting_test():
    draws = np.random.default_rng(0)
    test = BettingTest.against(draws.normal(0.5, 0.1, 500), rate=0.05)
    alarms = []
    for mean in (0.5, 0.5, 0.4):
        test = test.after(draws.normal(mean, 0.1, 200))
        alarms.append(test.alarm)
    assert alarms == [False, False, True]

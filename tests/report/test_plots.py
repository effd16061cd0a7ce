"""Figures of results: what is drawn are the numbers of the results, and pyplot never hears of it."""

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt

import calls
import verax
from report.examples import HOSTILE, classifier, evaluation, rows
from verax.core.display import MOST_ROWS
from verax.core.palette import BLUE, GREY, VERMILION
from verax.report.plots import MOST_PANELS, Chart
from verax.statistics.intervals import t_quantile

NAMES = ["pc", "dpc", "infidelity", "sensitivity_n", "infidelity_uncertainty"]


@pytest.fixture(scope="module")
def found():
    return evaluation()


@pytest.fixture(autouse=True)
def nothing_global_changes():
    """No figure of pyplot, no setting and no backend may be touched."""
    before = plt.get_fignums(), dict(mpl.rcParams), mpl.get_backend()
    yield
    assert (plt.get_fignums(), dict(mpl.rcParams), mpl.get_backend()) == before


def lines(ax, colour):
    return [line for line in ax.get_lines() if line.get_color() == colour]


def overlaps(chart):
    """Texts that leave the figure, and pairs of texts that lie over each other."""
    chart._repr_png_()  # lays everything out
    hidden = {id(label) for ax in chart.axes for label in beyond_limits(ax)}
    texts = [text for text in chart.findobj(mpl.text.Text) if text.get_visible() and id(text) not in hidden]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts if text.get_text().strip()]
    width, height = chart.bbox.size
    out = [name for name, box in boxes if box.x0 < -2 or box.y0 < -2 or box.x1 > width + 2 or box.y1 > height + 2]
    return out + [
        (one, other)
        for place, (one, first) in enumerate(boxes)
        for other, second in boxes[place + 1 :]
        if first.shrunk(0.9, 0.9).overlaps(second.shrunk(0.9, 0.9))
    ]


def beyond_limits(ax):
    """Labels of ticks outside the limits, which are not drawn."""
    for axis, (low, high) in ((ax.xaxis, sorted(ax.get_xlim())), (ax.yaxis, sorted(ax.get_ylim()))):
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            if not low <= tick.get_loc() <= high:
                yield from (tick.label1, tick.label2)


@pytest.mark.parametrize("metric", ["pc", "dpc"])
def test_curves_are_the_means_of_the_results_curves(found, metric):
    result = found[metric]
    chart = result.plot()
    assert len(chart.axes) == 3
    for ax, name in zip(chart.axes, result.value, strict=True):
        for colour, curves in ((VERMILION, result.directed_morf), (BLUE, result.directed_lerf)):
            (line,) = lines(ax, colour)
            np.testing.assert_allclose(line.get_ydata(), curves[name].mean(0), rtol=1e-6)
            np.testing.assert_allclose(line.get_xdata(), np.linspace(0, 1, 7))
        assert f"mean {metric.upper()} {float(result.value[name].double().mean()):.3g}" in ax.get_title()


def test_bands_hold_the_middle_half_of_the_inputs(found):
    result = found["pc"]
    for ax, name in zip(result.plot().axes, result.value, strict=True):
        area, morf, lerf = (band.get_paths()[0].vertices for band in ax.collections)
        for band, curves in ((morf, result.morf[name]), (lerf, result.lerf[name])):
            low, high = np.quantile(curves, [0.25, 0.75], axis=0)
            assert {round(float(y), 5) for y in (*low, *high)} == {round(float(y), 5) for y in band[:, 1]}
        means = [curves[name].mean(0).numpy() for curves in (result.morf, result.lerf)]
        assert {round(float(y), 5) for y in np.concatenate(means)} == {round(float(y), 5) for y in area[:, 1]}


def test_curves_of_different_length_are_drawn_by_step():
    x, groups = rows(2, 6), torch.tensor([[0, 0, 1, 1, 2, 2], [0, 1, 2, 3, 4, 5]])
    chart = calls.prediction_change(classifier(), x, x, features=groups).plot()
    (line,) = lines(chart.axes[0], VERMILION)
    assert line.get_xdata().tolist() == list(range(7))
    assert "step" in chart.axes[0].get_xlabel()


def test_increments_are_named():
    metric = verax.metrics.PredictionChange(curve="increments")
    chart = evaluation(metrics=[metric])["pc"].plot()
    assert chart.axes[0].get_ylabel() == "change of the class score"


def test_infidelity_shows_every_input_with_its_error(found):
    result = found["infidelity"]
    for ax, name in zip(result.plot().axes, result.value, strict=True):
        order = result.value[name].argsort()
        (container,) = ax.containers
        np.testing.assert_allclose(container.lines[0].get_ydata(), result.value[name][order], rtol=1e-6)
        (bars,) = container.lines[2]
        reach = [(high[1] - low[1]) / 2 for low, high in bars.get_segments()]
        np.testing.assert_allclose(reach, result.standard_error[name][order], rtol=1e-5)
        (mean,) = lines(ax, VERMILION)
        np.testing.assert_allclose(mean.get_ydata(), float(result.value[name].mean()), rtol=1e-6)


def test_sensitivity_by_size(found):
    result = found["sensitivity_n"]
    (ax,) = result.plot().axes
    assert len(ax.containers) == 3
    for container, name in zip(ax.containers, result.value, strict=True):
        np.testing.assert_allclose(container.lines[0].get_xdata(), result.metric.sizes)
        np.testing.assert_allclose(container.lines[0].get_ydata(), result.by_size[name].mean(0), rtol=1e-6)
        (bars,) = container.lines[2]
        reach = [(high[1] - low[1]) / 2 for low, high in bars.get_segments()]
        np.testing.assert_allclose(reach, t_quantile(0.975, 8) * result.by_size[name].std(0) / 3, rtol=1e-5)


def test_uncertainty_by_number_of_draws():
    metric = verax.metrics.InfidelityUncertainty(verax.metrics.Infidelity(samples=40), (10, 40), 4, independent=2)
    result = evaluation(metrics=[metric])["infidelity_uncertainty"]
    for ax, name in zip(result.plot().axes, result.value, strict=True):
        drawn = {line.get_label(): list(line.get_ydata()) for line in ax.get_lines()}
        assert drawn["analytic"] == pytest.approx(result.mean_analytic[name])
        assert drawn["independent"] == pytest.approx(result.mean_independent[name])
        assert drawn["resampled"][0] == pytest.approx(result.mean_resampled[name][0])
        assert np.isnan(drawn["resampled"][1])  # 0, which a logarithmic axis does not have


def dots(ax):
    """Mean, ends of the interval and colour of every row, from the top."""
    spans, points = ax.get_lines()[::2], ax.get_lines()[1::2]
    assert [float(one.get_ydata()[0]) for one in points] == list(range(len(points)))
    return [
        (float(point.get_xdata()[0]), *map(float, span.get_xdata()), point.get_color())
        for span, point in zip(spans, points, strict=True)
    ]


def test_an_evaluation_shows_all_metrics_side_by_side(found):
    chart = found.plot()
    assert [ax.get_title() for ax in chart.axes] == [
        "PC",
        "DPC",
        "Infidelity",
        "Sensitivity-N",
        "Infidelity, resampled",
    ]
    for ax, result in zip(chart.axes, found.values(), strict=True):
        expected = [(one.mean, one.low, one.high, BLUE) for one in result.mean().values()]
        assert dots(ax) == expected
        assert ("higher" in ax.get_xlabel()) == result.metric.higher_is_better
        assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first on top
    assert [text.get_text() for text in chart.axes[0].get_yticklabels()][:2] == ["gradient", "noise"]


def test_a_comparison_shows_its_rankings():
    x = rows(30, 6)
    gradient = verax.attribution.Gradient()(verax.Problem(classifier(), x))
    given = {"noise": rows(30, 6, seed=5), "gradient": gradient, "twice": 2 * gradient, "contrary": -gradient}
    comparison = calls.compare(classifier(), x, given, samples=40, level=0.9)
    chart = comparison.plot()
    for ax, metric in zip(chart.axes, comparison.metrics, strict=True):
        ranking = comparison.ranking(metric)
        best = comparison.best(metric)
        colours = [BLUE if one.name in best else GREY for one in ranking]
        assert dots(ax) == [(one.mean, one.low, one.high, colour) for one, colour in zip(ranking, colours, strict=True)]
        assert [text.get_text() for text in ax.get_yticklabels()] == [one.name for one in ranking]
    assert "90 % intervals" in chart.get_suptitle()


@pytest.mark.parametrize("metric", [*NAMES, None])
def test_figures_show_themselves_and_nothing_overlaps(found, metric):
    chart = (found if metric is None else found[metric]).plot()
    assert isinstance(chart, Chart)
    assert chart._repr_png_().startswith(b"\x89PNG")
    assert overlaps(chart) == []


@pytest.mark.parametrize("numpy", [True, False])
@pytest.mark.parametrize("inputs", [1, 2])
def test_few_inputs_and_one_attribution(inputs, numpy):
    found = evaluation(["only"], inputs=inputs, numpy=numpy)
    for chart in (found.plot(), *(result.plot() for result in found.values())):
        assert overlaps(chart) == []
    assert len(found["pc"].plot().axes) == 1


def test_one_draw_has_no_error_to_show():
    x = rows(4, 6)
    chart = calls.infidelity(classifier(), x, x, samples=1, normalize=False).plot()
    assert chart._repr_png_()


def test_a_stack_and_a_single_attribution():
    x = rows(4, 6)
    stacked = calls.evaluate(classifier(), x, torch.stack((x, -x)), ("pc", "infidelity"), samples=10)
    assert [text.get_text() for text in stacked.plot().axes[0].get_yticklabels()] == ["attribution 0", "attribution 1"]
    assert len(stacked["pc"].plot().axes) == 2
    assert len(calls.prediction_change(classifier(), x, x).plot().axes) == 1


def test_the_best_of_many_are_shown():
    found = evaluation([f"number {place}" for place in range(60)], metrics=("pc", "infidelity"))
    means = {name: one.mean for name, one in found["infidelity"].mean().items()}
    chart = found["infidelity"].plot()
    drawn = [ax.get_title().splitlines()[0] for ax in chart.axes]
    assert drawn == sorted(means, key=means.get)[:MOST_PANELS]
    assert f"the best {MOST_PANELS} of 60" in chart.get_suptitle()
    assert overlaps(chart) == []
    chart = found.plot()
    assert len(chart.axes[0].get_yticks()) == MOST_ROWS
    assert f"the best {MOST_ROWS} of 60 by PC" in chart.get_suptitle()
    assert overlaps(chart) == []


def test_long_and_hostile_names_fit():
    x = rows(5, 6)
    given = {HOSTILE * 5: x, "$x_1$ and $": -x, "b" * 70: x * x}
    comparison = calls.compare(classifier(), x, given, samples=10)
    for chart in (comparison.plot(), comparison.evaluation.plot(), comparison.evaluation["pc"].plot()):
        assert overlaps(chart) == []

"""The short report of a comparison."""

import re
from dataclasses import replace

import matplotlib as mpl
import pytest
import torch

import calls
import verax
from report.html import Page
from verax.evaluation.comparison import Comparison
from verax.report.comparison import comparison_page, results_page
from verax.report.plots import single_curves

NASTY = "<script>&$x$ #000000"


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(9, 4, generator=generator)
    given = {"itself": x, NASTY: -x, "a name that is longer than the room beside a chart": x * x}
    return calls.compare(torch.nn.Linear(4, 2), x, given, samples=10)


@pytest.fixture(scope="module")
def text(comparison: Comparison) -> str:
    return comparison_page(comparison, {NASTY: NASTY})


def test_the_page_is_the_same_every_time_whatever_the_user_has_set(comparison: Comparison, text: str) -> None:
    with mpl.rc_context({"font.size": 20, "svg.hashsalt": "other", "svg.fonttype": "path"}):
        assert comparison_page(comparison, {NASTY: NASTY}) == text


def test_every_metric_has_a_chart_that_names_stand_in_as_text(comparison: Comparison, text: str) -> None:
    page = Page(text)
    assert not page.scripts
    charts = [Page(chart) for chart in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    titles = [str(chart.all("svg")[0]["aria-label"]) for chart in charts]
    rankings = [chart for chart, title in zip(charts, titles, strict=True) if "mean and interval" in title]
    assert len(rankings) == len(comparison.metrics) == 3
    for shown, metric in zip(rankings, comparison.metrics, strict=True):
        assert NASTY in shown.text
        assert f"{comparison.evaluation.label(metric)}: mean" in str(shown.all("svg")[0]["aria-label"])
        dots = {use["href"] for use in shown.all("use") if "#0072b2" in str(use) or "#808080" in str(use)}
        assert len([use for use in shown.all("use") if use["href"] in dots]) == len(comparison.names) == 4


def test_charts_take_the_colours_of_the_page_give_way_and_need_no_network(text: str) -> None:
    for chart in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        (root,) = Page(chart).all("svg")
        assert root["fill"] == "currentColor"
        assert "viewbox" in root
        assert "height" not in root
        styles = re.findall('style="([^"]*)"', chart)
        assert not [style for style in styles if "#000000" in style or "#ffffff" in style]
        assert "stroke: currentColor" in chart
        assert all(where.startswith("#") for where in re.findall(r"""(?:href="|url\()([^")]*)""", chart))
    assert "://" not in text


def test_one_input_and_one_attribution_have_no_interval() -> None:
    x = torch.ones(1, 4)
    problem = verax.Problem(torch.nn.Linear(4, 2), x)
    measured = verax.evaluate(problem, {"only": x}, ["pc"])
    page = results_page(measured, measured.rows, measured.seconds)
    assert page.count("<svg") == 2  # the mean and the curves
    assert "is the only one" in page
    assert "How faithful is the attribution?" in page
    assert 'type="radio"' not in page
    compared = comparison_page(verax.compare(problem, {"only": x}, ["pc"]))
    assert "there is no answer: one input shows no significant difference" in compared
    assert "How faithful is the attribution?" in compared  # the random one beside it is no attribution to choose


def test_guided_metrics_have_the_curves_of_each_attribution_best_first(comparison: Comparison, text: str) -> None:
    titles = [str(Page(chart).all("svg")[0]["aria-label"]) for chart in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    for metric in ("pc", "dpc"):
        ranked = [one.name for one in comparison.ranking(metric)]
        assert [title for title in titles if title.startswith(f"{metric.upper()}: mean curves")] == [
            f"{metric.upper()}: mean curves of {name}" for name in ranked
        ]
    assert not [title for title in titles if title.startswith("Infidelity: mean curves")]


def test_panels_that_stand_alone_share_their_scale(comparison: Comparison) -> None:
    charts = single_curves(comparison.evaluation["pc"])
    assert len({chart.axes[0].get_ylim() for _, chart in charts}) == 1
    curves = comparison.evaluation["pc"].curves()
    low, high = charts[0][1].axes[0].get_ylim()
    assert low < float(curves.mean(1).min())
    assert float(curves.mean(1).max()) < high


def test_every_metric_says_what_it_asks_and_which_way_is_better(comparison: Comparison, text: str) -> None:
    said = Page(text).text
    for result in comparison.evaluation.values():
        assert result.metric.asks in said
    assert said.count("Higher is better.") == 2
    assert said.count("Lower is better.") == 1
    assert said.count("It rates explanations of the model near the input.") == 2


def test_the_page_says_what_the_comparison_says(comparison: Comparison, text: str) -> None:
    said = Page(text).text
    assert list(comparison.answers) == ["local", "baseline"]
    assert all(answer in said for answer in comparison.answers.values())
    for metric in comparison.metrics:
        assert all(sentence.partition(": ")[2] in said for sentence in comparison.sentences(metric))
    cells = re.findall("<td>([^<]*)</td>", text)
    for verdicts in comparison.verdicts.values():
        assert all(verdict in cells for verdict in verdicts.values())
    assert text.count("<td><b>") == 1  # Infidelity, beside PC and DPC, which decide here and have verdicts


def test_the_page_of_plain_results_names_the_best() -> None:
    """Results that nobody compared have no random explanation, and so no verdicts."""
    given = {"itself": torch.randn(9, 4, generator=torch.Generator().manual_seed(0))}
    given |= {NASTY: -given["itself"], "squares": given["itself"].square()}
    measured = verax.evaluate(verax.Problem(torch.nn.Linear(4, 2), given["itself"]), given, "paper")
    page = results_page(measured, measured.rows, measured.seconds)
    plain = Comparison(measured, 0.95)
    for metric in plain.metrics:
        best, *ties = plain.best(metric)
        rest = f", but not significantly different from {', '.join(ties)}." if ties else "."
        assert f"{plain.evaluation.label(metric)}: {best} is the best{rest}" in Page(page).text
    assert page.count("<td><b>") == len(plain.metrics)


def test_words_for_a_score_that_is_no_class(comparison: Comparison) -> None:
    """The name of the score is said in the context of the results."""
    about = replace(next(iter(comparison.evaluation.values())).context.about, score="value")
    results = {
        name: replace(result, context=replace(result.context, score="house price", about=about))
        for name, result in comparison.evaluation.items()
    }
    found = results_page(results, 1, 1.0)
    assert "class" not in Page(found).text
    assert "house price" in Page(found).text
    assert "directed house price" in Page(found).text

"""Tables of results: what they say is what the results hold, in a terminal and in a notebook."""

import html
import re

import pytest
import torch

import calls
import verax
from report.examples import HOSTILE, classifier, evaluation, read_html, read_text, rows
from verax.core.display import MOST_ROWS, TextTable
from verax.evaluation.comparison import Comparison
from verax.evaluation.result import Evaluation
from verax.scoring.meter import Cost


@pytest.fixture(scope="module")
def found():
    return evaluation()


NAMES = ["pc", "dpc", "infidelity", "sensitivity_n", "infidelity_uncertainty"]


@pytest.mark.parametrize("metric", NAMES)
def test_html_and_text_hold_the_numbers_of_the_result(found, metric):
    result = found[metric]
    (head, *shown), tags = read_html(result._repr_html_())
    assert tags == {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert [row[0] for row in shown] == list(result.value)
    for name, mean, error, interval, *_ in shown:
        estimate = result.mean()[name]
        assert f"{mean} {interval}" == str(estimate)
        assert error == f"{estimate.standard_error:.2g}"
        reach = (estimate.high - estimate.low) / 2
        assert float(mean) == pytest.approx(float(result.value[name].double().mean()), abs=0.06 * reach)
    assert read_text(repr(result))[: len(shown) + 1] == [head, *shown]


def column(result, name):
    (head, *shown), _ = read_html(result._repr_html_())
    return {row[0]: float(row[head.index(name)]) for row in shown}


def test_every_metric_shows_what_it_has_beside_the_mean(found):
    for metric in ("pc", "dpc"):
        assert column(found[metric], "PES") == pytest.approx(found[metric].pes, rel=1e-2)
        assert column(found[metric], "CMI") == pytest.approx(found[metric].cmi, rel=1e-2)
    assert column(found["infidelity"], "Monte-Carlo error") == pytest.approx(
        found["infidelity"].mean_standard_error, rel=1e-2
    )
    by_size = {name: float(one[:, 1].mean()) for name, one in found["sensitivity_n"].by_size.items()}
    assert column(found["sensitivity_n"], "N = 2") == pytest.approx(by_size, rel=1e-2)
    spread = {name: one[1] for name, one in found["infidelity_uncertainty"].mean_resampled.items()}
    assert column(found["infidelity_uncertainty"], "sd, 40 draws") == pytest.approx(spread, rel=1e-2)


def test_the_caption_says_what_was_measured_and_what_it_cost(found):
    last, about = repr(found["pc"]).splitlines()[-2:]
    assert about.startswith("Model: Sequential; tracked: probability of the predicted class: 0 (")
    assert re.search(r"; removed features: 0; date: \d{4}-\d\d-\d\d\.$", about)
    assert last.startswith("pc: higher is better; 9 inputs; ")
    assert f"; {found['pc'].rows:,} model rows, " in last
    assert "lower is better" in repr(found["infidelity"])


def test_an_evaluation_is_one_table_of_all_metrics(found):
    (head, *shown), _ = read_html(found._repr_html_())
    assert head[:4] == [
        "attribution",
        "PC (higher is better)",
        "DPC (higher is better)",
        "Infidelity (lower is better)",
    ]
    for name, *cells in shown:
        assert [cell.removesuffix(" *") for cell in cells] == [str(found[metric].mean()[name]) for metric in NAMES]
    assert read_text(repr(found))[:4] == [head, *shown]
    assert "9 inputs with 95 % intervals; *: not significantly different from the best, paired; " in repr(found)
    assert f"; {found.rows:,} model rows, " in repr(found)
    assert str(found) == repr(found)


def test_the_best_is_bold_and_what_is_not_told_apart_from_it_has_a_star(found):
    """An evaluation shows of its metrics what a comparison of the same attributions says in words."""
    comparison = Comparison(found, 0.95)
    for shown in (found, comparison):
        page = shown._repr_html_()
        (_, *cells), _ = read_html(page)
        bold = [html.unescape(one) for one in re.findall("<b>(.*?)</b>", page)]
        assert "bold: the best" in page
        for at, metric in enumerate(NAMES, start=1):
            best = comparison.best(metric)
            assert {row[0] for row in cells if row[at].endswith(" *")} == set(best)
            assert f"{found[metric].mean()[best[0]]} *" in bold
        assert len(bold) == len(NAMES)


def test_one_attribution_is_neither_bold_nor_starred():
    found = evaluation(["only"], metrics=("pc",))
    assert "*" not in repr(found)
    assert "<b>" not in found._repr_html_()
    assert "bold" not in found._repr_html_()


@pytest.mark.parametrize("metric", [*NAMES, None])
def test_names_are_shown_and_not_run(found, metric):
    shown = found if metric is None else found[metric]
    assert "<script" not in shown._repr_html_()
    assert HOSTILE in [row[0] for row in read_html(shown._repr_html_())[0]]


def test_colours_are_those_of_the_page(found):
    styles = " ".join(re.findall('style="([^"]*)"', found._repr_html_()))
    assert set(re.findall(r"(?<![-\w])(?:background|color): *([^;]+)", styles)) == {"inherit"}
    assert re.findall(r"background|#|rgb|url", styles) == []


def test_a_comparison_shows_what_it_says(found):
    comparison = calls.compare(
        classifier(), rows(9, 6), {HOSTILE: rows(9, 6, seed=2), "noise": rows(9, 6, seed=3)}, samples=20
    )
    cells, tags = read_html(comparison._repr_html_())
    assert cells == comparison.cells()
    assert tags == {"p", "table", "caption", "thead", "tbody", "tr", "th", "td", "ul", "li", "b"}
    answers, table = repr(comparison).split("\n\n")[:2]
    assert answers.splitlines() == list(comparison.answers.values())
    assert read_text(table)[:4] == comparison.cells()


def test_no_tensor_is_printed(found):
    for shown in (found, *found.values()):
        assert "tensor" not in repr(shown)
        assert max(map(len, repr(shown).splitlines())) < 250


def test_the_form_of_the_attributions_gives_the_names():
    x, model = rows(5, 6), classifier()
    stacked = calls.prediction_change(model, x, torch.stack((x, -x)))
    assert stacked.labels == ("attribution 0", "attribution 1")
    assert [row[0] for row in read_html(stacked._repr_html_())[0]] == ["attribution", *stacked.labels]
    one = calls.evaluate(model, x, x, ("pc", "infidelity"), samples=10)
    assert [row[0] for row in read_html(one._repr_html_())[0]] == ["attribution", "attribution"]
    assert read_html(one._repr_html_())[0][1][1] == str(one["pc"].mean())


def test_numpy_and_torch_show_the_same():
    torch_found, numpy_found = (evaluation(numpy=numpy, metrics=("pc", "infidelity")) for numpy in (False, True))
    for metric in torch_found:
        assert read_html(torch_found[metric]._repr_html_())[0] == read_html(numpy_found[metric]._repr_html_())[0]


def test_one_input_has_no_interval():
    found = evaluation(inputs=1, metrics=("pc",))
    assert "[nan, nan]" in repr(found["pc"])
    assert "; 1 input; " in repr(found["pc"])


def test_many_attributions_are_cut():
    found = evaluation([f"number {place}" for place in range(100)], metrics=("pc", "dpc"))
    for shown in (found, found["pc"]):
        cells, _ = read_html(shown._repr_html_())
        assert len(cells) == 1 + MOST_ROWS + 1
        assert cells[-2][0] == f"number {MOST_ROWS - 1}"
        assert cells[-1] == [f"... and {100 - MOST_ROWS} more", *[""] * (len(cells[0]) - 1)]


def test_notes_stand_below():
    table = TextTable(("name", "mean"), (("a", "1"),), "One", ("<first>", "second"))
    assert table.text().splitlines()[2:] == ["One.", "", "<first>", "second"]
    assert table.html().endswith("<ul><li>&lt;first&gt;</li><li>second</li></ul>")


def test_an_evaluation_without_results_is_an_empty_table():
    assert repr(Evaluation({}, Cost())).splitlines()[0] == "attribution"


def test_attributions_show_their_names_shapes_and_gaps():
    model, inputs = torch.nn.Linear(4, 2), torch.randn(3, 4)
    methods = [verax.attribution.Gradient(), verax.attribution.IntegratedGradients(baseline="mean", points=4)]
    found = calls.attribute(methods, model, inputs, background=inputs)
    (_, *shown), _ = read_html(found._repr_html_())
    assert [row[0] for row in shown] == list(found)
    assert {row[1] for row in shown} == {"(3, 4)"}
    assert [row[2] != "" for row in shown] == [name in found.delta for name in found]
    assert f"{found.rows:,} model rows" in repr(found)

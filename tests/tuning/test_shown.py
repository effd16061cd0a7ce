"""What a search shows: code to paste, a table in a notebook, and a chart without a network."""

import pytest

from calls import tune
from tuning.conftest import SIX, some_inputs
from verax.attribution import LimeImage, Quickshift
from verax.core.registry import code_of


@pytest.fixture
def found(model):
    return tune(model, some_inputs(20), SIX)


def run(code):
    names = {}
    exec(code, names)  # noqa: S102  # code that was just written
    return eval(code.splitlines()[-1], names)  # noqa: S307


def test_the_code_makes_the_best_configuration_again(found):
    assert run(found.code) == found.best
    assert found.code in str(found)


def test_settings_that_are_objects_are_imported_as_well():
    method = LimeImage(segmenter=Quickshift(5.0, 4.0))
    assert run(code_of(method)) == method


def test_the_table_in_a_notebook_holds_the_best_first(found):
    page = found._repr_html_()
    assert page.count("<tr") == 1 + len(SIX)
    assert page.index(found.best.canonical.replace("'", "&#x27;")) < page.index("<table")
    assert "from verax.attribution import" in page


@pytest.mark.parametrize("metric", ["dpc", ("dpc", "cost")])
def test_the_chart_needs_no_network(model, tmp_path, metric):
    chart = tune(model, some_inputs(20), SIX, metric=metric).plot()
    assert set(chart._repr_mimebundle_()) == {"image/svg+xml"}
    assert "<svg" in chart._repr_mimebundle_()["image/svg+xml"]
    chart.save(tmp_path / "chart.html")
    for page in (chart.to_html(), (tmp_path / "chart.html").read_text()):
        assert 'src="http' not in page
        assert "cdn.jsdelivr.net/npm/vega" not in page.split("vegaEmbed")[0][:2000]

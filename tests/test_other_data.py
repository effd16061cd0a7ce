"""The tutorials on time series and tokens: they run, and what they tell about their numbers is true."""

import pytest
import torch

import verax
from pages import DOCS, run_page
from verax.metrics import PredictionChange

TUTORIALS = DOCS / "tutorials"


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    return run_page(TUTORIALS / "time-series.md", tmp_path_factory.mktemp("series"))


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return run_page(TUTORIALS / "tokens.md", tmp_path_factory.mktemp("texts"))


def accuracy(page):
    truth = page["fires"] if "fires" in page else page["labels"]
    return (page["predicted"] == truth[page["test"]]).double().mean()


def test_the_forecast_is_better_than_none(series):
    assert accuracy(series) > 0.9 > 1 - series["fires"][series["test"]].double().mean()


def test_no_reading_is_in_training_and_in_testing(series):
    start, test, length, ahead = (series[name] for name in ("start", "test", "length", "ahead"))
    seen = [
        {step for first in start[part.numpy()] for step in range(first, first + length + ahead)}
        for part in (test, ~test)
    ]
    assert not seen[0] & seen[1]


def test_what_the_page_says_about_windows(series):
    result = series["result"]
    for metric in ("pc", "dpc"):
        for one in ("IG", "DeepLiftSHAP"):
            assert all(result.pair(one, other, metric).word == "better" for other in ("gradient", "SmoothGrad", "LIME"))
            assert result.pair(one, "random", metric).word == "better"
    for one in ("gradient", "SmoothGrad", "LIME"):
        assert all(result.pair(one, other, "infidelity").word == "better" for other in ("IG", "DeepLiftSHAP", "random"))
    assert result.evaluation["pc"].steps == 12
    assert series["both"].steps == 20
    assert series["apart"].unique().numel() == 24


def test_the_classifier_of_sentences_is_better_than_none(texts):
    assert accuracy(texts) > texts["largest"] + 0.2
    assert set(texts["labels"].tolist()) == {0, 1, 2}


def test_functions_of_the_test_sentences_are_unknown_to_training(texts):
    names = [name for _, name in texts["origins"].values()]
    parts = [{name for name, held_out in zip(names, texts["test"], strict=True) if held_out == own} for own in (0, 1)]
    assert not parts[0] & parts[1]


def test_what_the_page_says_about_tokens(texts):
    result = texts["result"]
    for one in ("IG", "gradient x input"):
        assert all(result.pair(one, other, "pc").word == "better" for other in ("gradient", "random"))
    assert abs(result.pair("IG", "gradient x input", "pc").mean) < 0.05
    means = texts["infidelity"].mean()
    assert max(means["gradient"].high, means["IG, local"].high) < means["random"].low


def test_the_shortcut_that_the_page_tells_of_is_one(texts):
    out, shares = texts["vocabulary"]["out"], texts["attributions"]["IG"].sum(-1)
    tokens = texts["tokens"][texts["test"]]
    rows = ((tokens == out).any(1) & (texts["predicted"] == 1)).nonzero()[:, 0]
    first = tokens[rows, shares[rows].argmax(1)] == out
    assert len(rows) > 10
    assert first.double().mean() > 0.5


def test_curves_have_a_step_per_token(texts):
    points = texts["result"].evaluation["pc"].guided.points
    assert torch.equal(points, texts["present"].sum(1) + 1)
    assert texts["features"].shape == texts["x"].shape


def test_padding_does_not_matter_to_the_ranking(texts):
    """Tokens are removed as if their sentence were alone: the same curve, got by hand for some sentences."""
    head, x, present = texts["head"], texts["x"], texts["present"]
    scores, curves = texts["attributions"]["IG"].sum(-1), texts["result"].evaluation["pc"].morf["IG"]
    for row in range(0, len(x), 40):
        count, vectors = int(present[row].sum()), x[row].clone()
        target = int(head(x[row : row + 1]).argmax())
        for step, token in enumerate(scores[row, :count].argsort(descending=True, stable=True)):
            vectors[token] = 0
            wanted = head(vectors[None]).softmax(1)[0, target]
            torch.testing.assert_close(curves[row, step + 1], wanted.detach(), atol=1e-5, rtol=1e-4)


def test_every_class_can_be_asked_about(texts):
    x, features = texts["x"][:9], texts["features"][:9]
    ranked = {}
    for target in range(3):
        problem = verax.Problem(texts["head"], x, target=target, features=features)
        given = verax.attribution.Gradient()(problem) * x
        ranked[target] = PredictionChange()(problem, given).value
        assert ranked[target].shape == (9,)
    assert not torch.equal(ranked[0], ranked[1])


@pytest.mark.parametrize("page", ["series", "texts"])
def test_results_of_the_page_show_themselves(page, request):
    result = request.getfixturevalue(page)["result"]
    assert result.plot()._repr_png_()
    assert result.evaluation["pc"].plot()._repr_png_()
    assert all(name in result._repr_html_() for name in result.names)

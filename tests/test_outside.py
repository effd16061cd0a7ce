"""The page about outside material has the tables of its stored results, and its command runs."""

import importlib
import json
import math
import sys
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

import verax

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data" / "outside"


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for name in [name for name in sys.modules if name.split(".")[0] in ("outside", "outside_parts", "common")]:
        monkeypatch.delitem(sys.modules, name)

    return importlib.import_module("outside")


def test_the_tables_of_the_page_are_those_of_the_stored_results(outside: ModuleType) -> None:
    page = outside.PAGE.read_text()
    assert outside.rendered(page, outside.stored()) == page


def test_files_that_the_page_links_to_have_the_stored_results(outside: ModuleType) -> None:
    files = outside.files(outside.stored())
    assert {path.name: path.read_text() for path in outside.FILES.iterdir()} == files
    assert all(f"results/outside/{name}" in outside.PAGE.read_text() for name in files)


def test_sentences_of_the_page_have_the_numbers_of_its_files(outside: ModuleType) -> None:
    page = outside.PAGE.read_text()
    names = ("naopc-scores", "xai_units-trials")
    read = {name: pl.read_csv(outside.FILES / f"{name}.csv", infer_schema=False) for name in names}
    total = read["naopc-scores"].row(-1, named=True)
    assert f"Of {total['rows']} scores {total['compared']} can be compared; all agree, to {total['furthest']}" in page
    assert f"All limits take {total['seconds']} s." in page
    trials = {line["metric"]: line["failed"] for line in read["xai_units-trials"].to_dicts()}
    count = {name: failed.split()[0] for name, failed in trials.items()}
    assert (
        f"failed {trials['Effect correlation, 160 draws']} trials of slopes, Infidelity {count['Infidelity']}, "
        f"LPC {count['LPC']}, DPC {count['DPC, signed']} (by magnitude {count['DPC, by magnitude']}); under removal it "
        f"failed {trials['Effect correlation (removal), 160 draws']} of contributions, "
        f"Sensitivity-N {count['Sensitivity-N']}, PC {count['PC']}, comprehensiveness {count['Comprehensiveness']}"
    ) in page
    furthest = pl.read_csv(outside.FILES / "xai_bench-gaussian.csv").select("conditional means", "Shapley values").max()
    means, values = (f"{float(value):.1e}" for value in furthest.row(0))
    assert f"The furthest conditional mean is {means} away, the furthest Shapley value {values}" in page


def test_every_table_of_a_stored_part_stands_on_the_page_or_in_a_file(outside: ModuleType) -> None:
    blocks = {(match["part"], match["table"]) for match in outside.BLOCK.finditer(outside.PAGE.read_text())}
    tables = {(name, table) for name, own in outside.tables_of(outside.stored()).items() for table in own}
    assert blocks | set(outside.LONG) == tables
    assert not blocks & set(outside.LONG)


def test_results_are_stored_beside_those_of_other_parts(
    outside: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    part = ModuleType("part")
    part.measure = lambda data: {"folder": data.name}
    monkeypatch.setattr(outside, "JSON", tmp_path / "outside.json")
    monkeypatch.setattr(outside, "part", lambda name: part)
    outside.run("second", Path("b"))
    outside.run("first", Path("a"))
    parts = json.loads(outside.JSON.read_text())
    assert {name: content["measured"] for name, content in parts.items()} == {
        "first": {"folder": "a"},
        "second": {"folder": "b"},
    }


def test_all_of_it_takes_less_than_a_quarter_of_an_hour(outside: ModuleType) -> None:
    assert sum(content["processor_seconds"] for content in outside.stored().values()) < 15 * 60


def test_every_part_has_been_measured(outside: ModuleType) -> None:
    assert set(outside.stored()) == set(outside.part_names())


def test_published_scores_and_limits_are_those_that_the_page_says(outside: ModuleType) -> None:
    measured = outside.stored()["naopc"]["measured"]
    sets = measured["sets"]
    assert sum(one["compared"] for one in sets) == 24063
    assert max(max(one["furthest"].values()) for one in sets) < 1e-5
    assert all(one["lower_equal"] == one["limits"] and one["both_metrics"] for one in sets)
    assert sum(one["upper_too_high"] for one in sets) == len(measured["too_high"]) == 52
    assert sum(one["limits"] - one["upper_equal"] for one in sets) == 52
    from_zero = [abs(published - zero) < 1e-9 for *_, published, _, zero, _ in measured["too_high"]]
    assert sum(from_zero) == 49
    assert {name: len(rows) for name, rows in measured["missing"].items()} == {"not_a_number": 87, "extra_word": 150}


def test_published_outputs_give_the_stored_numbers_again(outside: ModuleType) -> None:
    """One of the twelve data sets, where the data are."""
    if absent := outside.missing("naopc", DATA):
        pytest.skip(f"needs {', '.join(absent)} in {DATA}, data of others that the project does not hold")
    measured = outside.stored()["naopc"]["measured"]
    stem = "sst2_bert-base-uncased-imdb"
    found = outside.part("naopc")._of_one(DATA / "naopc" / "results", stem)
    (stored,) = (one for one in measured["sets"] if f"{one['data']}_{one['classifier']}" == stem)
    assert {**found["set"], "seconds": 0, "furthest": 0} == {**stored, "seconds": 0, "furthest": 0}
    assert found["set"]["furthest"] == pytest.approx(stored["furthest"], rel=1e-6)
    for line, again in zip((one for one in measured["too_high"] if one[0] == stem), found["too_high"], strict=True):
        assert again[:3] == line[:3]
        assert again[3:] == pytest.approx(line[3:], abs=1e-12)


def test_outputs_of_texts_become_a_model(outside: ModuleType, tmp_path: Path) -> None:
    """Two words, whose removal costs 0.1 and 0.3, and together 0.5; the method has them in this order."""
    naopc = outside.part("naopc")
    removed = {"[]": 0.9, "[1]": 0.8, "[2]": 0.6, "[1, 2]": 0.4}
    logits = [math.log(one / (1 - one)) for one in removed.values()]
    outputs = {"id": [7] * 4, "word_key": list(removed), "positive_logit": logits, "negative_logit": [0.0] * 4}
    pl.DataFrame(outputs).write_parquet(tmp_path / "outputs.parquet")
    texts = naopc._texts(tmp_path / "outputs.parquet")
    assert (texts.ids, texts.words) == ([7], [2])
    attributions = {"id": [7] * 3, "explanation_method": ["a", "b", "c"]}
    words = [[9.0, 2.0, 1.0, 9.0], [9.0, None, 1.0, 9.0], [9.0, 2.0, 1.0, 3.0, 9.0]]
    values, left = naopc._values(texts, pl.DataFrame(attributions | {"word_attributions": words}))
    assert left == {"not_a_number": [(7, "b")], "extra_word": [(7, "c")]}
    found = verax.evaluate(texts.problem(), values["a"], naopc.METRICS)
    assert found["comprehensiveness"].value.item() == pytest.approx((0.1 + 0.5) / 2)
    assert found["sufficiency"].value.item() == pytest.approx((0.3 + 0.5) / 2)
    best = verax.limits(texts.problem(), naopc.METRICS)["comprehensiveness"]
    assert (best.best.item(), best.worst.item()) == (pytest.approx(0.4), pytest.approx(0.3))


@pytest.mark.filterwarnings("ignore")
def test_checks_of_captums_tests_agree(outside: ModuleType) -> None:
    captum = pytest.importorskip("outside_parts.captum_quantus", reason="needs captum and quantus")
    for case in captum.cases():
        for normalize in (False, True):
            found = captum._check(case, normalize)
            assert found["difference"] < 1e-12, found
            assert (found["from_expected"] or 0) < 1e-4  # to which Captum's own tests look
    assert all(one["difference"] < 1e-12 for one in captum._same_draws())
    assert all(one["difference"] < 1e-12 for one in outside.stored()["captum_quantus"]["measured"]["pixel_flipping"])


@pytest.mark.filterwarnings("ignore")
def test_conditional_means_and_shapley_values_are_those_of_the_closed_form(outside: ModuleType) -> None:
    for one in outside.part("xai_bench").measure(Path())["gaussian"]:
        assert max(one["means"], one["shapley"]) < 1e-12
        assert one["without_intercept"] == pytest.approx(one["expected_score"] / 5, abs=1e-5)
        assert one["with_intercept"] < 1e-5


def test_the_units_of_xai_units_are_as_the_page_says(outside: ModuleType) -> None:
    measured = outside.stored()["xai_units"]["measured"]
    failed = {one["metric"]: (len(one["failed"]), one["trials"]) for one in measured["trials"]}
    assert len(measured["units"]) == 8
    assert failed["Effect correlation, 160 draws"] == (0, 63)
    assert failed["Effect correlation (removal), 160 draws"] == (0, 78)
    assert failed["DPC, by magnitude"][0] > 40
    differ = {one["unit"] for one in measured["units"] if one.get("inputs_that_differ")}
    assert differ == {"interacting features", "conflicting features"}


def test_units_are_written_as_they_are_defined(outside: ModuleType) -> None:
    """Their own truths are contributions by the model itself: each sums to what the inputs score above the baseline."""
    for unit in outside.part("xai_units").units():
        if unit.theirs is not None:
            gained = (unit.model(unit.rows) - unit.model(unit.baseline)).tolist()
            assert unit.theirs.sum(1).tolist() == pytest.approx(gained), unit.name


def test_backgrounds_are_those_of_shap_and_shapiq(outside: ModuleType) -> None:
    measured = outside.stored()["backgrounds"]["measured"]
    assert len(measured["same"]) == 6
    assert max(measured["same"].values()) < 1e-12
    apart = [one["mean row"] for one in measured["conditional"]]
    assert (f"{min(apart):.2f}", f"{max(apart):.2f}") == ("0.44", "0.88")  # as the docstring of Conditional says
    assert max(one["drawn"] for one in measured["conditional"]) < 0.15


def test_kernel_shap_leaves_least_error_with_every_budget(outside: ModuleType) -> None:
    for game in outside.stored()["shapley"]["measured"]["games"]:
        for budget in {line["budget"] for line in game["lines"]}:
            errors = {line["who"]: line["error"] for line in game["lines"] if line["budget"] == budget}
            others = {name: error for name, error in errors.items() if not name.startswith("Verax")}
            assert errors["Verax KernelShap"] < min(others.values()), (game["game"], budget)
            permutations = errors.get("shap Permutation", math.inf)
            assert errors["Verax PermutationShap"] < permutations, (game["game"], budget)
        assert 0.93 < game["coverage"]["Verax KernelShap"] <= 1


def test_the_audit_of_an_onnx_image_classifier_ends_in_two_minutes_with_progress(outside: ModuleType) -> None:
    measured = outside.stored()["text_direction"]["measured"]
    assert measured["default"]["processor_seconds"] < 120
    assert measured["default"]["lines_of_progress"] > 10
    needed = {one["metric"]: one["inputs"] for one in measured["patches"]}
    assert needed["SRG"] < needed["Effect correlation (removal), 160 draws"]  # the counter-example

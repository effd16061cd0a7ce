"""The files of claims that studies of the paper's models leave behind, and the command that answers several at once."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from paper.synthetic import HELOC_MLP, ISIC_LINEAR, explained, runtime, study
from verax.paper import answered as module
from verax.paper.answered import AnsweredClaims, answer_claims, answer_report
from verax.paper.claim_rules_costs import read_runtime
from verax.paper.claims import SYMBOLS
from verax.paper.published import AS_READ
from verax.study.tables import Tables


def small(*models):
    return study(models, inputs=4, members=lambda model: explained(model.modality, 200))


def test_claims_are_written_as_in_the_paper_and_under_each_reading(tmp_path: Path) -> None:
    answered = answer_report(small(HELOC_MLP))
    assert answered is not None
    assert answered.readings is not None
    answered.save_report(tmp_path)
    text = (tmp_path / "claims.md").read_text()
    assert text.startswith(AS_READ)
    assert text.index("How each verdict is decided:") < text.index("Under each reading that was measured:")
    assert text.endswith(answered.readings.as_markdown())
    assert "ISIC-Linear" not in text
    table = pl.read_csv(tmp_path / "claims-by-reading.csv", null_values=[])
    assert table.height == answered.readings.to_frame().height
    assert table["reading"].unique(maintain_order=True)[0] == "as in the paper"


def test_without_another_reading_there_is_no_table_of_them(tmp_path: Path) -> None:
    AnsweredClaims(answer_report(small(HELOC_MLP)).claims, None).save_report(tmp_path)
    assert "Under each reading" not in (tmp_path / "claims.md").read_text()
    assert not (tmp_path / "claims-by-reading.csv").exists()


def timed(folder: Path, **changes: object) -> Path:
    """A file as the benchmark writes it."""
    table = runtime()
    content = {"device": "cpu", "shape": [64, 3, 224, 224], "rows": table.rows, "seconds": table.seconds, **changes}
    path = folder / "runtime_table.json"
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> dict[Path, Tables]:
    """Studies in memory instead of those in folders."""
    tables = {Path("heloc"): small(HELOC_MLP), Path("isic"): small(ISIC_LINEAR), Path("again"): small(HELOC_MLP)}

    def opened(folder: Path) -> SimpleNamespace:
        return SimpleNamespace(models={info.name: info for info in tables[folder].models}, folder=folder)

    monkeypatch.setattr(module, "open_study", opened)
    monkeypatch.setattr(module, "read_results", lambda study: SimpleNamespace(tables=tables[study.folder]))
    return tables


def test_claims_of_several_studies_are_answered_together(stored: dict[Path, Tables], tmp_path: Path) -> None:
    answered = answer_claims([Path("heloc"), Path("isic")], [timed(tmp_path)])
    (weaker,) = [claim for claim in answered.claims if "weaker on images" in claim.claim]
    assert weaker.verdict == "reproduced"
    assert {claim.model for claim in answered.claims if claim.number == 7} == {"HELOC-MLP", "ISIC-Linear"}
    clock = [claim.verdict for claim in answered.claims if claim.number == 14]
    assert clock == ["reproduced", "not reproduced"]  # nine times, in every run
    assert {claim.number for claim in answered.claims if claim.verdict == "not measured"} <= {9, 10, 11}  # few of LIME


def test_a_runtime_table_in_the_folder_of_a_study_is_read_too(stored: dict[Path, Tables]) -> None:
    stored[Path("heloc")] = replace(stored[Path("heloc")], runtimes=(runtime("HELOC-MLP"),))
    answered = answer_claims([Path("isic"), Path("heloc")])
    assert [claim.model for claim in answered.claims if claim.number == 14] == ["HELOC-MLP", "-"]


def test_a_model_in_two_studies_is_an_error_that_names_both(stored: dict[Path, Tables]) -> None:
    with pytest.raises(ValueError, match="HELOC-MLP in heloc and again"):
        answer_claims([Path("heloc"), Path("isic"), Path("again")])
    with pytest.raises(ValueError, match="HELOC-MLP in heloc and heloc"):
        answer_claims([Path("heloc"), Path("heloc")])


@pytest.mark.parametrize("ending", [".csv", ".json", ".md"])
def test_claims_are_saved_for_people_and_for_programs(stored: dict[Path, Tables], tmp_path: Path, ending: str) -> None:
    answered = answer_claims([Path("heloc")])
    path = tmp_path / f"claims{ending}"
    answered.save(path)
    if ending == ".md":
        assert path.read_text() == answered.as_markdown()
        return
    rows = pl.read_csv(path).to_dicts() if ending == ".csv" else json.loads(path.read_text())
    assert [row["verdict"] for row in rows] == [claim.verdict for claim in answered.claims]
    assert set(rows[0]) == {"number", "claim", "model", "paper", "ours", "verdict", "note", "rule"}
    assert {row["verdict"] for row in rows} <= set(SYMBOLS)


def test_everything_is_saved_as_small_tables(stored: dict[Path, Tables], tmp_path: Path) -> None:
    answered = answer_claims([Path("heloc"), Path("isic")])
    written = answered.save_all(tmp_path / "new")
    assert sorted(written) == sorted((tmp_path / "new").iterdir())
    names = {"claims.md", "claims.csv", "claims-by-reading.csv", "models.csv", "ranks.csv"}
    names |= {f"{kind}-{model}.csv" for kind in ("means", "errors") for model in ("HELOC-MLP", "ISIC-Linear")}
    assert {path.name for path in written} == names
    tables = stored[Path("heloc")]
    means = pl.read_csv(tmp_path / "new" / "means-HELOC-MLP.csv")
    matrix = tables.matrix("HELOC-MLP", "infidelity_plain")
    assert means["configuration"].to_list() == list(matrix.configurations)
    assert means["infidelity_plain"].to_list() == pytest.approx(matrix.values.mean(1).tolist(), rel=1e-5)
    assert all(len(f"{value:e}".split("e")[0].rstrip("0")) <= 7 for value in means["infidelity_plain"])


def test_ranks_say_how_metrics_agree_and_how_many_are_best_by_both(stored: dict[Path, Tables], tmp_path: Path) -> None:
    answered = answer_claims([Path("heloc")])
    answered.save_all(tmp_path)
    ranks = pl.read_csv(tmp_path / "ranks.csv")
    assert set(ranks["group"]) == {"LIME", "all others"}
    assert set(ranks["infidelity"]) == {"infidelity", "infidelity_plain"}
    (row,) = ranks.filter(metric="dpc_signed", infidelity="infidelity_plain", group="all others").to_dicts()
    (claim,) = [claim for claim in answered.claims if claim.claim == "Value of that correlation"]
    shown = f"{row['spearman']:+.2f} [{row['spearman_low']:+.2f}, {row['spearman_high']:+.2f}]"
    assert claim.ours == f"{shown} over {row['configurations']}"
    assert row["ties"] == row["infidelity_ties"] == 0
    assert 1 <= row["pareto_low"] <= row["pareto_high"] <= row["configurations"]


def test_a_runtime_table_is_called_after_what_was_timed(tmp_path: Path) -> None:
    assert read_runtime(timed(tmp_path)).subject == "ISIC-Inception"
    assert read_runtime(timed(tmp_path, shape=[8, 1, 8, 8])).subject == "images of 1 x 8 x 8"
    assert read_runtime(timed(tmp_path, shape=[8, 20])).subject == "a table of 20 features"
    assert read_runtime(timed(tmp_path, model="HELOC-MLP")).subject == "HELOC-MLP"


@pytest.mark.parametrize("changes", [{"seconds": {}}, {"shape": None}, {"rows": None, "seconds": None}])
def test_a_file_that_is_no_runtime_table_is_named(tmp_path: Path, changes: dict[str, object]) -> None:
    path = timed(tmp_path, **changes)
    with pytest.raises(ValueError, match=r"runtime_table.json: expected a table of benchmarks/runtime_table.py"):
        read_runtime(path)
    path.write_text("{")
    with pytest.raises(ValueError, match="cannot be read as JSON"):
        read_runtime(path)
    short = timed(tmp_path, seconds={case: times[:1] for case, times in runtime().seconds.items()})
    with pytest.raises(ValueError, match="at least two runs"):
        read_runtime(short)

"""The files of claims that a study of the paper's models leaves behind."""

from pathlib import Path

import polars as pl

from analysis.synthetic import HELOC_MLP, explained, study
from verax.report.view import View
from verax.study.report import _write_claims


def test_claims_are_written_as_in_the_paper_and_under_each_reading(tmp_path: Path) -> None:
    view = View(study([HELOC_MLP], inputs=4, members=lambda model: explained(model.modality, 200)), ())
    assert view.readings is not None
    _write_claims(tmp_path, view.all_claims, view.readings)
    text = (tmp_path / "claims.md").read_text()
    assert text.index("How each verdict is decided:") < text.index("Under each reading that the study measured:")
    assert text.endswith(view.readings.as_markdown())
    table = pl.read_csv(tmp_path / "claims-by-reading.csv", null_values=[])
    assert table.height == view.readings.to_frame().height
    assert table["reading"].unique(maintain_order=True)[0] == "as in the paper"


def test_without_another_reading_there_is_no_table_of_them(tmp_path: Path) -> None:
    view = View(study([HELOC_MLP], inputs=4, members=lambda model: explained(model.modality, 200)), ())
    _write_claims(tmp_path, view.all_claims, None)
    assert "Under each reading" not in (tmp_path / "claims.md").read_text()
    assert not (tmp_path / "claims-by-reading.csv").exists()

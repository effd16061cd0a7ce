"""Verification: a finished study agrees with itself, and a changed number does not go unnoticed."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from study.studies import HERE, flip, ran, spec, table
from verax.study.explained_models import Machine
from verax.study.store import Store, StoreError, parquet, read_facts
from verax.study.study import open_study
from verax.study.verify import Verdict, read_verdict, verify, write_verdict

NOISY = ("infidelity", "infidelity_baseline", "effect_correlation", "effect_correlation_baseline")
FLOATS = [
    "pc",
    "dpc_magnitude",
    "dpc_signed",
    "dpc_literal",
    *NOISY,
    *(f"{name}_se" for name in NOISY),
    "attribution_norm",
]


def resealed(path: Path, change: Callable[[pl.DataFrame], pl.DataFrame], **facts: Any) -> None:
    """Change a table and write it under a name that fits, as a careful forger would."""
    content = parquet(change(pl.read_parquet(path)), {**read_facts(path), **facts})
    stem = path.name.rsplit(".", 2)[0]
    path.unlink()
    Store(path.parent.parent).put("scores", stem, content, ".parquet")


def first(folder: Path) -> Path:
    return sorted((folder / "scores").iterdir())[0]


def nudged(name: str, row: int, by: float = 1e-6) -> Callable[[pl.DataFrame], pl.DataFrame]:
    def change(table: pl.DataFrame) -> pl.DataFrame:
        values = table[name].to_list()
        values[row] += max(abs(values[row]) * 1e-6, by)
        return table.with_columns(pl.Series(name, values, dtype=table.schema[name]))

    return change


def test_a_study_agrees_with_itself_bit_for_bit(finished: Path) -> None:
    told: list[str] = []
    study = open_study(finished)
    verdict = verify(study, 1.0, HERE, tell=told.append)
    assert verdict == Verdict(8, 8, (2 * 15 * 10 + 8 * 3) * (2 + len(FLOATS)), True, ())
    assert verdict.passed
    assert told == sorted(unit.stem for unit in study.units)


@pytest.mark.parametrize("name", FLOATS)
def test_one_changed_number_is_found(name: str, copied: Path) -> None:
    resealed(first(copied), nudged(name, 17))
    verdict = verify(open_study(copied), 0.01, HERE, seed=seed_of(copied, first(copied)))
    (line,) = verdict.different
    assert not verdict.passed
    row = pl.read_parquet(first(copied)).row(17, named=True)
    assert f": {name}: {row[name]} is stored" in line
    assert f"for {row['configuration']}, input {row['input_id']}." in line


def seed_of(folder: Path, path: Path) -> int:
    """A seed that samples this unit."""
    study = open_study(folder)
    place = next(number for number, unit in enumerate(study.units) if path.name.startswith(unit.stem))
    units = list(study.units)
    return next(seed for seed in range(1000) if random.Random(seed).sample(units, 1) == [units[place]])  # noqa: S311  # no secret


CHANGES: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "another target": lambda table: table.with_columns((1 - pl.col("target")).alias("target")),
    "another row number": lambda table: table.with_columns(pl.col("input") + 1),
    "a number taken out": lambda table: table.with_columns(pl.lit(None, pl.Float64).alias("infidelity")),
    "no number": lambda table: table.with_columns(pl.lit(float("nan"), pl.Float32).alias("pc")),
    "without end": lambda table: table.with_columns(pl.lit(float("inf"), pl.Float32).alias("pc")),
    "another order": lambda table: table.reverse(),
    "rows taken out": lambda table: table.head(20),
    "a column taken out": lambda table: table.drop("pc"),
    "a column more": lambda table: table.with_columns(pl.lit(1).alias("x")),
    "a column of another type": lambda table: table.with_columns(pl.col("pc").cast(pl.Float64)),
    "another method": lambda table: table.with_columns(pl.lit("Random").cast(pl.Categorical).alias("method")),
    "the other orientation": lambda table: table.with_columns(~pl.col("local")),
    "another id": lambda table: table.with_columns(pl.col("input_id") + "x"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_other_changes_are_found(change: Callable[[pl.DataFrame], pl.DataFrame], copied: Path) -> None:
    resealed(first(copied), change)
    verdict = verify(open_study(copied), 0.01, HERE, seed=seed_of(copied, first(copied)))
    assert len(verdict.different) == 1
    assert first(copied).name.rsplit(".", 2)[0] in verdict.different[0]


def test_the_largest_of_the_wrong_numbers_is_named(trained: Path) -> None:
    """Also where a column has numbers that are rightly none: with one draw there is no standard error."""
    metrics = {"list": ["pc", {"metric": "infidelity", "normalize": False}], "samples": 1}
    ran(spec(table(limit=4), metrics=metrics, uncertainty={"inputs": 0}, examples=0), trained)
    assert pl.read_parquet(first(trained))["infidelity_se"].is_nan().all()
    assert verify(open_study(trained), 1.0, HERE).passed

    def change(own: pl.DataFrame) -> pl.DataFrame:
        return (
            nudged("pc", 7, 0.1)(nudged("pc", 3, 0.01)(own))
            .with_columns(
                pl.when(pl.int_range(pl.len()) == 5).then(0.0).otherwise(pl.col("infidelity_se")).alias("infidelity_se")
            )
            .cast({"infidelity_se": pl.Float32})
        )

    resealed(first(trained), change)
    wrong, error = verify(open_study(trained), 1.0, HERE).different
    rows = pl.read_parquet(first(trained))
    assert f"pc: {rows['pc'][7]} is stored" in wrong
    assert "infidelity_se: 0.0 is stored, nan computed" in error


def test_on_another_machine_rounding_is_allowed(copied: Path) -> None:
    """A relative change of 1e-6 passes where versions differ, a large one does not."""
    other = {"versions": {"torch": "1.0"}}
    resealed(first(copied), nudged("pc", 3, 0.0), **other)
    verdict = verify(open_study(copied), 1.0, HERE)
    assert verdict.passed
    assert not verdict.bitwise
    resealed(first(copied), nudged("pc", 3, 0.01), **other)
    assert len(verify(open_study(copied), 1.0, HERE).different) == 1


def test_another_batch_size_agrees_within_tolerance(copied: Path) -> None:
    for path in sorted((copied / "scores").iterdir()):
        resealed(path, lambda own: own, device="another device")
    verdict = verify(open_study(copied), 0.3, Machine(batch_size=7))
    assert verdict.passed
    assert not verdict.bitwise


def test_the_sample_is_a_share_at_least_one_and_the_same_for_a_seed(finished: Path) -> None:
    study = open_study(finished)
    sampled: dict[tuple[float, int], list[str]] = {}
    for share, seed, count in ((0.001, 0, 1), (0.001, 1, 1), (0.001, 2, 1), (0.25, 0, 2), (0.3, 0, 3)):
        for _ in range(2 if seed else 1):
            told: list[str] = []
            verdict = verify(study, share, HERE, seed, told.append)
            assert (verdict.sampled, len(told), len(set(told))) == (count, count, count)
            assert sampled.setdefault((share, seed), told) == told
    assert len({tuple(told) for told in sampled.values()}) > 2


def test_missing_and_damaged_units_are_told(copied: Path) -> None:
    study = open_study(copied)
    paths = sorted((copied / "scores").iterdir())
    paths[0].unlink()
    flip(paths[1], 50)
    (copied / "scores" / "notes.txt").write_text("x")
    different = verify(study, 0.01, HERE).different
    assert f"scores/{paths[1].name}: damaged: its content is not what its name says" in different
    assert "scores/notes.txt: not a file of a study" in different
    assert "2 of 8 units are missing; run the study to the end." in different
    assert len(different) == 3
    for path in paths[1:]:
        path.unlink()
    with pytest.raises(StoreError, match="no finished unit to verify"):
        verify(study, 0.01, HERE)


def test_verification_does_not_believe_the_cache(copied: Path) -> None:
    """Attributions in the cache may be wrong without anyone knowing; they are not used."""
    for path in (copied / "attributions").iterdir():
        path.unlink()
    verdict = verify(open_study(copied), 0.2, HERE)
    assert verdict.passed
    assert not list((copied / "attributions").iterdir())


def test_the_verdict_is_kept(copied: Path) -> None:
    store = Store(copied)
    write_verdict(store, Verdict(8, 1, 20, True, ("x differs",)))
    found = read_verdict(store)
    kept = json.loads((copied / "verified.json").read_text())
    assert found == {
        "units": 8,
        "sampled": 1,
        "values": 20,
        "bitwise": True,
        "different": ["x differs"],
        "passed": False,
        "state": store.state(),
    }
    assert found.items() <= kept.items()
    assert kept.keys() - found.keys() == {"seal"}

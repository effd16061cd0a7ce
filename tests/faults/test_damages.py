"""Files of every kind, damaged and swapped: each is named, none is used, and the table is that of a whole study."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.conftest import COUNTS, MORE
from study.studies import flip, ran, same, scores
from study.test_swapped import swap
from verax.study.spec import StudySpec
from verax.study.store import Store
from verax.study.verify import Verdict, read_verdict, write_verdict

KINDS = {
    "scores": "scores/*.parquet",
    "uncertainty": "uncertainty/*.parquet",
    "examples": "examples/*.safetensors",
    "cache": "attributions/*.safetensors",
    "model": "models/*.safetensors",
    "sidecar": "models/*.json",
    "spec": "study.toml",
}
FLIPS = 1 * MORE


def some_bit(path: Path, chance: random.Random) -> None:
    flip(path, chance.randrange(path.stat().st_size), chance.randrange(8))


def end_missing(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(len(content))])


def check_mended(small: StudySpec, spoilt: Path, wanted: Path, names: list[str], said: Callable[[], str]) -> None:
    """Run again: the damage is named, and every result is the same as before."""
    _, lines = ran(small, spoilt)
    told = "\n".join([*lines, said()])
    for name in names:
        assert name in told, (name, told)
    assert same(scores(spoilt), scores(wanted))
    for kind in ("uncertainty", "examples"):
        assert sorted(path.name for path in (spoilt / kind).iterdir()) == sorted(
            path.name for path in (wanted / kind).iterdir()
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", [some_bit, end_missing], ids=lambda damage: damage.__name__)
def test_damaged_files_are_found(
    kind: str,
    damage: Callable[[Path, random.Random], None],
    small: StudySpec,
    spoilt: Path,
    whole_study: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    chance = random.Random(f"{kind} {damage.__name__}")  # noqa: S311  # no secret
    for _ in range(FLIPS):
        path = chance.choice(sorted(spoilt.glob(KINDS[kind])))
        if kind == "cache":
            shutil.rmtree(spoilt / "scores")  # so that the cache is asked
        damage(path, chance)
        check_mended(small, spoilt, whole_study, [path.stem.split(".")[0]], lambda: capfd.readouterr().err)
        COUNTS["damages found"] += 1


@pytest.mark.parametrize("kind", ["scores", "uncertainty", "examples", "cache", "model"])
def test_swapped_files_are_found(
    kind: str, small: StudySpec, spoilt: Path, whole_study: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if kind == "cache":
        shutil.rmtree(spoilt / "scores")
    one, *_, other = sorted(spoilt.glob(KINDS[kind]))
    if kind == "model":
        for suffix in (".safetensors", ".json"):
            first, second = one.with_suffix(suffix), other.with_suffix(suffix)
            contents = second.read_bytes(), first.read_bytes()
            first.write_bytes(contents[0])
            second.write_bytes(contents[1])
    else:
        swap(one, other)
    names = [path.name.split(".")[0] for path in (one, other)]
    check_mended(small, spoilt, whole_study, names, lambda: capfd.readouterr().err)
    COUNTS["damages found"] += 2


@pytest.mark.filterwarnings("always:.*verified.json:UserWarning")
def test_a_damaged_verdict_is_never_believed(spoilt: Path) -> None:
    store, path, chance = Store(spoilt), spoilt / "verified.json", random.Random(3)  # noqa: S311  # no secret
    write_verdict(store, Verdict(8, 1, 20, True, ()))
    whole = path.read_bytes()
    assert read_verdict(store) is not None
    for number in range(20 * MORE):
        path.write_bytes(whole)
        (some_bit, end_missing)[number % 2](path, chance)
        with pytest.warns(UserWarning, match="verified.json: damaged"):
            assert read_verdict(store) is None
        COUNTS["damages found"] += 1


def test_a_damaged_checkpoint_is_set_aside_and_training_begins_anew(
    small: StudySpec, spoilt: Path, whole_study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study that is killed while it trains, and whose checkpoint then rots."""
    chance = random.Random(4)  # noqa: S311  # no secret
    for suffix in (".safetensors", ".json"):
        (spoilt / "models" / f"Cancer-Linear{suffix}").unlink()
    with monkeypatch.context() as patch:
        patch.setattr("verax.paper.models.shipped.save", stopped)
        with pytest.raises(SystemExit):
            ran(small, spoilt)
    checkpoint = spoilt / "models" / "Cancer-Linear.checkpoint"
    whole = checkpoint.read_bytes()
    for _ in range(2 * MORE):
        checkpoint.write_bytes(whole)
        some_bit(checkpoint, chance)
        _, lines = ran(small, spoilt)
        assert any("Cancer-Linear.checkpoint is damaged" in line and "set-aside/" in line for line in lines)
        name = "models/Cancer-Linear.safetensors"
        assert (spoilt / name).read_bytes() == (whole_study / name).read_bytes()
        assert same(scores(spoilt), scores(whole_study))
        (spoilt / name).unlink()
        COUNTS["damages found"] += 1


def stopped(*arguments: object, **settings: object) -> None:
    raise SystemExit("killed")

"""ISIC: miniature copies of the publishers' layouts, what can be wrong with them, the cache, and the real images."""

import csv
import itertools
import json
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from verax.data.base import as_numbers, fingerprint
from verax.datasets import Dataset
from verax.paper import images
from verax.paper.isic import lesion_groups, load_isic, load_isic_with_report
from verax.paper.isic_labels import read_labels

REAL = Path(__file__).parents[2].parent / "shared" / "data" / "isic"


def image(path: Path, seed: int, width: int = 40, height: int = 30) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(coarse).resize((width, height)).save(path)


def table(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(line.strip() for line in text.strip().splitlines()) + "\n", encoding="utf-8")


def year_2016(root: Path) -> dict[str, int]:
    table(root / "ISBI2016_GroundTruth.csv", "image_id,label\nISIC_0000001,benign\nISIC_0000002,malignant")
    for number in (1, 2):
        image(root / "ISBI2016_Data" / f"ISIC_000000{number}.jpg", number)
    return {"ISIC_0000001": 0, "ISIC_0000002": 1}


def year_2017(root: Path) -> dict[str, int]:
    rows = "ISIC_0000011,1.0,0.0\nISIC_0000012,0.0,1.0\nISIC_0000013,0.0,0.0"
    table(root / "ISIC-2017_GroundTruth.csv", f"image_id,melanoma,seborrheic_keratosis\n{rows}")
    table(root / "ISIC-2017_Data" / "metadata.csv", "image_id,age_approximate,sex\nISIC_0000011,50,male")
    for number in (11, 12, 13):
        image(root / "ISIC-2017_Data" / f"ISIC_00000{number}.jpg", number)
        image(root / "ISIC-2017_Data" / f"ISIC_00000{number}_superpixels.png", 0)
    return {"ISIC_0000011": 1, "ISIC_0000012": 0, "ISIC_0000013": 0}


def one_hot(root: Path, year: int, columns: str, first: int, malignant: set[str]) -> dict[str, int]:
    names, labels, lines = columns.split(","), {}, [f"image,{columns}"]
    for place, name in enumerate(names):
        isic_id = f"ISIC_{first + place:07}"
        lines.append(",".join([isic_id, *("1.0" if place == other else "0.0" for other in range(len(names)))]))
        image(root / f"ISIC{year}_Input" / f"{isic_id}.jpg", first + place)
        if name != "UNK":
            labels[isic_id] = int(name in malignant)
    table(root / f"ISIC{year}_GroundTruth.csv", "\n".join(lines))
    return labels


def year_2018(root: Path) -> dict[str, int]:
    return one_hot(root, 2018, "MEL,NV,BCC,AKIEC,BKL,DF,VASC", 100, {"MEL", "BCC", "AKIEC"})


def year_2019(root: Path) -> dict[str, int]:
    return one_hot(root, 2019, "MEL,NV,BCC,AK,BKL,DF,VASC,SCC,UNK", 200, {"MEL", "BCC", "AK", "SCC"})


def year_2020(root: Path) -> dict[str, int]:
    rows = "ISIC_0000301,IP_1,IL_1,male,benign,0\nISIC_0000302,IP_1,IL_1,male,malignant,1\nISIC_0000303,IP_2,,,benign,0"
    table(root / "2020" / "gt.csv", f"image_name,patient_id,lesion_id,sex,benign_malignant,target\n{rows}")
    for number in (301, 302, 303):
        image(root / "2020" / "train" / f"ISIC_0000{number}.jpg", number)
    return {"ISIC_0000301": 0, "ISIC_0000302": 1, "ISIC_0000303": 0}


YEARS: dict[int, Callable[[Path], dict[str, int]]] = {
    2016: year_2016, 2017: year_2017, 2018: year_2018, 2019: year_2019, 2020: year_2020,
}  # fmt: skip


def one_folder(root: Path, count: int = 6, folder: str = "images", suffix: str = "webp") -> Path:
    rows = [f"ISIC_{n:07},nv,{n % 2},2018,{'HAM_' + str(n // 2) if n < 4 else ''}" for n in range(count)]
    table(root / "labels.csv", "\n".join(["isic_id,dx,malignant,year,lesion_id", *rows]))
    for number in range(count):
        image(root / folder / f"ISIC_{number:07}.{suffix}", number)
    return root


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Dataset]:
    def loaded(root: Path, **settings: Any) -> Dataset:
        return load_isic(root, cache=tmp_path / "cache", **settings)

    return loaded


COMBINATIONS = [years for count in range(1, 6) for years in itertools.combinations(YEARS, count)]


@pytest.mark.parametrize("years", COMBINATIONS, ids=lambda years: "+".join(map(str, years)))
def test_labels_of_any_combination_of_years(tmp_path: Path, years: tuple[int, ...]) -> None:
    wanted: dict[str, int] = {}
    for year in years:
        wanted |= YEARS[year](tmp_path)
    labels = read_labels(tmp_path)
    assert {row.isic_id: int(row.malignant) for row in labels.rows} == wanted
    assert [row.isic_id for row in labels.rows] == sorted(wanted)
    assert None not in labels.images
    assert labels.unknown == (2019 in years)
    assert labels.repeated == 0
    assert labels.conflicts == ()


def test_all_years_become_one_data_set(tmp_path: Path, load: Callable[..., Dataset]) -> None:
    root = tmp_path / "data"
    wanted: dict[str, int] = {}
    for build in YEARS.values():
        wanted |= build(root)
    data = load(root)
    assert data.name == "isic"
    assert dict(zip(data.ids, data.labels.tolist(), strict=True)) == wanted
    assert data.inputs.shape == (len(wanted), 3, 224, 224)
    assert data.inputs.dtype == np.uint8
    assert isinstance(data.inputs, np.memmap)
    assert data.class_names == ("benign", "malignant")
    assert data.feature_names == ()
    assert data.fingerprint == fingerprint(data.inputs, data.labels, data.ids)
    for row in (0, 7, len(wanted) - 1):
        [file] = root.rglob(f"{data.ids[row]}.jpg")
        assert np.array_equal(data.inputs[row], images.read_image(file, 224))


@pytest.mark.parametrize("folder", ["images", "."])
@pytest.mark.parametrize("suffix", ["webp", "jpg", "png", "JPG"])
def test_one_folder_with_labels(tmp_path: Path, load: Callable[..., Dataset], folder: str, suffix: str) -> None:
    data = load(one_folder(tmp_path / "data", folder=folder, suffix=suffix))
    assert data.ids == tuple(f"ISIC_{n:07}" for n in range(6))
    assert data.labels.tolist() == [0, 1] * 3


def test_standardisation_is_that_of_the_training_pixels(tmp_path: Path, load: Callable[..., Dataset]) -> None:
    data = load(one_folder(tmp_path / "data"), seed=3)
    train = as_numbers(data.inputs[data.split.train]).double()
    assert data.standardisation.mean.shape == (3, 1, 1)
    assert np.allclose(data.standardisation.mean.flatten(), train.mean((0, 2, 3)), atol=1e-6)
    assert np.allclose(data.standardisation.std.flatten(), train.std((0, 2, 3), correction=0), atol=1e-6)
    inputs, _ = data.part("train")
    assert abs(float(inputs.mean())) < 1e-4


def test_a_constant_channel_is_only_centred(tmp_path: Path, load: Callable[..., Dataset]) -> None:
    root = one_folder(tmp_path / "data", count=1)
    Image.new("RGB", (30, 30), (10, 20, 30)).save(root / "images" / "ISIC_0000000.webp", lossless=True)
    assert load(root).standardisation.std.flatten().tolist() == [1, 1, 1]


def test_no_lesion_is_on_two_sides(tmp_path: Path, load: Callable[..., Dataset]) -> None:
    count = 40
    root = one_folder(tmp_path / "data", count=count)
    rows = [f"ISIC_{n:07},nv,0,2018,{f'HAM_{n % 9}' if n < 30 else ''}" for n in range(count)]
    table(root / "labels.csv", "\n".join(["isic_id,dx,malignant,year,lesion_id", *rows]))
    for seed in range(5):
        split = load(root, seed=seed).split
        sides = [{row % 9 for row in part if row < 30} for part in (split.train, split.validation, split.test)]
        assert sum(map(len, sides)) == len(set.union(*sides)) == 9
        assert sorted(np.concatenate([split.train, split.validation, split.test])) == list(range(count))


def test_groups_join_through_any_shared_name() -> None:
    a, b, c, d, e = lesion_groups(list("abcde"), [{"L1"}, {"L1", "L2"}, {"L2"}, (), {"image d"}])
    assert a == b == c
    assert len({a, d, e}) == 3


def test_a_second_table_can_name_the_lesions(tmp_path: Path) -> None:
    year_2018(tmp_path)
    table(tmp_path / "LesionGroupings.csv", "image,lesion_id,diagnosis_confirm_type\nISIC_0000100,HAM_7,histo")
    rows = {row.isic_id: row.lesions for row in read_labels(tmp_path).rows}
    assert rows["ISIC_0000100"] == ("HAM_7",)
    assert rows["ISIC_0000101"] == ()


def test_the_header_of_2016_may_be_missing(tmp_path: Path) -> None:
    year_2016(tmp_path)
    table(tmp_path / "ISBI2016_GroundTruth.csv", "ISIC_0000001,0.0\nISIC_0000002,1.0")
    assert [row.malignant for row in read_labels(tmp_path).rows] == [False, True]


def test_tables_are_known_by_header_not_by_name(tmp_path: Path) -> None:
    wanted = year_2018(tmp_path) | year_2017(tmp_path)
    (tmp_path / "ISIC2018_GroundTruth.csv").rename(tmp_path / "labels_2016.csv")
    (tmp_path / "ISIC-2017_GroundTruth.csv").rename(tmp_path / "labels.csv")
    content = (tmp_path / "labels.csv").read_text()
    (tmp_path / "labels.csv").write_text(content.replace("image_id,melanoma", " Image_ID , Melanoma"), "utf-8-sig")
    rows = read_labels(tmp_path).rows
    assert {row.isic_id: int(row.malignant) for row in rows} == wanted
    assert {row.year for row in rows} == {2017, 2018}


def test_the_newest_label_of_an_id_wins_and_conflicts_are_named(tmp_path: Path) -> None:
    year_2016(tmp_path / "a")
    header = "image,MEL,NV,BCC,AK,BKL,DF,VASC,SCC,UNK"
    rows = "ISIC_0000001_downsampled,1,0,0,0,0,0,0,0,0\nISIC_0000002_downsampled,1,0,0,0,0,0,0,0,0"
    table(tmp_path / "b" / "2019.csv", f"{header}\n{rows}")
    for number in (1, 2):
        image(tmp_path / "b" / f"ISIC_000000{number}_downsampled.jpg", number, 20, 15)
    with pytest.warns(UserWarning, match="1 images have contradicting labels: ISIC_0000001 is malignant in b/2019.csv"):
        data, report = load_isic_with_report(tmp_path, cache=tmp_path / "cache")
    assert data.ids == ("ISIC_0000001", "ISIC_0000002")
    assert data.labels.tolist() == [1, 1]
    assert report.repeated == 2
    assert "benign in a/ISBI2016" in report.conflicts[0]
    assert [file.name for file in read_labels(tmp_path).images if file] == [
        "ISIC_0000001_downsampled.jpg",
        "ISIC_0000002_downsampled.jpg",
    ]


def test_images_with_the_same_content_are_taken_once(tmp_path: Path) -> None:
    """ISIC_0000302 of 2020 shows what ISIC_0000001 (2016, benign) and ISIC_0000100 (2018, malignant) show."""
    root = tmp_path / "data"
    wanted = year_2016(root) | year_2018(root) | year_2020(root)
    table(root / "lesions.csv", "image_id,lesion_id\nISIC_0000100,HAM_1\nISIC_0000101,HAM_1")
    source = root / "2020" / "train" / "ISIC_0000302.jpg"
    for copy in ("ISBI2016_Data/ISIC_0000001.jpg", "ISIC2018_Input/ISIC_0000100.jpg"):
        shutil.copy(source, root / copy)
    for _ in range(2):
        with pytest.warns(UserWarning, match="ISIC_0000302 is malignant in 2020/gt.csv .kept., ISIC_0000100"):
            data, report = load_isic_with_report(root, cache=tmp_path / "cache")
        assert report.duplicates == {"ISIC_0000001": "ISIC_0000302", "ISIC_0000100": "ISIC_0000302"}
        assert set(data.ids) == set(wanted) - set(report.duplicates)
        assert data.labels[data.ids.index("ISIC_0000302")] == 1
        for row, isic_id in enumerate(data.ids):
            [file] = root.rglob(f"{isic_id}.jpg")
            assert np.array_equal(data.inputs[row], images.read_image(file, 224))
    [entry] = (tmp_path / "cache" / "isic").iterdir()
    groups = dict(zip(data.ids, json.loads((entry / "entry.json").read_text())["groups"], strict=True))
    assert groups["ISIC_0000101"] == groups["ISIC_0000301"] == groups["ISIC_0000302"], "a copy's lesion was forgotten"


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:60])


def test_damaged_images_stop_the_load_or_are_skipped(tmp_path: Path, load: Callable[..., Dataset]) -> None:
    root = one_folder(tmp_path / "data", count=14)
    for number in range(12):
        truncate(root / "images" / f"ISIC_{number:07}.webp")
    for _ in range(2):  # decoded, then from the cache
        with pytest.raises(ValueError, match=r"12 images .* ISIC_0000009 .*, and 2 more\. .*on_damage=.skip") as caught:
            load(root)
        assert "ISIC_0000010" not in str(caught.value)
    with pytest.warns(UserWarning, match="Left out 12 images: ISIC_0000000 .") as warned:
        data = load(root, on_damage="skip")
    assert len(warned) == 1
    assert data.ids == ("ISIC_0000012", "ISIC_0000013")
    assert np.array_equal(data.inputs[0], images.read_image(root / "images" / "ISIC_0000012.webp", 224))


def test_missing_images_stop_the_load_or_are_skipped(tmp_path: Path, load: Callable[..., Dataset]) -> None:
    root = one_folder(tmp_path / "data")
    (root / "images" / "ISIC_0000002.webp").unlink()
    (root / "images" / "ISIC_0000003.webp").unlink()
    (root / "images" / "ISIC_0000003.webp").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"2 of 6 images .*: ISIC_0000002, ISIC_0000003\. .*on_damage=.skip"):
        load(root)
    assert not (tmp_path / "cache").exists()
    with pytest.warns(UserWarning, match="ISIC_0000002 .missing., ISIC_0000003 .missing."):
        assert len(load(root, on_damage="skip")) == 4


@pytest.mark.parametrize("spoil", [truncate, Path.unlink])
def test_nothing_left_is_an_error_even_when_skipping(
    tmp_path: Path, load: Callable[..., Dataset], spoil: Callable[[Path], None]
) -> None:
    root = one_folder(tmp_path / "data", count=2)
    for file in (root / "images").iterdir():
        spoil(file)
    with pytest.raises((ValueError, FileNotFoundError), match="no image is left"):
        load(root, on_damage="skip")


HOT = "image,MEL,NV,BCC,AKIEC,BKL,DF,VASC"
WRONG_TABLES = {
    "unknown word": ("image_id,label\nISIC_1,benign\nISIC_2,perhaps", r"gt.csv, line 3 \(ISIC_2\): label: .*'perhaps'"),
    "unknown number": ("image_name,target\nISIC_1,2", r"gt.csv, line 2 \(ISIC_1\): target: expected 0 or 1, got '2'"),
    "not a number": ("image_name,target\nISIC_1,", "expected 0 or 1, got ''"),
    "both of 2017": ("image_id,melanoma,seborrheic_keratosis\nISIC_1,1,1", "got both"),
    "two diagnoses": (f"{HOT}\nISIC_1,1,1,0,0,0,0,0", "line 2 .*got MEL, NV"),
    "no diagnosis": (f"{HOT}\nISIC_1,0,0,0,0,0,0,0", "got none"),
    "2016 without id": ("name,label\nISIC_1,benign", "of 2016 needs the column image_id; got name, label"),
    "2017 without melanoma": ("image_id,seborrheic_keratosis\nISIC_1,0", "of 2017 needs the column melanoma"),
    "2018 without some": ("image,MEL,NV,AKIEC,DF,VASC\nISIC_1,1,0,0,0,0", "of 2018 needs the columns BCC, BKL"),
    "2019 without AK": ("image,MEL,NV,BCC,BKL,DF,VASC,SCC\nISIC_1,1,0,0,0,0,0,0", "of 2019 needs the column AK;"),
    "2020 without target": ("image_name,benign_malignant\nISIC_1,benign", "of 2020 needs the column target"),
    "folder without id": ("dx,malignant\nnv,0", "needs the column isic_id"),
    "wrong year": ("isic_id,malignant,year\nISIC_1,0,last", "line 2 .*year: .*'last'"),
    "id twice": ("image_name,target\nISIC_1,0\nISIC_2,0\nISIC_1,0", "ISIC_1 is listed twice, in lines 2 and 4"),
    "no id": ("image_name,target\n,0", "line 2: no image id in column image_name"),
    "no rows": (HOT, "gt.csv: the table is empty: it has a header and no rows"),
    "nothing": ("", "gt.csv: the table is empty"),
    "short row": ("image_name,sex,target\nISIC_1,0", "line 2: expected 3 cells as in the header, got 2"),
    "only unknown": (f"{HOT},UNK\nISIC_1,0,0,0,0,0,0,0,1", "All 1 rows have an unknown diagnosis"),
}


@pytest.mark.parametrize("case", WRONG_TABLES)
def test_wrong_tables_are_refused_with_the_place(tmp_path: Path, load: Callable[..., Dataset], case: str) -> None:
    text, message = WRONG_TABLES[case]
    table(tmp_path / "data" / "gt.csv", text)
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "data")


def test_a_labels_csv_without_labels_names_the_column(tmp_path: Path, load: Callable[..., Dataset]) -> None:
    table(tmp_path / "labels.csv", "isic_id,dx\nISIC_1,nv")
    with pytest.raises(ValueError, match=r"labels.csv: a table needs the column malignant; got isic_id, dx"):
        load(tmp_path)


def test_no_labels_says_what_was_found_and_wanted(tmp_path: Path, load: Callable[..., Dataset]) -> None:
    with pytest.raises(
        ValueError, match=r"expected a table of labels below .*, got no CSV file(.|\n)*image_id, melanoma"
    ):
        load(tmp_path)
    table(tmp_path / "sub" / "ages.csv", "image_id,age\nISIC_1,50")
    with pytest.raises(ValueError, match=r"got sub/ages.csv \(image_id, age\)"):
        load(tmp_path)
    with pytest.raises(FileNotFoundError, match="path: expected a folder"):
        load(tmp_path / "nowhere")


def test_wrong_arguments_are_found_before_any_work(tmp_path: Path) -> None:
    for setting, value in (("seed", 1.5), ("on_damage", "ignore")):
        with pytest.raises(Exception, match=setting):
            load_isic(tmp_path, **{setting: value})  # type: ignore[arg-type]


def test_the_cache_is_reused_and_follows_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, cache = one_folder(tmp_path / "data"), tmp_path / "cache"
    decoded: list[str] = []
    read = images.read_image
    monkeypatch.setattr(images, "read_image", lambda path, size: decoded.append(path.name) or read(path, size))

    def load(**settings: Any) -> tuple[Dataset, int]:
        decoded.clear()
        return load_isic(root, cache=cache, **settings), len(decoded)

    first, count = load()
    assert count == 6
    again, count = load(seed=1)
    assert count == 0
    assert again.fingerprint == first.fingerprint
    assert np.array_equal(again.inputs, first.inputs)

    image(root / "images" / "ISIC_0000001.webp", 99)
    changed, count = load()
    assert count == 6
    assert changed.fingerprint != first.fingerprint

    labels = (root / "labels.csv").read_text()
    (root / "labels.csv").write_text(labels.replace("ISIC_0000002,nv,0", "ISIC_0000002,nv,1"))
    relabelled, count = load()
    assert count == 6
    assert relabelled.labels[2] == 1

    os.utime(root / "images" / "ISIC_0000000.webp", ns=(1, 1))
    assert load()[1] == 6


@pytest.mark.parametrize("name", ["pixels.npy", "moments.npy", "entry.json"])
@pytest.mark.parametrize("spoil", [truncate, Path.unlink])
def test_a_damaged_cache_is_made_anew(
    tmp_path: Path, load: Callable[..., Dataset], name: str, spoil: Callable[[Path], None]
) -> None:
    root = one_folder(tmp_path / "data")
    first = load(root)
    [entry] = (tmp_path / "cache" / "isic").iterdir()
    spoil(entry / name)
    with pytest.warns(UserWarning, match="is damaged .*decoding the images again"):
        again = load(root)
    assert again.fingerprint == first.fingerprint


def test_an_interrupted_load_leaves_nothing_half_written(tmp_path: Path, load: Callable[..., Dataset]) -> None:
    root = one_folder(tmp_path / "data")
    inputs = sorted(root.rglob("*"))

    def interrupt(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(root, progress=interrupt)
    assert list((tmp_path / "cache" / "isic").iterdir()) == []
    assert len(load(root, progress=None)) == 6
    assert sorted(root.rglob("*")) == inputs, "the user's folder was written to"


def test_the_order_of_the_table_does_not_matter(tmp_path: Path, load: Callable[..., Dataset]) -> None:
    root = one_folder(tmp_path / "data")
    first = load(root)
    header, *rows = (root / "labels.csv").read_text().splitlines()
    table(root / "labels.csv", "\n".join([header, *reversed(rows)]))
    again = load(root)
    assert again.ids == first.ids
    assert np.array_equal(again.split.train, first.split.train)


def test_links_in_circles_are_followed_once(tmp_path: Path, load: Callable[..., Dataset]) -> None:
    root = one_folder(tmp_path / "data")
    (root / "images" / "up").symlink_to(root)
    shutil.move(root / "images", tmp_path / "elsewhere")
    (root / "images").symlink_to(tmp_path / "elsewhere")
    assert len(load(root)) == 6


@pytest.mark.skipif(not REAL.is_dir(), reason=f"the ISIC images are not at {REAL}")
def test_the_real_images(tmp_path: Path) -> None:
    """Their labels, all; a hundred of them decoded."""
    labels = read_labels(REAL)
    assert len(labels.rows) == 10_090
    assert sum(row.malignant for row in labels.rows) == 1_764
    assert None not in labels.images
    with (REAL / "labels.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    table(tmp_path / "data" / "labels.csv", "\n".join(map(",".join, [header, *rows[::101]])))
    (tmp_path / "data" / "images").symlink_to(REAL / "images")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = load_isic(tmp_path / "data", cache=tmp_path / "cache")
    assert data.inputs.shape == (100, 3, 224, 224)
    assert data.labels.sum() == sum(int(row[2]) for row in rows[::101])
    with Image.open(REAL / "images" / f"{data.ids[0]}.webp") as whole:
        assert np.array_equal(data.inputs[0], np.asarray(whole.convert("RGB")).transpose(2, 0, 1))


def test_of_several_files_with_one_id_the_one_of_the_year_is_taken(tmp_path: Path) -> None:
    year_2016(tmp_path)
    table(tmp_path / "gt.csv", "image_name,target\nISIC_0000001,0")
    table(tmp_path / "x" / "gt.csv", "image_id,melanoma,seborrheic_keratosis\nISIC_0000002,1,0")
    image(tmp_path / "z" / "ISIC_2020_Input" / "ISIC_0000001.jpg", 1)
    image(tmp_path / "x" / "images" / "ISIC_0000002.jpg", 2)
    found = [file.relative_to(tmp_path).as_posix() for file in read_labels(tmp_path).images if file]
    assert found == ["z/ISIC_2020_Input/ISIC_0000001.jpg", "x/images/ISIC_0000002.jpg"]

"""HELOC: the paper's cleaning, the errors of bad files, and OpenML with its cache."""

import csv
import hashlib
import io
import json
import sys
import urllib.request
from email.message import Message
from pathlib import Path
from urllib.error import URLError
from urllib.response import addinfourl

import numpy as np
import pytest
import sklearn.datasets
import torch
from sklearn.utils import Bunch

from verax.paper import heloc
from verax.paper.heloc import FEATURES, LABEL, DownloadError, load_heloc

REAL = Path(__file__).parents[3] / "shared" / "data" / "heloc.csv"
# The columns of the file that are left out: those with most missing values.
DROPPED = ("MSinceMostRecentDelq", "NetFractionInstallBurden", "MSinceMostRecentInqexcl7days")
HEADER = [LABEL, *FEATURES[:8], DROPPED[0], *FEATURES[8:13], DROPPED[2], *FEATURES[13:16], DROPPED[1], *FEATURES[16:]]

needs_data = pytest.mark.skipif(not REAL.is_file(), reason=f"HELOC is not beside the checkout ({REAL})")


def table(count=30):
    """Rows that all differ, complete but for the columns to be dropped."""
    cells = np.random.default_rng(0).integers(0, 100, (count, 24)).astype(str).tolist()
    for row, line in enumerate(cells):
        line[0] = ("Bad", "Good", "Bad")[row % 3]
        line[HEADER.index(DROPPED[0])] = "-7"
    return cells


def write(path, rows, header=HEADER):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def put(rows, row, column, to):
    rows[row][HEADER.index(column)] = to
    return rows


@pytest.fixture(scope="module")
def real():
    return load_heloc(REAL)


@needs_data
def test_the_papers_rows_and_classes(real):
    assert real.inputs.shape == (8290, 20)
    assert real.class_names == ("Good", "Bad")
    assert np.bincount(real.labels).tolist() == [4040, 4250]
    assert not np.isin(real.inputs, [-9, -8, -7]).any()
    assert len(np.unique(real.inputs, axis=0)) == 8290
    assert tuple(len(rows) for rows in (real.split.train, real.split.validation, real.split.test)) == (4974, 1658, 1658)


@needs_data
def test_the_papers_steps_one_by_one():
    with REAL.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == HEADER
    assert len(rows) == 10_459
    codes = {"-9", "-8", "-7"}
    missing = {name: sum(row[place] in codes for row in rows) for place, name in enumerate(header)}
    assert set(sorted(missing, key=missing.get)[-3:]) == set(DROPPED)
    kept = [place for place, name in enumerate(header) if name not in DROPPED]
    complete = [row for row in rows if not codes & {row[place] for place in kept}]
    assert len(complete) == 8291
    assert len({tuple(row[place] for place in kept) for row in complete}) == 8290


@needs_data
def test_ids_lead_back_to_the_file(real):
    with REAL.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(set(real.ids)) == 8290
    for place in (0, 1, 4000, 8289):
        row = rows[int(real.ids[place].removeprefix("heloc-"))]
        assert [float(row[name]) for name in real.feature_names] == real.inputs[place].tolist()
        assert row[LABEL] == real.class_names[real.labels[place]]


@needs_data
def test_the_real_data_are_standardised_and_back(real):
    inputs, _ = real.part("train")
    torch.testing.assert_close(inputs.mean(0), torch.zeros(20), atol=1e-5, rtol=0)
    torch.testing.assert_close(inputs.std(0, correction=0), torch.ones(20), atol=1e-5, rtol=0)
    back = real.standardisation.undo(inputs) - torch.from_numpy(real.inputs[real.split.train]).float()
    assert (back / real.standardisation.std).abs().max() < 1e-5


@pytest.mark.parametrize("code", ["-9", "-8", "-7", "-9.0", " -8"])
def test_a_code_drops_the_row_unless_its_column_is_dropped(tmp_path, code):
    rows = put(put(table(), 4, FEATURES[0], code), 5, DROPPED[1], code)
    data = load_heloc(write(tmp_path / "h.csv", rows))
    assert len(data) == 29
    assert "heloc-4" not in data.ids
    assert "heloc-5" in data.ids
    assert data.feature_names == FEATURES


def test_of_equal_rows_the_first_stays_and_another_label_is_another_row(tmp_path):
    rows = table()
    rows[20], rows[25] = list(rows[3]), ["Bad" if rows[4][0] == "Good" else "Good", *rows[4][1:]]
    put(rows, 20, DROPPED[2], "77")
    data = load_heloc(write(tmp_path / "h.csv", rows))
    assert data.ids == tuple(f"heloc-{row}" for row in range(30) if row != 20)


def test_columns_may_come_in_any_order_and_others_are_left_alone(tmp_path):
    first = load_heloc(write(tmp_path / "h.csv", table()))
    turned = [["a note", *reversed(row)] for row in table()]
    other = load_heloc(write(tmp_path / "t.csv", turned, ["note", *reversed(HEADER)]))
    assert first.fingerprint == other.fingerprint


def test_a_byte_order_mark_and_blank_lines_are_no_hindrance(tmp_path):
    path = write(tmp_path / "h.csv", table())
    plain = load_heloc(str(path))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\r\n", b"\n\n") + b"\n\n")
    assert load_heloc(path).fingerprint == plain.fingerprint


def test_the_standardisation_knows_only_the_training_rows(tmp_path):
    before = load_heloc(write(tmp_path / "h.csv", table()), seed=5)
    rows = table()
    for row in (*before.split.test, *before.split.validation):
        put(rows, row, FEATURES[2], "9999")
    after = load_heloc(write(tmp_path / "h.csv", rows), seed=5)
    torch.testing.assert_close(after.standardisation.mean, before.standardisation.mean, atol=0, rtol=0)
    torch.testing.assert_close(after.standardisation.std, before.standardisation.std, atol=0, rtol=0)
    assert after.fingerprint != before.fingerprint
    put(rows, before.split.train[0], FEATURES[2], "9999")
    changed = load_heloc(write(tmp_path / "h.csv", rows), seed=5).standardisation
    assert (changed.mean != before.standardisation.mean).nonzero().flatten().tolist() == [2]


def test_seeds_split_differently(tmp_path):
    path = write(tmp_path / "h.csv", table())
    one, same, other = (load_heloc(path, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.split.train, same.split.train)
    assert set(one.split.train) != set(other.split.train)
    assert one.fingerprint == other.fingerprint


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (table(), [*HEADER[:5], "Typo", *HEADER[6:]], rf"missing column {HEADER[5]}; got RiskPerformance, "),
        (table(), ["Label", *HEADER[1:]], "missing column RiskPerformance; got Label, "),
        (table(), [*HEADER[:9], HEADER[1], *HEADER[10:]], f"column {HEADER[1]} is there more than once"),
        (put(table(), 6, FEATURES[3], "n/a"), HEADER, rf"row 6 \(line 8\), column {FEATURES[3]}: .*got 'n/a'"),
        (put(table(), 6, FEATURES[3], ""), HEADER, rf"row 6 \(line 8\), column {FEATURES[3]}: .*got ''"),
        (put(table(), 6, FEATURES[3], "nan"), HEADER, "expected a number .* got 'nan'"),
        (put(table(), 6, FEATURES[3], "inf"), HEADER, "expected a number .* got 'inf'"),
        (put(table(), 2, LABEL, "bad"), HEADER, r"row 2 \(line 4\), column RiskPerformance: .*'Good' or 'Bad'.*'bad'"),
        ([*table(), ["Bad", "1"]], HEADER, r"row 30 \(line 32\): expected 24 cells as in the header, got 2"),
        ([*table(), [*table()[0], "1"]], HEADER, r"row 30 \(line 32\): expected 24 cells .* got 25"),
        ([], HEADER, "no rows under the header"),
        ([["Bad", *["-9"] * 23]], HEADER, "no row is complete"),
    ],
)
def test_a_bad_file_is_refused_with_the_place(tmp_path, rows, header, message):
    path = write(tmp_path / "h.csv", rows, header)
    with pytest.raises(ValueError, match=message) as caught:
        load_heloc(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(tmp_path, content):
    path = tmp_path / "h.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="the file is empty"):
        load_heloc(path)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00\x01", b"PK\x03\x04\x99\x00"])
def test_a_file_that_is_no_text_is_refused(tmp_path, content):
    path = tmp_path / "h.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="expected a CSV file in UTF-8"):
        load_heloc(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    for path in (tmp_path / "no.csv", tmp_path):
        with pytest.raises(FileNotFoundError, match=rf"no file {path}\. Give the path of FICO's CSV file .* or none"):
            load_heloc(path)


class OpenML:
    """Stands for ``fetch_openml``; one column is categorical, as scikit-learn gives such columns."""

    def __init__(self, rows, error=None):
        self.calls, self.error = 0, error
        columns = np.array(rows)[:, 1:].astype(float)
        self.target = np.array([row[0] for row in rows], dtype=object)
        place = HEADER.index("MaxDelqEver") - 1
        names, columns[:, place] = np.unique(np.array(rows)[:, place + 1], return_inverse=True)
        columns[columns == -9] = np.nan
        self.data, self.categories = columns, {"MaxDelqEver": names.tolist()}

    def __call__(self, *, data_id, target_column, as_frame, parser, cache):
        self.calls += 1
        assert (data_id, target_column, as_frame, parser, cache) == (46932, LABEL, False, "liac-arff", False)
        if self.error is not None:
            raise self.error
        return Bunch(data=self.data, target=self.target, feature_names=HEADER[1:], categories=self.categories)


@pytest.fixture
def openml(monkeypatch):
    def install(rows, error=None, counts=(10, 20)):
        fake = OpenML(rows, error)
        monkeypatch.setattr(sklearn.datasets, "fetch_openml", fake)
        monkeypatch.setattr(heloc, "CLEANED_COUNTS", counts)
        return fake

    return install


def test_openml_gives_the_same_as_the_file(tmp_path, openml):
    rows = [*table(), ["Bad", *["-9"] * 23]]
    fake = openml(rows)
    data = load_heloc(cache=tmp_path / "cache", seed=3)
    again = load_heloc(cache=tmp_path / "cache", seed=3)
    file = load_heloc(write(tmp_path / "h.csv", rows), seed=3)
    assert fake.calls == 1
    assert data.fingerprint == again.fingerprint == file.fingerprint
    np.testing.assert_array_equal(data.split.test, file.split.test)


@needs_data
def test_openml_with_the_real_rows(tmp_path, openml, real):
    with REAL.open(newline="") as file:
        openml(list(csv.reader(file))[1:], counts=heloc.CLEANED_COUNTS)
    assert load_heloc(cache=tmp_path).fingerprint == real.fingerprint


def test_the_cache_holds_the_csv_and_its_checksum(tmp_path, openml, monkeypatch):
    openml(table())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    data = load_heloc()
    assert sorted(path.name for path in (tmp_path / "verax").iterdir()) == ["heloc.csv", "heloc.csv.sha256"]
    path = tmp_path / "verax" / "heloc.csv"
    assert path.with_name("heloc.csv.sha256").read_text().split() == [
        hashlib.sha256(path.read_bytes()).hexdigest(),
        "heloc.csv",
    ]
    assert load_heloc(path).fingerprint == data.fingerprint


@pytest.mark.parametrize("damage", ["cell", "truncated", "no checksum", "empty checksum", "odd checksum"])
def test_a_damaged_cache_is_noticed_and_filled_again(tmp_path, openml, damage):
    fake = openml(table())
    fresh = load_heloc(cache=tmp_path)
    path, checksum = tmp_path / "heloc.csv", tmp_path / "heloc.csv.sha256"
    content = path.read_bytes()
    if damage == "cell":
        path.write_bytes(content.replace(b"Good", b"Bad", 1))
    elif damage == "truncated":
        path.write_bytes(content[: content.rindex(b"\n", 0, -1) + 1])
    elif damage == "no checksum":
        checksum.unlink()
    else:
        checksum.write_bytes(b"" if damage == "empty checksum" else b"\xff\xff")
    with pytest.warns(UserWarning, match=r"heloc\.csv does not fit its checksum .* downloaded again"):
        assert load_heloc(cache=tmp_path).fingerprint == fresh.fingerprint
    assert fake.calls == 2
    assert path.read_bytes() == content
    assert load_heloc(cache=tmp_path).fingerprint == fresh.fingerprint


@pytest.mark.parametrize("error", [URLError("no network"), ConnectionResetError("reset"), ValueError("md5 differs")])
def test_no_network_leaves_nothing_and_says_what_to_do(tmp_path, openml, error):
    openml(table(), error)
    with pytest.raises(DownloadError, match=r"Could not download HELOC .*46932.*FICO's CSV file .* pass its path"):
        load_heloc(cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_other_data_at_openml_are_refused_and_not_kept(tmp_path, openml):
    openml(table(), counts=(4040, 4250))
    with pytest.raises(
        ValueError, match=r"not the paper's: cleaned it has 10 Good and 20 Bad rows, expected were 4040"
    ):
        load_heloc(cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


class OpenMLServer(urllib.request.BaseHandler):
    """OpenML's answers as its service gives them, for scikit-learn's own reader."""

    def __init__(self, rows):
        lines = [
            f"@ATTRIBUTE {name} {'{Bad,Good}' if name == LABEL else '{-7,2,5}' if name == 'MaxDelqEver' else 'NUMERIC'}"
            for name in HEADER
        ]
        arff = "\n".join(["@RELATION heloc", *lines, "@DATA", *(",".join(row) for row in rows), ""]).encode()
        digest = hashlib.md5(arff, usedforsecurity=False).hexdigest()
        about = {"id": "46932", "name": "heloc", "version": "1", "format": "ARFF", "file_id": "1", "status": "active"}
        about |= {
            "url": "https://openml.org/data/v1/download/1/heloc.arff",
            "md5_checksum": digest,
            "description": "HELOC",
        }
        features = [
            {
                "index": str(place),
                "name": name,
                "data_type": "nominal" if name in (LABEL, "MaxDelqEver") else "numeric",
                "is_target": str(name == LABEL).lower(),
                "is_ignore": "false",
                "is_row_identifier": "false",
                "number_of_missing_values": "0",
            }
            for place, name in enumerate(HEADER)
        ]
        quality = [{"name": "NumberOfInstances", "value": str(len(rows))}]
        self.answers = {
            "/data/46932": json.dumps({"data_set_description": about}).encode(),
            "/features/46932": json.dumps({"data_features": {"feature": features}}).encode(),
            "/qualities/46932": json.dumps({"data_qualities": {"quality": quality}}).encode(),
            "heloc.arff": arff,
        }

    def https_open(self, request):
        (body,) = (body for end, body in self.answers.items() if request.full_url.endswith(end))
        answer = addinfourl(io.BytesIO(body), Message(), request.full_url, 200)
        answer.msg = "OK"
        return answer


@pytest.fixture
def serve():
    def install(handler):
        opener = urllib.request.OpenerDirector()
        opener.add_handler(handler)
        urllib.request.install_opener(opener)

    yield install
    urllib.request.install_opener(None)


def test_scikit_learns_own_reader_gives_the_same(tmp_path, monkeypatch, serve):
    rows = table()
    for place, row in enumerate(rows):
        row[HEADER.index("MaxDelqEver")] = ("2", "5", "-7")[place % 3]
    put(rows, 4, FEATURES[0], "?")
    serve(OpenMLServer(rows))
    monkeypatch.setattr(heloc, "CLEANED_COUNTS", (9, 10))
    data = load_heloc(cache=tmp_path)
    same = load_heloc(write(tmp_path / "h.csv", put(rows, 4, FEATURES[0], "-9")))
    assert data.fingerprint == same.fingerprint
    assert set(data.inputs[:, FEATURES.index("MaxDelqEver")]) == {2.0, 5.0}


def test_a_csv_needs_neither_pandas_nor_scikit_learn(tmp_path, monkeypatch):
    path = write(tmp_path / "h.csv", table())
    for name in ("pandas", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, name, None)
    assert len(load_heloc(path)) == 30

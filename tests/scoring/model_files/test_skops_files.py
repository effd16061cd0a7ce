"""Files of skops from strangers: which classes need trust, and how large an archive may become."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from verax.data.limits import LimitError
from verax.models import ModelFileError, open_model

skops = pytest.importorskip("skops.io", reason="skops is not installed")
X = np.random.default_rng(0).normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(int)


def node(kind: str, content: Any = None) -> dict[str, Any]:
    """An object of a class, as a schema has it."""
    module, _, name = kind.rpartition(".")
    return {"__class__": name, "__module__": module, "__loader__": "ObjectNode", "content": content, "__id__": 1}


def write(path: Path, schema: dict[str, Any], **parts: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", json.dumps(schema | {"protocol": 2, "_skops_version": "0.13"}))
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


OTHERS = (
    "xgboost.core.DMatrix", "xgboost.core.QuantileDMatrix", "xgboost.core.ExtMemQuantileDMatrix",
    "xgboost.core._ProxyDMatrix", "xgboost.core.DataIter", "xgboost.tracker.RabitTracker", "xgboost.DMatrix",
    "xgboost.data.SingleBatchInternalIter", "lightgbm.basic.Dataset", "lightgbm.Dataset", "lightgbm.engine.CVBooster",
    "lightgbm.basic._InnerPredictor", "lightgbm.dask.DaskLGBMClassifier", "lightgbm.basic.Booster.save_model",
)  # fmt: skip


@pytest.mark.parametrize("kind", OTHERS)
def test_other_classes_of_boosters_need_trust(kind: str, tmp_path: Path) -> None:
    """Some hand what the file says to C destructors as an address: they are not even made."""
    path = write(tmp_path / "odd.skops", node(kind))
    with pytest.raises(ModelFileError, match=rf"odd.skops is not opened, because .*\({kind}\)"):
        open_model(path)


ESTIMATORS = {
    **{name: getattr(xgboost, name)(n_estimators=2) for name in ("XGBRegressor", "XGBRFClassifier", "XGBRFRegressor")},
    "LGBMRegressor": lightgbm.LGBMRegressor(n_estimators=2, verbose=-1),
    "LGBMClassifier": lightgbm.LGBMClassifier(n_estimators=2, verbose=-1),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_need_none(name: str, tmp_path: Path) -> None:
    skops.dump(ESTIMATORS[name].fit(X, Y), tmp_path / "m.skops")
    assert open_model(tmp_path / "m.skops").returns in ("values", "probabilities", "logits")


@pytest.mark.parametrize(("name", "booster"), [("XGBRegressor", "get_booster"), ("LGBMClassifier", "booster_")])
def test_boosters_need_none(name: str, booster: str, tmp_path: Path) -> None:
    model = getattr(ESTIMATORS[name].fit(X, Y), booster)
    skops.dump(model() if callable(model) else model, tmp_path / "booster.skops")
    assert open_model(tmp_path / "booster.skops").returns in ("values", "probabilities", "logits")


def packed(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def array(part: str, number: int) -> dict[str, Any]:
    return {
        "__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode", "type": "numpy", "file": part,
        "__id__": number,
    }  # fmt: skip


def plain(values: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


LARGE = {
    "an array": ([array("a", 1)], {"a": plain(np.zeros(300_000))}),
    "a matrix in an archive of its own": ([array("a", 1)], {"a": packed(data=np.zeros(300_000))}),
    "one array many times": ([array("a", number) for number in range(1, 41)], {"a": plain(np.zeros(10_000))}),
}


@pytest.mark.parametrize("case", LARGE)
def test_archives_have_a_limit(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, parts = LARGE[case]
    schema = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": nodes, "__id__": 99}
    path = write(tmp_path / "large.skops", schema, **parts)
    assert path.stat().st_size < 20_000
    monkeypatch.setenv("VERAX_MAX_GIB", "0.001")
    with pytest.raises(LimitError, match=r"large.skops: holds .* GiB, above the limit .*VERAX_MAX_GIB"):
        open_model(path)


def test_an_ordinary_archive_is_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skops.dump(LogisticRegression().fit(sparse.csr_matrix(X), Y), tmp_path / "m.skops")
    monkeypatch.setenv("VERAX_MAX_GIB", "0.001")
    assert open_model(tmp_path / "m.skops").returns == "probabilities"

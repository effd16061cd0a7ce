"""Models that other libraries saved: the same predictions after opening, and refusals in one line."""

import dataclasses
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import torch
import xgboost
from sklearn.datasets import fetch_openml
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import FunctionTransformer

from verax.data.base import Standardisation
from verax.data.columns import Column, Columns, columns_of, frame_of
from verax.models import ModelFileError, open_model
from verax.scoring.adapters import adapt
from verax.scoring.raw_rows import RawRows, on_standardised

X = np.random.default_rng(0).normal(size=(40, 3))
Y = (X[:, 0] + X[:, 1] > 0).astype(int)


def saved(folder: Path, ending: str) -> tuple[Path, Any, str]:
    """A model in a file, what it predicts, and what that is."""
    path = folder / f"model{ending}"
    if ending == ".skops":
        io = pytest.importorskip("skops.io", reason="skops is not installed")
        model = LogisticRegression().fit(X, Y)
        io.dump(model, path)
        return path, model.predict_proba(X), "probabilities"
    if ending in (".json", ".ubj"):
        model = xgboost.train({"objective": "reg:squarederror", "max_depth": 2}, xgboost.DMatrix(X, X[:, 0]), 3)
        model.save_model(path)
        return path, model.predict(xgboost.DMatrix(X)), "values"
    if ending == ".txt":
        settings = {"objective": "binary", "verbose": -1, "min_data_in_leaf": 5}
        model = lightgbm.train(settings, lightgbm.Dataset(X, Y), 3)
        model.save_model(path)
        return path, model.predict(X), "probabilities"
    if ending == ".onnx":
        skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
        model = LinearRegression().fit(X, X[:, 0] + 2)
        content = skl2onnx.to_onnx(model, X[:1].astype(np.float32)).SerializeToString()
        path.write_bytes(content)
        return path, model.predict(X)[:, None], "values"
    module = torch.nn.Linear(3, 2)
    rows = torch.from_numpy(X).float()
    batch = torch.export.Dim("batch", min=2, max=100)
    torch.export.save(torch.export.export(module, (rows,), dynamic_shapes={"input": {0: batch}}), path)
    return path, module(rows).detach().numpy(), "logits"


@pytest.mark.parametrize("ending", [".skops", ".json", ".ubj", ".txt", ".onnx", ".pt2"])
def test_a_file_predicts_what_the_model_did(ending: str, tmp_path: Path) -> None:
    path, expected, returns = saved(tmp_path, ending)
    adapter = open_model(path, returns="values" if ending == ".onnx" else None, trust=True)
    result = adapter(torch.from_numpy(X).float(), "numpy")
    assert adapter.returns == returns
    np.testing.assert_allclose(np.asarray(torch.as_tensor(result).detach()), expected, atol=1e-5)


@pytest.mark.parametrize("ending", [".skops", ".json", ".ubj", ".txt", ".onnx", ".pt2"])
@pytest.mark.parametrize("content", [b"", b"no model\n", b'{"a": 1}', b"PK\x03\x04 no archive"], ids=range(4))
def test_an_unreadable_file_is_refused_in_a_line(ending: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"model{ending}"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"cannot be opened as .*; save it with ") as result:
        open_model(path, trust=True)
    assert str(result.value).startswith(f"{path}: ")
    assert "\n" not in str(result.value)


def test_what_can_run_code_needs_trust(tmp_path: Path) -> None:
    path, _, _ = saved(tmp_path, ".pt2")
    with pytest.raises(ModelFileError, match=r"not opened, because torch runs code.*trust = true"):
        open_model(path)
    io = pytest.importorskip("skops.io", reason="skops is not installed")
    io.dump(FunctionTransformer(saved), tmp_path / "odd.skops")  # a function of somebody's own
    with pytest.raises(ModelFileError, match=r"classes that skops does not know .*trust = true"):
        open_model(tmp_path / "odd.skops")


@pytest.mark.parametrize("function", [fetch_openml, partial(print)], ids=["of scikit-learn", "of Python"])
def test_functions_of_known_libraries_need_trust_as_well(function: Any, tmp_path: Path) -> None:
    io = pytest.importorskip("skops.io", reason="skops is not installed")
    io.dump(FunctionTransformer(function), tmp_path / "odd.skops")
    with pytest.raises(ModelFileError, match=r"odd.skops is not opened, .*\((sklearn.datasets.*fetch_openml|.*print)"):
        open_model(tmp_path / "odd.skops")


KNOWN = {
    "scikit-learn's trees": RandomForestClassifier(2, max_depth=2),
    "scikit-learn's boosted trees": HistGradientBoostingClassifier(max_iter=2),
    "XGBoost": xgboost.XGBClassifier(n_estimators=2, max_depth=2),
    "LightGBM": lightgbm.LGBMClassifier(n_estimators=2, verbose=-1),
}


@pytest.mark.parametrize("model", KNOWN.values(), ids=KNOWN)
def test_classes_of_known_libraries_need_none(model: Any, tmp_path: Path) -> None:
    io = pytest.importorskip("skops.io", reason="skops is not installed")
    io.dump(model.fit(X, Y), tmp_path / "m.skops")
    result = open_model(tmp_path / "m.skops")(torch.from_numpy(X), "numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LightGBM makes names of its own
        np.testing.assert_allclose(np.asarray(result), model.predict_proba(X), rtol=1e-6)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none.onnx: there is no such file"):
        open_model(tmp_path / "none.onnx")
    with pytest.raises(ValueError, match=r"model.pkl: expected a model file that ends in .onnx, .skops"):
        open_model(tmp_path / "model.pkl")


SCALE = Standardisation(torch.tensor([3.0, -1.0, 0.3]).double(), torch.tensor([0.7, 3.0, 11.0]).double())


def test_models_see_rows_in_their_own_units() -> None:
    """Bit by bit where values are whole: 0 is not below 0 for a tree."""
    whole = torch.randint(-5, 6, (200, 3), generator=torch.Generator().manual_seed(0)).double()
    seen: list[torch.Tensor] = []
    adapter = adapt(lambda rows: seen.append(rows) or rows[:, :1], "values", "torch")
    on_standardised(adapter, SCALE)(SCALE.apply(whole), "torch")
    assert torch.equal(seen[0], whole)


def test_gradients_go_through_a_torch_module() -> None:
    module = torch.nn.Linear(3, 1).double()
    behind = on_standardised(adapt(module, "values", None), SCALE)
    rows = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    (result,) = torch.autograd.grad(torch.as_tensor(behind(rows, "torch")).sum(), rows)
    torch.testing.assert_close(result, module.weight * SCALE.std)


TABLE = Columns((Column("age"), Column("town", ("Graz", "Wien"))), np.array([[1.0, 0.0], [2.0, np.nan]]))


def test_categories_are_text_again() -> None:
    frame = frame_of(TABLE.columns, TABLE.values)
    assert frame["age"].tolist() == [1, 2]
    assert frame["town"][0] == "Graz"
    assert frame["town"].isna().tolist() == [False, True]


def test_categories_that_are_numbers_are_numbers_again() -> None:
    pandas = pytest.importorskip("pandas")
    given = pandas.DataFrame({"zip": pandas.Categorical([1010, None, 9, 1010]), "age": [1.0, 2.0, 3.0, 4.0]})
    columns = columns_of(given, "people")
    assert columns.categories == (("1010", "9"), None)
    pandas.testing.assert_frame_equal(frame_of(columns.columns, columns.values), given)


def test_a_model_gets_its_columns_by_name() -> None:
    """Numbers in another order than the model learnt would be taken for one another without a word."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c c"])
    for model in (
        LogisticRegression().fit(frame, Y),
        lightgbm.LGBMClassifier(n_estimators=2, min_child_samples=2, verbose=-1).fit(frame, Y),  # keeps no blanks
    ):
        behind = on_standardised(adapt(model, None, None), SCALE, names=["x", "c c", "b", "a"])
        behind = dataclasses.replace(behind, scale=Standardisation(torch.zeros(4).double(), torch.ones(4).double()))
        table = torch.from_numpy(np.stack([X[:, 0] * 0, X[:, 2], X[:, 1], X[:, 0]], axis=1))
        np.testing.assert_allclose(np.asarray(behind(table, "numpy")), model.predict_proba(frame), rtol=1e-6)
        with pytest.raises(ValueError, match=r"data: expected the columns that the model was fitted on; missing: a\."):
            on_standardised(adapt(model, None, None), SCALE, names=["b", "c c"])
        assert on_standardised(adapt(model, None, None), SCALE, names=["feature 0", "feature 1"]).places is None


def test_a_model_of_numbers_refuses_categories() -> None:
    adapter = adapt(lambda rows: rows, "values", "torch")
    with pytest.raises(ValueError, match=r"the table has categories \(town\); take a scikit-learn pipeline"):
        on_standardised(adapter, SCALE, TABLE)
    assert isinstance(on_standardised(adapter, SCALE), RawRows)

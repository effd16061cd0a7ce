"""Files of boosted trees with absurd trees: a model, or one line, and never the end of the process."""

import json
import re
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import torch
import xgboost

from verax.models import open_model
from verax.scoring.model_files.opening import check_loads

X = np.random.default_rng(0).normal(size=(60, 3))


def opened(path: Path) -> str:
    """Open a file and score a row; what is said of it where that fails, which names the file or the rows."""
    said = ""
    try:
        open_model(path)(torch.zeros(2, 3), "numpy")
    except ValueError as error:
        said = str(error)
    assert "\n" not in said
    assert not said or path.name in said or said.startswith("inputs:")
    return said


@pytest.fixture(scope="module")
def lightgbm_text() -> str:
    settings = {"objective": "regression", "verbose": -1, "min_data_in_leaf": 5}
    return str(lightgbm.train(settings, lightgbm.Dataset(X, X[:, 0]), 2).model_to_string())


LINES = {
    "num_leaves": ("0", "-1", "1000000", "99999999999"),
    "left_child": ("99999 1", "-99999 1", "0 0 0 0 0 0 0 0 0 0", "x"),
    "right_child": ("99999", "0"),
    "split_feature": ("99999 0", "-5 0", "99999999999"),
    "leaf_value": ("", "nan", "1"),
    "threshold": ("", "x"),
    "num_cat": ("5", "-1"),
    "decision_type": ("1 1 1 1 1 1 1 1 1", ""),
    "max_feature_idx": ("-2", "2147483647"),
    "num_class": ("0", "-1", "100000"),
    "num_tree_per_iteration": ("0", "-1", "1000"),
    "tree_sizes": ("1 1", "99999999 1", "-5 7", ""),
}
LINE_CASES = [(name, value) for name, values in LINES.items() for value in values]


@pytest.mark.parametrize(("name", "value"), LINE_CASES)
def test_absurd_trees_of_lightgbm(name: str, value: str, lightgbm_text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.txt"
    content, count = re.subn(rf"^{name}=.*$", f"{name}={value}", lightgbm_text, flags=re.MULTILINE)
    assert count
    path.write_text(content)
    opened(path)


@pytest.fixture(scope="module")
def xgboost_content() -> dict[str, Any]:
    model = xgboost.train({"max_depth": 2}, xgboost.DMatrix(X, X[:, 0]), 2)
    content: dict[str, Any] = json.loads(bytes(model.save_raw("json")))
    return content


TREES: dict[str, tuple[Any, ...]] = {
    "left_children": ([99999], [-99999], [0]),
    "right_children": ([99999], [0]),
    "split_indices": ([99999], [-5]),
    "split_type": ([1], [7]),
    "parents": ([99999],),
    "base_weights": ([],),
    "default_left": ([9],),
    "categories_nodes": ([0, 99999],),
    "tree_param.num_nodes": ("0", "-1", "99999999"),
    "tree_param.num_feature": ("0", "99999"),
    "tree_param.size_leaf_vector": ("0", "99999"),
}
TREE_CASES = [(name, value) for name, values in TREES.items() for value in values]


@pytest.mark.parametrize("ending", [".json", ".ubj"])
@pytest.mark.parametrize(("name", "value"), TREE_CASES, ids=str)
def test_absurd_trees_of_xgboost(
    name: str, value: Any, ending: str, xgboost_content: dict[str, Any], tmp_path: Path
) -> None:
    content = json.loads(json.dumps(xgboost_content))
    tree = content["learner"]["gradient_booster"]["model"]["trees"][0]
    if "." in name:
        tree["tree_param"][name.split(".")[1]] = value
    else:
        tree[name][: max(1, len(value))] = value
    path = tmp_path / f"odd{ending}"
    path.write_text(json.dumps(content))
    opened(path)


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [("left_children", -99999, "got a child -99999"), ("right_children", 0, "got node 0 as the child of two nodes")],
)
def test_what_ends_a_process_only_by_bad_luck_is_found_in_the_file(
    name: str, value: int, fault: str, xgboost_content: dict[str, Any], tmp_path: Path
) -> None:
    content = json.loads(json.dumps(xgboost_content))
    content["learner"]["gradient_booster"]["model"]["trees"][0][name][0] = value
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(content))
    assert fault in opened(path)


@pytest.mark.parametrize(
    "settings",
    [
        {"booster": "dart"},
        {"booster": "gblinear"},
        {"objective": "multi:softprob", "num_class": 3, "gamma": 5.0},  # prunes
        {"multi_strategy": "multi_output_tree", "tree_method": "hist"},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_trees_of_every_booster_pass(settings: dict[str, Any], tmp_path: Path) -> None:
    labels = (X[:, 0] > 0) + (X[:, 1] > 0) if "num_class" in settings else X[:, : 2 if "tree_method" in settings else 1]
    path = tmp_path / "model.json"
    xgboost.train(settings, xgboost.DMatrix(X, labels), 4).save_model(path)
    check_loads(path, "xgboost")

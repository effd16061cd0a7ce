"""Opens a file of boosted trees, checks that its trees are trees, and scores a few rows: run in a process of its own.

The C++ code of XGBoost and LightGBM follows whatever a file says: children that are no nodes, trees in a circle,
features that do not exist. Whether that ends a process depends on what lies in its memory, so the structure is checked
as well as tried. Run as ``python -P tree_trial.py LIBRARY PATHS FILE TRUSTED``, with lists as JSON; imports no Verax.
"""

import json
import sys
import warnings
from typing import Any

# What both libraries import where it is installed, and a trial of a file of theirs does not use: most of its time.
_UNUSED = ("dask", "graphviz", "matplotlib", "pandas", "pyarrow", "sklearn")


def main() -> None:
    library, paths, file, trusted = sys.argv[1:]
    sys.path[:] = json.loads(paths)
    warnings.simplefilter("ignore")
    if library != "skops":
        sys.modules.update(dict.fromkeys(_UNUSED))  # type: ignore[arg-type]  # None: to import it raises ImportError
    if library == "lightgbm":
        import lightgbm

        _try_lightgbm(lightgbm.Booster(model_file=file))
    elif library == "xgboost":
        import xgboost

        _try_xgboost(xgboost.Booster(model_file=file))
    else:
        import skops.io

        model = skops.io.load(file, trusted=json.loads(trusted))
        for part in (model, *vars(model).values()):
            kind = f"{type(part).__module__}.{type(part).__name__}"
            if kind == "lightgbm.basic.Booster":
                _try_lightgbm(part)
            elif kind == "xgboost.core.Booster":
                _try_xgboost(part)


def _try_lightgbm(booster: Any) -> None:
    for tree in booster.model_to_string().split("\nTree=")[1:]:
        lines = dict(line.split("=", 1) for line in tree.split("\n\n")[0].splitlines()[1:] if "=" in line)
        leaves, left, right = (
            _whole_numbers(lines.get(key, "")) for key in ("num_leaves", "left_child", "right_child")
        )
        # A child below 0 is leaf -1 - child; as nodes, leaves follow the splits.
        splits = len(left)
        left, right = ([child if child >= 0 else splits - 1 - child for child in side] for side in (left, right))
        _check_tree(left, right, size=splits + leaves[0] if splits else 1)
        _check_features(_whole_numbers(lines.get("split_feature", "")), booster.num_feature())
    booster.dump_model()
    booster.predict(_rows(booster.num_feature()))


def _try_xgboost(booster: Any) -> None:
    import xgboost

    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    features = int(learner["learner_model_param"]["num_feature"])
    boosted = learner["gradient_booster"]
    for tree in boosted.get("gbtree", boosted).get("model", {}).get("trees", []):  # a linear booster has none
        left, right = tree["left_children"], tree["right_children"]
        reached = _check_tree(left, right, size=len(left))
        _check_features([tree["split_indices"][node] for node in reached if left[node] != -1], features)
    booster.get_dump()
    booster.predict(xgboost.DMatrix(_rows(booster.num_features())), validate_features=False)
    booster.save_config()


def _check_tree(left: list[int], right: list[int], size: int) -> list[int]:
    """Nodes that are reached from node 0, each once; one with -1 as left child, or behind the last split, is a leaf."""
    if len(left) != len(right):
        raise ValueError(f"expected as many left as right children, got {len(left)} and {len(right)}")
    waiting, reached = [0], set()
    while waiting:
        node = waiting.pop()
        if not 0 <= node < size:
            raise ValueError(f"expected a tree of {size} nodes, got a child {node}")
        if node in reached:
            raise ValueError(f"expected a tree, got node {node} as the child of two nodes")
        reached.add(node)
        if node < len(left) and left[node] != -1:
            waiting += [left[node], right[node]]
    return sorted(reached)


def _check_features(features: list[int], count: int) -> None:
    if wrong := [feature for feature in features if not 0 <= feature < count]:
        raise ValueError(f"expected splits by features 0 to {count - 1}, got {wrong[0]}")


def _whole_numbers(words: str) -> list[int]:
    return [int(word) for word in words.split()]


def _rows(count: int) -> Any:
    import numpy as np

    if count > 1_000_000:
        raise ValueError(f"it takes {count:,} features")
    draws = np.random.default_rng(0).normal(size=(16, count)) * 10.0 ** np.arange(-4, 12)[:, None]
    return np.concatenate([draws, np.zeros((1, count)), np.full((1, count), np.nan)])


if __name__ == "__main__":
    main()

"""Files of boosted trees tried in a process of their own: an absurd one ends it by a signal, or never ends.

The C++ code of these libraries follows whatever a file says: children that are no nodes, trees in a circle, features
that there are none of. The trial opens the file, walks all of its trees, and scores a few rows.
"""

import functools
import json
import signal
import subprocess
import sys
from pathlib import Path

_SECONDS = 120
_BEGIN = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
import numpy as np
path, known = sys.argv[2], json.loads(sys.argv[3])
def rows(count):
    if count > 1_000_000:
        raise ValueError(f"it takes {count:,} features")
    draws = np.random.default_rng(0).normal(size=(16, count)) * 10.0 ** np.arange(-4, 12)[:, None]
    return np.concatenate([draws, np.zeros((1, count)), np.full((1, count), np.nan)])
"""
_TRIALS = {
    "lightgbm": """
import lightgbm
model = lightgbm.Booster(model_file=path)
model.dump_model()
model.predict(rows(model.num_feature()))
""",
    "xgboost": """
import warnings, xgboost
warnings.simplefilter("ignore")
model = xgboost.Booster(model_file=path)
model.get_dump()
model.predict(xgboost.DMatrix(rows(model.num_features())), validate_features=False)
model.save_config()
""",
    "skops": """
import skops.io, warnings
warnings.simplefilter("ignore")
model = skops.io.load(path, trusted=known)
for part in (model, *vars(model).values()):
    if type(part).__module__ == "lightgbm.basic" and type(part).__name__ == "Booster":
        part.dump_model()
        part.predict(rows(part.num_feature()))
    if type(part).__module__ == "xgboost.core" and type(part).__name__ == "Booster":
        import xgboost
        part.get_dump()
        part.predict(xgboost.DMatrix(rows(part.num_features())), validate_features=False)
""",
}


def check_loads(path: Path, library: str, known: tuple[str, ...] = ()) -> None:
    """Refuse a file that ends a process, does not end, or cannot be scored; ``ValueError`` says which."""
    status = path.stat()
    fault = _fault(path.absolute(), library, known, status.st_size, status.st_mtime_ns)
    if fault:
        raise ValueError(fault)


@functools.lru_cache(maxsize=256)  # a file that was tried is not tried again until it is written anew
def _fault(path: Path, library: str, known: tuple[str, ...], size: int, modified: int) -> str:
    script = _BEGIN + _TRIALS[library]
    command = [sys.executable, "-c", script, json.dumps(sys.path), str(path), json.dumps(known)]
    try:
        found = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603  # ours
    except subprocess.TimeoutExpired:
        return f"{library} does not finish reading and scoring it in {_SECONDS} s: its trees are damaged"
    if found.returncode < 0:
        return f"{library} ends with {signal.Signals(-found.returncode).name} over it: its trees are damaged"
    lines = found.stderr.decode(errors="replace").strip().splitlines()
    return (lines[-1] if lines else f"status {found.returncode}") if found.returncode else ""

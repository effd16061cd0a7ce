"""Checks of model files before they are opened: classes and size of skops archives, and a trial of boosted trees."""

import functools
import importlib
import io
import json
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

from verax.core.files import entries
from verax.core.system import how_it_ended
from verax.data.limits import check_bytes

NOT_SKOPS = (  # skops has no error of its own for files that it cannot read
    ArithmeticError, AttributeError, EOFError, ImportError, LookupError, MemoryError, OSError, RuntimeError, TypeError,
    ValueError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
# Skops asks about these as well. Of XGBoost and LightGBM only what rebuilds itself from a model's own text or bytes:
# other classes hand the bytes of a file to C destructors as addresses.
_KNOWN = frozenset((
    "builtins.object",
    "collections.OrderedDict",
    "collections.defaultdict",
    "functools.partial",  # what it calls is asked about as well
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
    "lightgbm.sklearn.LGBMRanker",
    "lightgbm.sklearn.LGBMRegressor",
    "numpy.dtype",
    "sklearn.utils.validation.check_array",
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
    "xgboost.sklearn.XGBRFClassifier",
    "xgboost.sklearn.XGBRFRegressor",
    "xgboost.sklearn.XGBRanker",
    "xgboost.sklearn.XGBRegressor",
))  # fmt: skip

_SECONDS = 120
_TRIAL = Path(__file__).with_name("tree_trial.py")


def is_known(name: str) -> bool:
    """Whether a class needs no trust: one of the list, or defined by scikit-learn. Functions may be called: they do."""
    module, _, last = name.rpartition(".")
    if name in _KNOWN or module.split(".")[0] != "sklearn":
        return name in _KNOWN
    try:
        value = getattr(importlib.import_module(module), last, None)
    except ImportError:
        return False
    return isinstance(value, type) and value.__module__.split(".")[0] == "sklearn"


def check_size(path: Path) -> None:
    """Raise for an archive that unpacks to more than the limit, counting each part as often as it is read."""
    with zipfile.ZipFile(path) as archive:
        check_bytes(path, sum(entry.file_size for entry in archive.infolist()))
        sizes = {name: _unpacked(archive, name) for name in archive.namelist()}
        schema = entries(json.loads(archive.read("schema.json")))
        parts = [value for key, value in schema if key == "file" and isinstance(value, str)]
        check_bytes(path, sizes["schema.json"] + sum(sizes.get(part, 0) for part in parts))


def _unpacked(archive: zipfile.ZipFile, name: str) -> int:
    """Bytes of one part; sparse matrices are archives in the archive, which NumPy knows by their first bytes."""
    size = archive.getinfo(name).file_size
    with archive.open(name) as part:
        packed = part.read(2) == b"PK"
    if packed:
        with zipfile.ZipFile(io.BytesIO(archive.read(name))) as inner:
            size += sum(entry.file_size for entry in inner.infolist())
    return size


def check_loads(path: Path, library: str, known: tuple[str, ...] = ()) -> None:
    """Raise for a file that ends a process, does not end, or cannot be scored; ``ValueError`` says which."""
    status = path.stat()
    fault = _fault(path.absolute(), library, known, status.st_size, status.st_mtime_ns)
    if fault:
        raise ValueError(fault)


@functools.lru_cache(maxsize=256)  # a file that was tried is not tried again until it is written anew
def _fault(path: Path, library: str, known: tuple[str, ...], size: int, modified: int) -> str:
    command = [sys.executable, "-P", str(_TRIAL), library, json.dumps(sys.path), str(path), json.dumps(known)]
    try:
        trial = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603  # ours
    except subprocess.TimeoutExpired:
        return f"{library} does not finish reading and scoring it in {_SECONDS} s: its trees are damaged"
    if (ended := how_it_ended(trial.returncode)) is not None:
        return f"{library} ends with {ended} over it: its trees are damaged"
    lines = trial.stderr.decode(errors="replace").strip().splitlines()
    return (lines[-1] if lines else f"status {trial.returncode}") if trial.returncode else ""

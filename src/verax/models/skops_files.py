"""Models of skops: which classes a file may hold and how large it may become, checked before it is opened."""

import importlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def is_known(name: str) -> bool:
    """Whether a class needs no trust: one of the list, or defined by scikit-learn. Functions may be called: they do.

    Example:
        >>> is_known("lightgbm.basic.Booster"), is_known("lightgbm.basic.Dataset")
        (True, False)
    """
    module, _, last = name.rpartition(".")
    if name in _KNOWN or module.split(".")[0] != "sklearn":
        return name in _KNOWN
    try:
        found = getattr(importlib.import_module(module), last, None)
    except ImportError:
        return False
    return isinstance(found, type) and found.__module__.split(".")[0] == "sklearn"


def check_size(path: Path) -> None:
    """Refuse an archive that unpacks to more than the limit, counting each part as often as it is read."""
    with zipfile.ZipFile(path) as archive:
        check_bytes(path, sum(entry.file_size for entry in archive.infolist()))
        sizes = {name: _unpacked(archive, name) for name in archive.namelist()}
        parts = _parts(json.loads(archive.read("schema.json")))
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


def _parts(schema: Any) -> Iterator[str]:
    """Names of the parts that a schema refers to."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if isinstance(node.get("file"), str):
                yield node["file"]
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node

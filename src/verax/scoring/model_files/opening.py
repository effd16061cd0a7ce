"""Models that other libraries saved: opened by the ending of their file, without running code from it."""

import contextlib
import functools
import hashlib
import importlib
import io
import json
import re
import subprocess
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from verax.core.files import entries
from verax.core.packages import optional_package
from verax.core.system import how_it_ended
from verax.data.array_files import first_line
from verax.data.limits import LimitError, check_bytes
from verax.scoring import adapters
from verax.scoring.adapters.onnx import load_session
from verax.scoring.adapters.torch_module import load_exported
from verax.scoring.model_files.saved import ModelFileError, load
from verax.scoring.scorer import Scorer

_NOT_SKOPS = (  # skops has no error of its own for files that it cannot read
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
TRUSTED = "trust = true in a study, --trust-model on the command line"
_KINDS = {  # what files are, by their ending, and how they are written
    ".onnx": ("ONNX model", "torch.onnx.export or skl2onnx"),
    ".skops": ("scikit-learn model of skops", "skops.io.dump(model, path)"),
    ".pt2": ("program of torch.export", "torch.export.save(program, path)"),
    ".json": ("XGBoost model", "model.save_model(path)"),
    ".ubj": ("XGBoost model", "model.save_model(path)"),
    ".txt": ("LightGBM model", "booster.save_model(path)"),
    ".cbm": ("CatBoost model", "model.save_model(path)"),
}
_LOCATION = re.compile(rb"\x0a\x08location\x12(?P<length>[\x80-\xff]{0,2}[\x00-\x7f])")


def open_model(path: str | Path, *, returns: adapters.Returns | None = None, trust: bool = False) -> adapters.Adapter:
    """Open a model file of another library; what comes back can be passed as ``model`` everywhere.

    Args:
        path: ``.onnx``, ``.skops`` (scikit-learn), ``.json`` or ``.ubj`` (XGBoost), ``.txt`` (LightGBM), ``.cbm``
            (CatBoost) or ``.pt2`` (``torch.export``).
        returns: What it returns, where the file does not say it: ``"logits"``, ``"probabilities"`` or ``"values"``.
        trust: Whether a file may be opened that can run code: every ``.pt2``, and a ``.skops`` with classes that skops
            does not know.

    Raises:
        FileNotFoundError: There is no such file.
        ModelFileError: It is not what its ending says; the message says what to do.

    Example:
        >>> open_model("model.pickle")
        Traceback (most recent call last):
        ValueError: model.pickle: expected a model file that ends in .onnx, .skops, .pt2, .json, .ubj, .txt, .cbm.
    """
    place = Path(path).expanduser()
    suffix = place.suffix.lower()
    if suffix not in _OPENERS:
        raise ValueError(f"{path}: expected a model file that ends in {', '.join(_OPENERS)}.")
    if not place.is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    return adapters.adapt(_OPENERS[suffix](place, trust), returns, None)


def open_scorer(
    path: Path,
    *,
    returns: adapters.Returns | None = None,
    device: str | torch.device | None = None,
    trust: bool = False,
    takes_missing: bool | None = None,
) -> Scorer:
    """Open a model file of Verax or of another library; pickled, the scorer is opened anew from the same path."""
    settings: dict[str, Any] = {"device": device, "takes_missing": takes_missing}
    again = functools.partial(open_scorer, path.expanduser().absolute(), returns=returns, trust=trust, **settings)
    if path.suffix.lower() == ".safetensors":
        saved = load(path)
        settings |= {"feature_names": saved.feature_names or None, "labels": saved.class_names or None}
        scorer = Scorer(saved.module, returns=returns or saved.returns, **settings)
    else:
        scorer = Scorer(open_model(path, returns=returns, trust=trust), returns=returns, **settings)
    scorer.reopened = again
    return scorer


def register_model_file(suffix: str, open_file: Callable[[Path], Any]) -> None:
    """Make another kind of model file known, to ``open_model``, to studies and to commands (``--import MODULE``).

    Args:
        suffix: How such files end, in small letters: ``".rules"``.
        open_file: From a path to anything that ``verax.Scorer`` takes: a fitted model, a torch module, a Scorer's
            adapter.

    Example:
        >>> import torch, verax
        >>> verax.models.register_model_file(".weights", lambda path: torch.nn.Linear(int(path.read_text()), 2))
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "m.weights"
        >>> _ = path.write_text("3")
        >>> verax.models.open_model(path).module
        Linear(in_features=3, out_features=2, bias=True)
    """
    if not suffix.startswith(".") or suffix != suffix.lower() or suffix == ".safetensors":
        raise ValueError(f"suffix: expected an ending such as '.rules' in small letters, got {suffix!r}.")
    if suffix in _KINDS:
        raise ValueError(f"suffix: {suffix} files are opened by Verax itself; choose another ending.")
    _OPENERS[suffix] = lambda path, trust: open_file(path)


def check_model_name(path: str | Path) -> None:
    if Path(path).suffix.lower() not in (".safetensors", *_OPENERS):
        raise ValueError(
            f"expected a model file that ends in .safetensors, {', '.join(_OPENERS)}; pickled models (.pkl, .joblib, "
            ".pt) can run code and are not opened: save them as one of these"
        )


def file_hash(path: str | Path) -> str:
    """Hash of a model's file, of its sidecar, and of the files in which an ONNX model keeps its weights."""
    place = Path(path).expanduser()
    digest = hashlib.sha256(place.read_bytes())
    weights = weight_files(place)
    for part in weights:
        if len(weights) > 1:  # where one ends and the next begins
            digest.update(f"{part.name} {part.stat().st_size}\n".encode())
        with part.open("rb") as file:
            while block := file.read(1 << 24):
                digest.update(block)
    return digest.hexdigest()


def weight_files(path: Path) -> list[Path]:
    """Files that belong to a model's: a sidecar, or those that an ONNX graph names as the location of its tensors.

    In the graph they are entries of a key and a value, with its length.
    """
    if path.suffix == ".safetensors":
        return [sidecar] if (sidecar := path.with_suffix(".json")).is_file() else []
    if path.suffix.lower() != ".onnx":
        return []
    names, content = set(), path.read_bytes()
    for location in _LOCATION.finditer(content):
        length = location["length"]
        size = sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(length))
        names.add(content[location.end() : location.end() + size].decode(errors="replace"))
    return sorted(file for name in names if "\0" not in name and (file := path.parent / name).is_file())


@contextlib.contextmanager
def _named(path: Path, *damage: type[Exception]) -> Iterator[None]:
    try:
        yield
    except (ModelFileError, LimitError):
        raise
    except damage as error:
        what, writer = _KINDS[path.suffix.lower()]
        reason = first_line(error).removeprefix(f"model: {path} ")
        raise ModelFileError(f"{path}: cannot be opened as {what} ({reason}); save it with {writer}.") from None


def _onnx(path: Path, trust: bool) -> Any:
    with _named(path, ValueError, RuntimeError):
        return load_session(path)


def _exported(path: Path, trust: bool) -> Any:
    if not trust:
        raise ModelFileError(
            f"{path} is not opened, because torch runs code that a .pt2 file holds. If you trust whoever made it, say "
            f"{TRUSTED}; .onnx and .safetensors files run nothing."
        )
    with _named(path, ValueError, RuntimeError):
        return load_exported(path)


def _skops(path: Path, trust: bool) -> Any:
    skops = optional_package("skops.io", "verax[sklearn-files]", "a .skops file")
    with _named(path, *_NOT_SKOPS):
        check_size(path)
        types = skops.get_untrusted_types(file=path)
        unknown = [name for name in types if not is_known(name)]
        if unknown and not trust:
            raise ModelFileError(
                f"{path} is not opened, because it holds classes that skops does not know ({', '.join(unknown[:5])}). "
                f"If you trust whoever made it, say {TRUSTED}."
            )
        if any(name.endswith(".Booster") for name in types):
            check_loads(path, "skops", tuple(types))
        return skops.load(path, trusted=types)


def _xgboost(path: Path, trust: bool) -> Any:
    xgboost = optional_package("xgboost", "xgboost", "an XGBoost model")
    booster = xgboost.Booster()
    with _named(path, xgboost.core.XGBoostError, ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of files of other versions, which it says at length
        check_loads(path, "xgboost")
        booster.load_model(path)
    return booster


def _lightgbm(path: Path, trust: bool) -> Any:
    lightgbm = optional_package("lightgbm", "lightgbm", "a LightGBM model")
    with _named(path, lightgbm.basic.LightGBMError, ValueError):
        if path.read_bytes()[:4] != b"tree":  # where LightGBM would end the process with a message of its own
            raise ValueError("its first line is not that of a LightGBM model")
        check_loads(path, "lightgbm")
        return lightgbm.Booster(model_file=path)


def _catboost(path: Path, trust: bool) -> Any:
    catboost = optional_package("catboost", "catboost", "a CatBoost model")
    with _named(path, catboost.CatBoostError):
        return catboost.CatBoost().load_model(path, format="cbm")


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


_OPENERS: dict[str, Callable[[Path, bool], Any]] = {
    ".onnx": _onnx,
    ".skops": _skops,
    ".pt2": _exported,
    ".json": _xgboost,
    ".ubj": _xgboost,
    ".txt": _lightgbm,
    ".cbm": _catboost,
}

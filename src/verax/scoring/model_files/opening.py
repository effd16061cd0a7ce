"""Models that other libraries saved: opened by the ending of their file, without running code from it."""

import hashlib
import re
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from verax.core.packages import optional_package
from verax.data.array_files import first_line
from verax.data.limits import LimitError
from verax.scoring import adapters
from verax.scoring.adapters.onnx import load_session
from verax.scoring.adapters.torch_module import load_exported
from verax.scoring.model_files.safe_loading import NOT_SKOPS, check_loads, check_size, is_known
from verax.scoring.model_files.saved import ModelFileError, load
from verax.scoring.scorer import Scorer

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
    again = partial(open_scorer, path.expanduser().absolute(), returns=returns, trust=trust, **settings)
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
    """Raise for a file that is no model's, by its ending."""
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


def _graph(path: Path, trust: bool) -> Any:
    """A graph of ONNX, or of torch."""
    exported = path.suffix.lower() == ".pt2"
    if exported and not trust:
        raise ModelFileError(
            f"{path} is not opened, because torch runs code that a .pt2 file holds. If you trust whoever made it, say "
            f"{TRUSTED}; .onnx and .safetensors files run nothing."
        )
    try:
        return load_exported(path) if exported else load_session(path)
    except (ValueError, RuntimeError) as error:
        raise _unreadable(path, error) from None


def _skops(path: Path, trust: bool) -> Any:
    io = optional_package("skops.io", "verax[sklearn-files]", "a .skops file")
    try:
        check_size(path)
        types = io.get_untrusted_types(file=path)
    except LimitError:
        raise
    except NOT_SKOPS as error:
        raise _unreadable(path, error) from None
    unknown = [name for name in types if not is_known(name)]
    if unknown and not trust:
        raise ModelFileError(
            f"{path} is not opened, because it holds classes that skops does not know ({', '.join(unknown[:5])}). If "
            f"you trust whoever made it, say {TRUSTED}."
        )
    try:
        if any(name.endswith(".Booster") for name in types):
            check_loads(path, "skops", tuple(types))
        return io.load(path, trusted=types)
    except NOT_SKOPS as error:
        raise _unreadable(path, error) from None


def _xgboost(path: Path, trust: bool) -> Any:
    xgboost = optional_package("xgboost", "xgboost", "an XGBoost model")
    booster = xgboost.Booster()
    try:
        check_loads(path, "xgboost")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of files of other versions, which it says at length
            booster.load_model(path)
    except (xgboost.core.XGBoostError, ValueError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from None
    return booster


def _lightgbm(path: Path, trust: bool) -> Any:
    lightgbm = optional_package("lightgbm", "lightgbm", "a LightGBM model")
    if path.read_bytes()[:4] != b"tree":  # where LightGBM would end the process with a message of its own
        raise _unreadable(path, ValueError("its first line is not that of a LightGBM model"))
    try:
        check_loads(path, "lightgbm")
        return lightgbm.Booster(model_file=path)
    except (lightgbm.basic.LightGBMError, ValueError) as error:
        raise _unreadable(path, error) from None


def _catboost(path: Path, trust: bool) -> Any:
    catboost = optional_package("catboost", "catboost", "a CatBoost model")
    try:
        return catboost.CatBoost().load_model(path, format="cbm")
    except catboost.CatBoostError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: BaseException) -> ModelFileError:
    suffix, reason = path.suffix.lower(), first_line(error).removeprefix(f"model: {path} ")
    what, writer = _KINDS[suffix]
    return ModelFileError(f"{path}: cannot be opened as {what} ({reason}); save it with {writer}.")


_OPENERS: dict[str, Callable[[Path, bool], Any]] = {
    ".onnx": _graph,
    ".skops": _skops,
    ".pt2": _graph,
    ".json": _xgboost,
    ".ubj": _xgboost,
    ".txt": _lightgbm,
    ".cbm": _catboost,
}

"""What commands about one's own model share: their options, and how they read the model and what goes with it."""

import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verax.cli import complete
from verax.cli.common import checked_device_name

if TYPE_CHECKING:
    from verax import Scorer
    from verax.datasets.array_files import Array

ModelFile = Annotated[
    Path, typer.Option(help=".onnx, .safetensors from verax train, or .pt2 (torch.export; needs --trust-model).")
]
TrustModel = Annotated[
    bool,
    typer.Option("--trust-model", help="Open a .pt2 file, which can run any code: only if you trust whoever made it."),
]
InputsFile = Annotated[Path, typer.Option(help="What the model takes: .npy, .npz, .safetensors, .parquet or .csv.")]
Target = Annotated[
    str | None,
    typer.Option(
        help="A class: number, label, or label:TEXT for a label like a number; or a file of them; else predicted."
    ),
]
Baseline = Annotated[str, typer.Option(help="What removed features become: a number or a file.")]
Returned = Annotated[
    str | None, typer.Option(help="What the model gives: logits or probabilities.", autocompletion=complete.returns)
]
Level = Annotated[float, typer.Option(help="Coverage of the intervals.")]
DeviceName = Annotated[str | None, typer.Option(help="cpu or cuda; cpu by default.", autocompletion=complete.devices)]
BatchSize = Annotated[int | None, typer.Option(help="Model rows at once; automatic by default.")]

_LABEL = "label:"  # before a label that looks like a number or like a file


def open_model(path: Path, inputs_path: Path, returns: Any, device: str | None, trust: bool) -> "tuple[Scorer, Array]":
    """Open the model, put the inputs' columns in its order where it knows their names, and try the first rows."""
    from verax import Scorer
    from verax.datasets.array_files import read_inputs

    if device is not None:
        checked_device_name(device)
    if path.suffix not in (".onnx", ".pt2", ".safetensors"):
        raise ValueError(f"--model: expected a file that ends in .onnx, .pt2 or .safetensors, found {path}.")
    if returns not in (None, "logits", "probabilities"):
        raise ValueError(f"--returns: expected logits or probabilities, found {returns}.")
    if not path.is_file():
        raise FileNotFoundError(f"--model: there is no file {path}.")
    if path.suffix == ".pt2" and not trust:
        raise ValueError(
            f"--model: {path} is not opened, because torch runs code that a .pt2 file holds. Pass --trust-model if you "
            "trust whoever made it; .onnx files, and .safetensors files of verax train, run nothing."
        )
    inputs = read_inputs(inputs_path)
    if path.suffix == ".safetensors":
        from verax.models import load

        saved = load(path)
        if saved.feature_names:
            inputs = inputs.ordered(saved.feature_names, str(path))
        scorer = Scorer(saved.module, returns=returns or "logits", device=device, labels=saved.class_names or None)
    else:
        scorer = Scorer(path, returns=returns, device=device, trust=trust)
    _try(scorer, inputs, path)
    return scorer, inputs


def _try(scorer: "Scorer", inputs: "Array", path: Path) -> None:
    """Score two rows, so that inputs of another shape are told in a line."""
    from verax.datasets.array_files import first_line
    from verax.problem.inputs import checked_inputs

    rows = checked_inputs(inputs.values)[:2]
    try:
        with scorer.session(rows, "numpy", "probability") as session:
            session.class_scores(rows)
    except _model_errors(path) as error:
        shape, reason = tuple(rows.shape[1:]), first_line(error.__cause__ or error)
        raise ValueError(f"{inputs.source}: {path} cannot score rows of shape {shape}: {reason}.") from None


def _model_errors(path: Path) -> tuple[type[Exception], ...]:
    """What a model may raise on rows that do not fit it; ONNX Runtime's errors have no common type."""
    if path.suffix != ".onnx":
        return (RuntimeError, AssertionError)
    state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    return (state.Fail, state.InvalidArgument, state.RuntimeException, state.NotImplemented)


def baseline_of(text: str, inputs: "Array") -> Any:
    """Read ``--baseline``: a number, or a file."""
    if not _is_file(text):
        return _number("--baseline", text)
    return _read(text).like(inputs).values


def target_of(text: str | None) -> Any:
    """Read ``--target``: a class number, a label, or a file with one of either per input."""
    from verax.datasets.array_files import read_words

    if text is None:
        return None
    if not _is_file(text):
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else text.removeprefix(_LABEL)
    words = read_words(Path(text))
    return class_numbers("--target", text) if words is None else words


def class_numbers(option: str, text: str) -> Any:
    """Read a file with a class number per row."""
    found = _read(text).values
    classes = found[:, 0] if found.shape[1:] == (1,) else found
    if not ((classes == classes.round()) & (abs(classes) < 1 << 31)).all():
        raise ValueError(f"{option}: {text}: expected class numbers, found others.")
    return classes.astype("int64")


def _is_file(text: str) -> bool:
    from verax.datasets.array_files import SUFFIXES

    return Path(text).suffix.lower() in SUFFIXES


def _read(text: str) -> "Array":
    from verax.datasets.array_files import read_inputs

    return read_inputs(Path(text))


def _number(option: str, text: str) -> float:
    from verax.datasets.array_files import SUFFIXES

    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{option}: expected a number or a file ({', '.join(SUFFIXES)}), found {text}.") from None

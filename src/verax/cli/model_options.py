"""What commands about one's own model share: their options, and how they read the model and what goes with it."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verax.cli import complete
from verax.cli.common import checked_device_name

if TYPE_CHECKING:
    from verax import Scorer
    from verax.datasets.array_files import Array

ModelFile = Annotated[Path, typer.Option(help=".onnx, .pt2 (torch.export), or .safetensors from verax train.")]
InputsFile = Annotated[Path, typer.Option(help="What the model takes: .npy, .npz, .safetensors, .parquet or .csv.")]
Target = Annotated[str | None, typer.Option(help="A class, or a file with one per input; else predicted.")]
Baseline = Annotated[str, typer.Option(help="What removed features become: a number or a file.")]
Returned = Annotated[
    str | None, typer.Option(help="What the model gives: logits or probabilities.", autocompletion=complete.returns)
]
Level = Annotated[float, typer.Option(help="Coverage of the intervals.")]
DeviceName = Annotated[str | None, typer.Option(help="cpu or cuda; cpu by default.", autocompletion=complete.devices)]
BatchSize = Annotated[int | None, typer.Option(help="Model rows at once; automatic by default.")]


def open_model(path: Path, inputs_path: Path, returns: Any, device: str | None) -> "tuple[Scorer, Array]":
    """Open the model, put the inputs' columns in its order where it knows their names, and try the first rows."""
    from verax import Scorer
    from verax.datasets.array_files import read_inputs

    if device is not None:
        checked_device_name(device)
    inputs = read_inputs(inputs_path)
    if path.suffix not in (".onnx", ".pt2", ".safetensors"):
        raise ValueError(f"--model: expected a file that ends in .onnx, .pt2 or .safetensors, found {path}.")
    if returns not in (None, "logits", "probabilities"):
        raise ValueError(f"--returns: expected logits or probabilities, found {returns}.")
    if not path.is_file():
        raise FileNotFoundError(f"--model: there is no file {path}.")
    if path.suffix == ".safetensors":
        from verax.models import load

        saved = load(path)
        if saved.feature_names:
            inputs = inputs.ordered(saved.feature_names, str(path))
        scorer = Scorer(saved.module, returns=returns, device=device)
    else:
        scorer = Scorer(path, returns=returns, device=device)
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
        shape = tuple(rows.shape[1:])
        raise ValueError(f"{inputs.source}: {path} cannot score rows of shape {shape}: {first_line(error)}.") from None


def _model_errors(path: Path) -> tuple[type[Exception], ...]:
    """What a model may raise on rows that do not fit it; ONNX Runtime's errors have no common type."""
    if path.suffix != ".onnx":
        return (RuntimeError, AssertionError)
    state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    return (state.Fail, state.InvalidArgument, state.RuntimeException, state.NotImplemented)


def number_or_file(option: str, text: str | None, kind: type[int] | type[float], inputs: "Array") -> Any:
    """Read an option that is a number or a file with one for each input."""
    from verax.datasets.array_files import SUFFIXES, read_inputs

    if text is None:
        return None
    if Path(text).suffix.lower() not in SUFFIXES:
        try:
            return kind(text)
        except ValueError:
            wanted = "a class number" if kind is int else "a number"
            raise ValueError(f"{option}: expected {wanted} or a file ({', '.join(SUFFIXES)}), found {text}.") from None
    found = read_inputs(Path(text))
    if kind is float:
        return found.like(inputs).values
    classes = found.values[:, 0] if found.values.shape[1:] == (1,) else found.values
    if not ((classes == classes.round()) & (abs(classes) < 1 << 31)).all():
        raise ValueError(f"{option}: {text}: expected class numbers, found others.")
    return classes.astype("int64")

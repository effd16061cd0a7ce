"""Torch modules, and programs exported with ``torch.export``."""

import io
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from verax.core.arrays import ArrayKind
from verax.core.warn import warn
from verax.scoring.adapters.base import Returns, RowArguments, without_wrapper

_WIDEST = 4  # times the vector of a token: what the widest layer of a transformer makes of it


def configured_returns(module: nn.Module) -> Returns:
    """Values for a head of regression, which one output is unless the configuration says otherwise; else logits."""
    config = getattr(module, "config", None)
    kind, outputs = getattr(config, "problem_type", None), getattr(config, "num_labels", None)
    single = type(module).__name__.endswith("ForSequenceClassification") and outputs == 1 and kind is None
    return "values" if kind == "regression" or single else "logits"


def numbers_of(module: nn.Module | None, elements: int) -> int:
    """Numbers that a model computes with for a row of so many whole ones: of each token it makes a vector."""
    find = getattr(module, "get_input_embeddings", None)
    embedding = find() if callable(find) else None
    return elements * (_WIDEST * embedding.embedding_dim if isinstance(embedding, nn.Embedding) else 1)


_PROGRAMS = ("models/model.json", "serialized_exported_program.json")
_TRAINING = (  # operators of torch.export that have a training mode
    "aten.dropout", "aten.native_dropout", "aten.feature_dropout", "aten.alpha_dropout", "aten.feature_alpha_dropout",
    "aten.batch_norm", "aten.native_batch_norm", "aten._native_batch_norm_legit.",
    "aten._native_batch_norm_legit_functional", "aten.bernoulli", "aten.rrelu",
)  # fmt: skip
_DAMAGE = (  # what torch raises for parts of an archive that are not what they should be
    ArithmeticError, AssertionError, AttributeError, EOFError, ImportError, LookupError, OSError, RuntimeError,
    SyntaxError, TypeError, ValueError, pickle.UnpicklingError, zipfile.BadZipFile,
)  # fmt: skip


@dataclass(frozen=True)
class TorchModule:
    """A ``torch.nn.Module`` that returns class scores, or an object that carries them as ``logits``."""

    module: nn.Module  # the module
    returns: Returns  # what it returns, or what ``score`` makes of it
    # from the module's output, whatever that is, to one or more numbers per row
    score: Callable[[Any], Any] | None = None

    @property
    def labels(self) -> tuple[str, ...] | None:
        names = getattr(getattr(self.module, "config", None), "id2label", None)
        if self.score is not None or not isinstance(names, dict) or sorted(names) != list(range(len(names))):
            return None
        labels = tuple(str(names[number]) for number in range(len(names)))
        unnamed = all(label == f"LABEL_{number}" for number, label in enumerate(labels))
        return None if unnamed else labels

    def __call__(self, batch: Tensor, kind: ArrayKind, row_arguments: RowArguments | None = None) -> object:
        return self.scored(self.module(batch) if row_arguments is None else row_arguments.call(self.module, batch))

    def scored(self, output: object) -> object:
        return without_wrapper(output, self.returns) if self.score is None else self.score(output)


def check_alone(module: nn.Module) -> None:
    """Warn of batch norms that look at the whole batch, so that a row's score depends on the rows beside it."""
    for name, part in module.named_modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None:
            warn(
                f"The model's batch norm {name or type(part).__name__} has no running statistics, so the score of a "
                "row depends on the rows beside it and on the batch size; scores mean little. Train it with "
                "track_running_stats=True.",
            )
            return


def check_exported_for_inference(graph: torch.fx.Graph, name: str) -> None:
    """Raise for a program that was exported in training mode: it has no switch, and its scores are drawn by lot."""
    for node in graph.nodes:
        kind = str(node.target)
        if node.op == "call_function" and kind.startswith(_TRAINING) and _trains(node):
            raise ValueError(
                f"model: {name} was exported in training mode ({kind} is on), so its scores change from call to call "
                "or with the batch; export it anew after model.eval()."
            )


def _trains(node: torch.fx.Node) -> bool:
    for place, argument in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        if argument.name in ("train", "training"):
            flag = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
            return flag is not False
    return True


def exported_module(program: torch.export.ExportedProgram, name: str = "the exported program") -> nn.Module:
    """Make a module of an exported program, if it takes one batch of any number of rows."""
    inputs = program.graph_signature.user_inputs
    if len(inputs) != 1:
        raise ValueError(f"model: {name} takes {len(inputs)} inputs ({', '.join(map(str, inputs))}); expected one.")
    (value,) = (node.meta["val"] for node in program.graph.nodes if node.name == inputs[0])
    if not isinstance(value, Tensor) or value.ndim == 0:
        raise ValueError(f"model: {name} takes a {type(value).__name__}; expected a batch, a tensor with rows.")
    if isinstance(value.shape[0], int):
        raise ValueError(
            f"model: {name} takes batches of exactly {value.shape[0]} rows; export it for any number: "
            'torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},)).'
        )
    return program.module()


def load_exported(path: Path) -> nn.Module:
    """Read a ``.pt2`` archive that the user trusts: torch evaluates parts of it as Python."""
    data, names = path.read_bytes(), list[str]()
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
    if not any(name.endswith(_PROGRAMS) for name in names):  # over which torch would raise with pages of log
        raise ValueError(f"model: {path} is no archive of torch.export; expected what torch.export.save writes.")
    try:
        program = torch.export.load(io.BytesIO(data))
    except _DAMAGE as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"model: {path} cannot be read as an archive of torch.export ({first}).") from error
    return exported_module(program, str(path))

"""Torch modules, and programs exported with ``torch.export``."""

import contextlib
import io
import os
import pickle
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from verax.core.arrays import ArrayKind
from verax.scoring.adapters.base import Returns, without_wrapper

_WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"  # torch.load obeys it whatever the caller says
_CODE = re.compile(rb"constants.(opaque|custom)_obj|data.aotinductor", re.IGNORECASE | re.DOTALL)
_PROGRAMS = ("models/model.json", "serialized_exported_program.json")


@dataclass(frozen=True)
class TorchModule:
    """A ``torch.nn.Module`` that returns class scores, or an object that carries them as ``logits``."""

    module: nn.Module
    returns: Returns

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        """Run the module."""
        return without_wrapper(self.module(batch), self.returns)


def exported_module(program: torch.export.ExportedProgram, name: str = "the exported program") -> nn.Module:
    """Make a module of an exported program, if it takes one batch of any number of rows."""
    inputs = program.graph_signature.user_inputs
    if len(inputs) != 1:
        raise ValueError(f"model: {name} takes {len(inputs)} inputs ({', '.join(map(str, inputs))}); wanted is one.")
    (value,) = (node.meta["val"] for node in program.graph.nodes if node.name == inputs[0])
    if not isinstance(value, Tensor) or value.ndim == 0:
        raise ValueError(f"model: {name} takes a {type(value).__name__}; wanted is a batch, a tensor with rows.")
    if isinstance(value.shape[0], int):
        raise ValueError(
            f"model: {name} takes batches of exactly {value.shape[0]} rows; export it for any number: "
            'torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},)).'
        )
    return program.module()


def load_exported(path: Path) -> nn.Module:
    """Read a ``.pt2`` archive without running what it contains: no pickled objects, no compiled code."""
    data = path.read_bytes()
    if _CODE.search(data):  # names in a ZIP archive are never compressed
        raise ValueError(f"model: {path} holds pickled objects or compiled code; wanted are weights and a graph alone.")
    _check_archive(path, data)
    with _weights_only():
        try:
            program = torch.export.load(io.BytesIO(data))
        except (RuntimeError, AssertionError, KeyError, TypeError, ValueError, pickle.UnpicklingError) as error:
            first = next(iter(str(error).splitlines()), type(error).__name__)
            raise ValueError(f"model: {path} cannot be read as an archive of torch.export ({first}).") from error
    return exported_module(program, str(path))


def _check_archive(path: Path, data: bytes) -> None:
    """Refuse early what ``torch.export.load`` would refuse with pages of log."""
    names = []
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
    if not any(name.endswith(_PROGRAMS) for name in names):
        raise ValueError(f"model: {path} is no archive of torch.export; wanted is what torch.export.save writes.")


@contextlib.contextmanager
def _weights_only() -> Iterator[None]:
    before = os.environ.get(_WEIGHTS_ONLY)
    os.environ[_WEIGHTS_ONLY] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_WEIGHTS_ONLY]
        else:
            os.environ[_WEIGHTS_ONLY] = before

"""Families of faults in what models, frames and files bring: drawn by seed, each refused or without effect, counted."""

import csv
import io
import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor, nn

import calls
import verax
from faults.conftest import COUNTS, MORE
from scale.lakes import SmallLake, same
from verax.data.array_files import read_table
from verax.data.limits import LimitError
from verax.metrics import Infidelity
from verax.models import ModelFileError, open_model
from verax.problem.text.model_folder import check_code
from verax.scoring.model_files.opening import file_hash

X = torch.randn(11, 5, generator=torch.Generator().manual_seed(0))
GIVEN = {"first": X.flip(1), "second": -X.roll(1, 0)}
METRICS = ("pc", "dpc", "srg", "lpc", "infidelity", "effect_correlation", "sensitivity_n")


class Reusing(nn.Module):
    """Returns a view of memory that the next call overwrites."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.memory = layer, torch.empty(100_000, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.memory[: len(x)]
        out.copy_(self.layer(x).detach())
        return out


@pytest.mark.parametrize("batch_size", [1, 4, 7, 1000])
@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_models_that_reuse_a_buffer(kind: str, batch_size: int) -> None:
    layer = nn.Linear(5, 2)
    reusing, plain = Reusing(layer), layer
    as_numpy = {"returns": "logits", "takes": "numpy"}
    if kind == "numpy":
        models = [
            verax.Scorer(lambda x, m=m: m(torch.as_tensor(x)).detach().numpy(), **as_numpy) for m in (reusing, plain)
        ]
    else:
        models = [verax.Scorer(m) for m in (reusing, plain)]
    found, wanted = (calls.evaluate(m, X, GIVEN, METRICS, samples=20, batch_size=batch_size) for m in models)
    for name in METRICS:
        for one in GIVEN:
            torch.testing.assert_close(found[name].value[one], wanted[name].value[one], rtol=0, atol=0)
            COUNTS["buffers of models copied"] += 1


NAMES = ("weights", "w.bin", "location", "a b", "ü", "x" * 200, "deep/er/w", ".hidden", "m.onnx.data", "\u2028")


@pytest.mark.parametrize("name", NAMES)
def test_external_weights_of_onnx_under_any_name(name: str, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[2, 2])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=name)
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    ends = ([value("x", 1, ["n", 2])], [value("y", 1, ["n", 2])])
    path, weights = tmp_path / "m.onnx", tmp_path / name
    path.write_bytes(onnx.helper.make_model(onnx.helper.make_graph([node], "g", *ends, [tensor])).SerializeToString())
    weights.parent.mkdir(parents=True, exist_ok=True)
    hashes = []
    for content in (np.ones(4), np.zeros(4), np.ones(4)):
        weights.write_bytes(content.astype(np.float32).tobytes())
        hashes.append(file_hash(path))
    assert hashes[0] != hashes[1]
    assert hashes[0] == hashes[2]
    COUNTS["names of ONNX weights hashed"] += 1


def test_two_runs_of_a_lake_at_once(tmp_path: Path) -> None:
    """One is refused in a line, and what the other wrote is whole."""
    lake = SmallLake(tmp_path)

    def seeded(seed: int) -> list[Any]:
        return ["pc", "dpc", Infidelity(samples=16, seed=seed)]

    def run(task: tuple[str, int]) -> str:
        try:
            lake.score(task[0], metrics=seeded(task[1]))
        except ValueError as error:
            return str(error)
        return "done"

    for seed in (1, 2):
        lake.score(f"alone {seed}", metrics=seeded(seed))

    for number in range(3 * MORE):
        out = f"scores {number}"
        with ThreadPoolExecutor(2) as pool:
            ends = list(pool.map(run, [(out, 1), (out, 2)]))
        winner = ends.index("done")
        assert "holds scores of another job" in ends[1 - winner]
        assert same(lake.table(out), lake.table(f"alone {1 + winner}"))
        assert len(lake.files(out)) == 4
        COUNTS["lakes begun at once"] += 1


def every_class(module: str) -> list[str]:
    """The classes that a module defines."""
    library = pytest.importorskip(module)
    return sorted(
        f"{module}.{name}" for name, one in vars(library).items() if isinstance(one, type) and one.__module__ == module
    )


@pytest.mark.parametrize("module", ["xgboost.core", "xgboost.sklearn", "lightgbm.basic", "lightgbm.sklearn", "ctypes"])
def test_classes_in_skops_files(module: str, tmp_path: Path) -> None:
    """Of the boosters' own modules, all but estimators and boosters need trust."""
    pytest.importorskip("skops")
    import zipfile  # noqa: PLC0415

    trusted = ("Booster", "Classifier", "Regressor", "Ranker")
    for kind in every_class(module):
        if kind.endswith(trusted) and not kind.rpartition(".")[2].startswith("_"):
            continue
        _, _, name = kind.rpartition(".")
        node = {"__class__": name, "__module__": module, "__loader__": "ObjectNode", "content": None, "__id__": 1}
        with zipfile.ZipFile(tmp_path / "odd.skops", "w") as archive:
            archive.writestr("schema.json", json.dumps(node | {"protocol": 2, "_skops_version": "0.13"}))
        with pytest.raises(ModelFileError, match=r"odd\.skops is not opened, because"):
            open_model(tmp_path / "odd.skops")
        COUNTS["classes of skops refused"] += 1


FIELDS = {
    "auto_map": {"AutoModel": "org/repo--m.M"}, "custom_pipelines": {"p": {"impl": "x.P"}}, "trust_remote_code": True,
    "attn_implementation": "org/repo", "_attn_implementation": "org/repo@main:f", "use_kernels": True,
    "experts_implementation": "org/repo", "_attn_implementation_internal": "kernels-community/x",
    "quantization_config": {"quant_method": "hqq"}, "backbone": "org/repo", "use_timm_backbone": True,
    "transformers_weights": "../w", "base_model_name_or_path": "org/repo", "peft_config": {"x": 1},
}  # fmt: skip


@pytest.mark.parametrize(
    "file", ["config.json", "tokenizer_config.json", "generation_config.json", "adapter_config.json"]
)
def test_fields_of_configs_at_any_depth(file: str, tmp_path: Path) -> None:
    chance = random.Random(file)  # noqa: S311  # no secret
    for _ in range(2 * MORE):
        for key, value in FIELDS.items():
            content: Any = {key: value}
            for _ in range(chance.randrange(5)):
                content = chance.choice([{"text_config": content}, {"parts": [1, content]}, {"a": 1, "b": content}])
            (tmp_path / file).write_text(json.dumps(content if isinstance(content, dict) else {"x": content}))
            with pytest.raises(ValueError, match=rf"{file} (asks for|has an entry)"):
                check_code(tmp_path)
            COUNTS["fields of configs refused"] += 1


def test_lists_in_parquet_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of all kinds of nesting, 10 to 1,000 times larger than their files."""
    monkeypatch.setenv("VERAX_MAX_GIB", "0.001")
    chance = random.Random(0)  # noqa: S311  # no secret
    for number in range(24 * MORE):
        value: Any = chance.choice([1.5, True, 7, "word"])
        column: Any = [value] * chance.choice([200_000, 400_000])
        for _ in range(chance.randrange(1, 4)):
            column = [{"x": column}] if chance.random() < 0.3 else [column]
        frame = pl.DataFrame({"a": column})
        frame.write_parquet(tmp_path / f"{number}.parquet", compression="zstd")
        assert (tmp_path / f"{number}.parquet").stat().st_size < 200_000
        with pytest.raises(LimitError, match="above the limit"):
            read_table(tmp_path / f"{number}.parquet")
        COUNTS["Parquet lists counted"] += 1


def test_no_name_becomes_a_formula(tmp_path: Path) -> None:
    chance = random.Random(1)  # noqa: S311  # no secret
    letters = '=+-@\t\r\n\uff1d\uff0b\uff0d\uff20ab1("&,;|! '
    drawn = {"".join(chance.choices(letters, k=chance.randrange(1, 9))) for _ in range(60 * MORE)}
    names = sorted(name for name in drawn if name.strip())
    verax.evaluate(verax.Problem(nn.Linear(5, 2), X), dict.fromkeys(names, X), ["pc"]).save(tmp_path / "x.csv")
    cells = {row[0] for row in csv.reader(io.StringIO((tmp_path / "x.csv").read_bytes().decode(), newline=""))}
    for cell in cells:
        assert cell[:1] not in set("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20") or cell.lstrip("+-").isdigit(), repr(cell)
    assert len(cells) == len(names) + 1
    COUNTS["names in CSV files kept text"] += len(names)

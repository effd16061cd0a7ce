"""Small examples of what modules of this folder share among themselves."""

import re

import numpy as np
import pytest
import torch

from verax.attribution import IntegratedGradients, LimeImage, SmoothGrad
from verax.core.arguments import kind_in_words
from verax.core.blocks import chunk_size, deterministic_scatter_add, pieces, whole_batches
from verax.core.display import cost, counted, digits_of_interval, escape, first_rows, metric_head, significant
from verax.core.files import (
    BLANK_CHECKSUM,
    Sealed,
    finite,
    has_valid_checksum,
    read_sealed_json,
    sealed_json,
    with_checksum,
)
from verax.core.folders import open_folder, split_pattern
from verax.core.noise import random_order
from verax.core.packages import optional_package
from verax.core.registry import Registry, code_of, file_name, from_dict, parse_short_form, to_dict, unknown
from verax.metrics import PredictionChange


def test_registry_registry():
    shapes: Registry[object] = Registry("shape")
    shapes.add("circle", type("Circle", (), {}))
    assert ("circle" in shapes, list(shapes)) == (True, ["circle"])
    with pytest.raises(ValueError, match=re.escape("shape: expected circle, got 'cirle'; did you mean 'circle'?")):
        shapes.get("cirle")


def test_registry_file_name():
    assert file_name(type("NoisyLinear", (), {})) == "noisy_linear"


def test_registry_unknown():
    assert unknown("helco", ["heloc", "isic"]) == "expected heloc or isic, got 'helco'; did you mean 'heloc'?"


def test_registry_from_dict():
    assert (
        repr(from_dict(LimeImage, {"alpha": 0.1, "segmenter": {"method": "Slic", "n_segments": 48}}).segmenter)
        == "Slic(n_segments=48, sigma=0.0)"
    )
    assert (
        repr(from_dict(PredictionChange, {"replacement": {"name": "nudge", "epsilon": 0.1}}).replacement)
        == "Nudge(epsilon=0.1)"
    )


def test_registry_to_dict():
    assert to_dict(IntegratedGradients("max")) == {"baseline": "max", "multiply_by_inputs": True, "points": 64}


def test_registry_code_of():
    assert (
        str(code_of(SmoothGrad(sigma=0.5)))
        == "from verax.attribution import SmoothGrad\nSmoothGrad(sigma=0.5, samples=64, seed=0)"
    )


def test_registry_parse_short_form():
    assert parse_short_form("dpc(order=signed, steps=10)") == ("dpc", {"order": "signed", "steps": 10})
    assert parse_short_form('lime_tabular(sigma="std", scale_kernel=true)') == (
        "lime_tabular",
        {"sigma": "std", "scale_kernel": True},
    )


def test_packages_optional_package():
    with pytest.raises(ImportError, match=re.escape("verax.dance needs two_left_feet: pip install 'verax[dance]'")):
        optional_package("two_left_feet", "verax[dance]", "verax.dance")


def test_noise_random_order():
    order = random_order(torch.arange(6), 6, seed=0)
    assert (sorted(order.tolist()), torch.equal(random_order(torch.arange(2, 4), 6, seed=0), order[2:4])) == (
        [0, 1, 2, 3, 4, 5],
        True,
    )


def test_folders_open_folder():
    assert open_folder("/lake/rows/").address == "/lake/rows"


def test_folders_split_pattern():
    assert (split_pattern("s3://lake/rows/2026-*/*.parquet"), split_pattern("rows/part-0.parquet")) == (
        ("s3://lake/rows", "2026-*/*.parquet"),
        ("rows", "part-0.parquet"),
    )
    assert split_pattern("rows/") == ("rows", "**/*.parquet")


def test_files_sealed():
    assert Sealed.name("unit", b"content", ".parquet") == "unit.ed7002b439e9ac84.parquet"


def test_files_finite():
    assert finite({"low": float("nan"), "means": [0.5, float("inf")]}) == {"low": None, "means": [0.5, None]}


def test_files_with_checksum():
    assert with_checksum(b"values " + BLANK_CHECKSUM.encode())[:22] == b"values sealed:9bd70a89"


def test_files_sealed_json():
    assert (read_sealed_json(sealed_json({"rows": 3})), read_sealed_json(b"{}")) == ({"rows": 3}, None)


def test_files_has_valid_checksum():
    assert (
        has_valid_checksum(with_checksum(BLANK_CHECKSUM.encode())),
        has_valid_checksum(BLANK_CHECKSUM.encode()),
    ) == (True, False)


def test_display_escape():
    assert str(escape("age\x1b[2J")) == "age\\x1b[2J"


def test_display_digits_of_interval():
    assert (digits_of_interval([0.3882, 0.3723, 0.4042], 0.016), digits_of_interval([206855.8, 204001.2], 2854.6)) == (
        ["0.388", "0.372", "0.404"],
        ["206900", "204000"],
    )


def test_display_significant():
    assert (significant(0.04321), significant(206855.8), significant(5e-7)) == ("0.0432", "207000", "5e-07")


def test_display_metric_head():
    assert (metric_head("PC", True), metric_head("mine", False)) == ("PC (higher is better)", "mine (lower is better)")


def test_display_first_rows():
    assert first_rows([("a", "1")] * 100)[-2:] == (("a", "1"), ("... and 60 more", ""))


def test_display_cost():
    assert cost(12345, 0.04567) == "12,345 model rows, 0.0457 s"


def test_display_counted():
    assert (counted(1, "input"), counted(1200, "input")) == ("1 input", "1,200 inputs")


def test_blocks_pieces():
    assert [(piece.start, piece.stop) for piece in pieces(8, 3, chunk=5)] == [(0, 3), (3, 5), (5, 8)]


def test_blocks_chunk_size():
    assert (chunk_size(2048, row_bytes=80), chunk_size(1024, row_bytes=4 * 3 * 224 * 224)) == (32768, 6144)


def test_blocks_whole_batches():
    assert (whole_batches(243, 38, 1024), 242 * 38 / 1024) == (242, 8.98046875)


def test_blocks_deterministic_scatter_add():
    assert (
        repr(deterministic_scatter_add(torch.tensor([0.5, 3.0, 0.25]), torch.tensor([1, 0, 1]), torch.zeros(3)))
        == "tensor([3.0000, 0.7500, 0.0000])"
    )


def test_arguments_kind_in_words():
    assert (kind_in_words(np.zeros((5, 3))), kind_in_words([1, 2]), kind_in_words({"a": 1}), kind_in_words(3)) == (
        "ndarray of shape (5, 3)",
        "a list of 2",
        "a dict of 'a'",
        "int",
    )

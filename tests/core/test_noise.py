"""Keyed random numbers: their distribution, what they depend on, and what they do not depend on."""

import hashlib
import itertools
import os
import random
import struct
import subprocess
import sys
from statistics import NormalDist

import jaxtyping
import numpy as np
import pytest
import scipy.stats
import torch

from verax.core import noise

MASK = (1 << 64) - 1
INPUTS = torch.tensor([[0.5, -1.25, 3.0], [0.5, -1.25, 3.5], [0.0, 1.0, 2.0], [1e-30, 7.0, -2.0]])

GOLDEN_KEYS = [13512595223726367391, 10847901061874420538, 15180348078696720225, 731981629352103703]


def keys(count, seed=0, purpose="test"):
    return noise.input_keys(torch.arange(float(count))[:, None], seed, purpose)


# Pure Python, after Steele, Lea and Flood


def mix(state):
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def splitmix64(seed, count):
    return [mix((seed + step * 0x9E3779B97F4A7C15) & MASK) for step in range(1, count + 1)]


def plain_key(row, seed, purpose):
    content = 0
    for place, value in enumerate(row, start=1):
        bits = struct.unpack("<i", struct.pack("<f", value))[0]
        content += mix((bits ^ (place * 0x9E3779B97F4A7C15)) & MASK)
    digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest()
    return mix((content & MASK) ^ int.from_bytes(digest, "little"))


def unsigned(words):
    return [word & MASK for word in words.tolist()]


# Golden values


def test_words_are_splitmix64():
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert splitmix64(1234567, 4) == expected
    assert unsigned(noise.words(torch.tensor([1234567]), 0, 4)[0]) == expected


@pytest.mark.parametrize("key", [0, 1, -1, 2**63 - 1, -(2**63), 0x1234567890ABCDEF])
def test_words_are_splitmix64_for_any_key(key):
    assert unsigned(noise.words(torch.tensor([key]), 0, 50)[0]) == splitmix64(key & MASK, 50)


def test_keys_are_a_fixed_function_of_content_seed_and_purpose():
    expected = [plain_key(row, 7, "gaussian") for row in INPUTS.tolist()]
    assert unsigned(noise.input_keys(INPUTS, 7, "gaussian")) == expected
    assert expected == GOLDEN_KEYS


def test_normals_are_the_means_of_bins_of_equal_probability():
    standard = NormalDist()
    edges = [-float("inf"), *(standard.inv_cdf(place / 65536) for place in range(1, 65536)), float("inf")]
    means = [(standard.pdf(low) - standard.pdf(high)) * 65536 for low, high in itertools.pairwise(edges)]
    scale = (sum(mean * mean for mean in means) / 65536) ** 0.5
    key = keys(1)
    words = [word for draw in range(4) for word in unsigned(noise.words(key, draw << 32, 2)[0])]
    sixteens = [struct.unpack("<4h", struct.pack("<Q", word)) for word in words]
    expected = [means[number + 32768] / scale for word in sixteens for number in word]
    actual = noise.normals(key, 0, 4, 8, torch.float64).flatten()
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9)


def test_another_process_draws_the_same_bits(capsys):
    program = """
import hashlib, torch
from verax.core import noise
key = noise.input_keys(torch.tensor([[0.5, -1.25, 3.0], [0.0, 1.0, 2.0]]), 3, "subset")
drawn = [key, noise.normals(key, 5, 7, 9, torch.float32), noise.normals(key, 5, 7, 9, torch.float64)]
drawn += [noise.uniforms(key, 2, 3, 4), noise.subsets(key, 1, 6, 8, 3, torch.tensor([8]))]
print(hashlib.sha256(b"".join(one.numpy().tobytes() for one in drawn)).hexdigest())
"""
    environment = os.environ | {"PYTHONHASHSEED": "4711"}
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    exec(program, {})  # noqa: S102
    assert capsys.readouterr().out == process.stdout != ""


# Distribution

DRAWS = noise.normals(keys(100), 0, 100, 100, torch.float64)


def test_normals_have_the_moments_of_a_standard_normal():
    values, count = DRAWS.flatten(), DRAWS.numel()
    assert abs(values.mean()) < 5 / count**0.5
    assert abs(values.var() - 1) < 5 * (2 / count) ** 0.5
    assert abs((values**3).mean()) < 5 * (15 / count) ** 0.5
    assert abs((values**4).mean() - 3) < 5 * (96 / count) ** 0.5


def test_table_of_normals_is_symmetric_with_variance_one():
    table = noise._normal_table()
    assert torch.equal(table, -table.flip(0))
    assert table.square().mean().item() == pytest.approx(1, abs=1e-12)
    assert (table**4).mean().item() == pytest.approx(3, abs=0.01)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_normals_pass_kolmogorov_smirnov(seed):
    values = noise.normals(keys(50, seed), 0, 200, 10, torch.float64).flatten()
    assert len(values) == 100_000
    assert scipy.stats.kstest(values.numpy(), "norm").pvalue > 1e-4


def test_uniforms_pass_kolmogorov_smirnov():
    values = noise.uniforms(keys(50), 0, 200, 10).flatten()
    assert 0 <= values.min() < values.max() < 1
    assert scipy.stats.kstest(values.numpy(), "uniform").pvalue > 1e-4


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["inputs", "draws", "elements"])
@pytest.mark.parametrize("gap", [1, 2, 4])
def test_neighbours_are_uncorrelated(axis, gap):
    length = DRAWS.shape[axis]
    first, second = DRAWS.narrow(axis, 0, length - gap), DRAWS.narrow(axis, gap, length - gap)
    limit = 5 / first.numel() ** 0.5
    assert abs((first * second).mean()) < limit
    assert abs(((first**2 - 1) * (second**2 - 1)).mean()) < 2 * limit


@pytest.mark.parametrize(
    "other",
    [
        noise.normals(keys(100, seed=1), 0, 100, 100, torch.float64),
        noise.normals(keys(100, purpose="other"), 0, 100, 100, torch.float64),
        noise.normals(
            noise.input_keys(torch.nextafter(torch.arange(100.0), torch.tensor(torch.inf))[:, None], 0, "test"),
            0,
            100,
            100,
            torch.float64,
        ),
    ],
    ids=["seed", "purpose", "inputs that differ in the last bit"],
)
def test_other_keys_are_uncorrelated(other):
    assert abs((DRAWS * other).mean()) < 5 / DRAWS.numel() ** 0.5


@pytest.mark.parametrize("chosen", [1, 3, 9, 10])
def test_subsets_have_the_exact_size_and_every_feature_alike(chosen):
    draws = noise.subsets(keys(20), 0, 1000, 10, chosen, torch.tensor([10])).flatten(0, 1).double()
    assert torch.equal(draws.sum(1), torch.full((20_000,), float(chosen), dtype=torch.float64))
    share = chosen / 10
    assert (draws.mean(0) - share).abs().max() <= 5 * (share * (1 - share) / 20_000) ** 0.5


def test_subsets_take_every_pair_alike():
    draws = noise.subsets(keys(20), 0, 1000, 10, 3, torch.tensor([10])).flatten(0, 1).double()
    pairs = (draws.T @ draws / 20_000)[~torch.eye(10, dtype=torch.bool)]
    share = 3 * 2 / (10 * 9)
    assert (pairs - share).abs().max() < 5 * (share * (1 - share) / 20_000) ** 0.5


def test_subsets_leave_out_features_that_an_input_does_not_have():
    counts = torch.tensor([2, 5, 8])
    draws = noise.subsets(keys(3), 0, 4000, 8, 2, counts)
    assert (draws.sum(-1) == 2).all()
    for row, count in enumerate(counts.tolist()):
        shares = draws[row].double().mean(0)
        assert (shares[count:] == 0).all()
        torch.testing.assert_close(shares[:count], torch.full((count,), 2 / count).double(), rtol=0, atol=0.04)


# What the numbers depend on


@pytest.mark.parametrize("size", [1, 4, 6, 9])
def test_draws_are_prefixes_whatever_the_chunks(size):
    key, counts = keys(3), torch.tensor([size])
    for draw in (
        lambda start, count: noise.normals(key, start, count, size, torch.float32),
        lambda start, count: noise.uniforms(key, start, count, size),
        lambda start, count: noise.subsets(key, start, count, size, 1, counts),
        lambda start, count: noise.words(key, start, count),
    ):
        whole = draw(0, 20)
        assert torch.equal(torch.cat([draw(0, 7), draw(7, 1), draw(8, 12)], dim=1), whole)


def test_keys_depend_on_seed_purpose_and_content():
    actual = [
        noise.input_keys(INPUTS, 0, "gaussian"),
        noise.input_keys(INPUTS, 1, "gaussian"),
        noise.input_keys(INPUTS, -1, "gaussian"),
        noise.input_keys(INPUTS, 0, "subset"),
        noise.input_keys(INPUTS.flip(1), 0, "gaussian"),
    ]
    assert len(set(torch.cat(actual).tolist())) == 5 * len(INPUTS)


def test_keys_do_not_depend_on_the_place_in_a_batch():
    expected = noise.input_keys(INPUTS, 0, "gaussian")
    order = torch.tensor([2, 0, 3, 1])
    assert torch.equal(noise.input_keys(INPUTS[order], 0, "gaussian"), expected[order])
    for row in range(len(INPUTS)):
        assert torch.equal(noise.input_keys(INPUTS[row : row + 1], 0, "gaussian"), expected[row : row + 1])


def test_keys_do_not_depend_on_precision_layout_or_shape():
    expected = noise.input_keys(INPUTS, 0, "gaussian")
    assert torch.equal(noise.input_keys(INPUTS.double(), 0, "gaussian"), expected)
    assert torch.equal(noise.input_keys(INPUTS.T.contiguous().T, 0, "gaussian"), expected)
    assert torch.equal(noise.input_keys(INPUTS[:, None, :, None], 0, "gaussian"), expected)


def test_both_zeros_have_one_key():
    assert torch.equal(
        noise.input_keys(torch.tensor([[-0.0, 1.0]]), 0, "gaussian"),
        noise.input_keys(torch.tensor([[0.0, 1.0]]), 0, "gaussian"),
    )


def test_normals_in_both_precisions_are_the_same_numbers():
    double = noise.normals(keys(2), 0, 5, 7, torch.float64)
    assert torch.equal(noise.normals(keys(2), 0, 5, 7, torch.float32), double.float())


def test_global_random_states_are_untouched(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # beartype draws from Python's generator

    def states():
        return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002

    before = states()
    noise.normals(keys(2), 0, 3, 4, torch.float32)
    noise.uniforms(keys(2), 0, 3, 4)
    noise.subsets(keys(2), 0, 3, 4, 2, torch.tensor([4]))
    assert states() == before

"""What one feature is: elements, pixels and group maps, against plain loops."""

import itertools
import math

import numpy as np
import pytest
import torch

import calls
import verax
from verax.problem.features import Grid, Groups, feature_map

N, C, H, W = 3, 2, 4, 5


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def whole(high, *shape, seed=0):
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(seed))


IMAGES, TABLE = normal(N, C, H, W), normal(N, 7)


def model(x):
    """Not linear and different for every element, so that a wrong mask shows."""
    flat = x.flatten(1)
    weight = torch.linspace(-1, 1.3, flat.shape[1], dtype=torch.float64)
    return torch.sin(flat * 1.7) @ weight + (flat[:, :-1] * flat[:, 1:]).sum(1) / flat.shape[1]


SCORER = verax.Scorer(model, returns="logits")


def plain_reduce(values, maps, most):
    """Sum of each group, element by element."""
    sums = torch.zeros(len(values), most, dtype=values.dtype)
    for row, element in itertools.product(range(len(values)), range(values[0].numel())):
        sums[row, maps[row].flatten()[element]] += values[row].flatten()[element]
    return sums


def plain_curves(x, sums, maps, steps, baseline=0.0):
    """MoRF and LeRF of one input, group by group; ``maps`` gives the group of every element."""
    count = int(maps.max()) + 1
    steps = min(steps, count)
    order = sorted(range(count), key=lambda group: -sums[group])
    curves = []
    for sequence in (order, order[::-1]):
        rows = []
        for step in range(steps + 1):
            gone = sequence[: step * count // steps]
            mask = torch.tensor([[int(group) in gone for group in maps.flatten()]]).reshape(x.shape)
            rows.append(torch.where(mask, torch.as_tensor(baseline, dtype=x.dtype), x))
        curves.append(torch.sigmoid(model(torch.stack(rows))))
    return curves


def check_against_plain_curves(x, attributions, features, maps, steps):
    result = calls.prediction_change(SCORER, x, attributions, features=features, steps=steps, target=1, baselines=0.3)
    for row in range(len(x)):
        one = maps[row]
        sums = plain_reduce(attributions[row : row + 1].expand(1, *x.shape[1:]), [one], int(one.max()) + 1)[0]
        morf, lerf = plain_curves(x[row], sums.tolist(), one, steps, baseline=0.3)
        torch.testing.assert_close(result.morf[row], morf)
        torch.testing.assert_close(result.lerf[row], lerf)


# Reading the argument


@pytest.mark.parametrize(
    ("features", "inputs", "cell"),
    [
        ("auto", TABLE, (7,)),
        ("auto", IMAGES, (1, H, W)),
        ("auto", IMAGES[:, 0], (H, W)),
        ("element", IMAGES, (C, H, W)),
        ("pixel", IMAGES, (1, H, W)),
        ("pixel", IMAGES[:, 0], (1, W)),
    ],
)
def test_words_choose_a_grid(features, inputs, cell):
    result = feature_map(features, inputs)
    assert result == Grid(tuple(inputs.shape[1:]), cell)
    assert result.most == int(np.prod(cell))
    assert result.counts(slice(0, 2)).tolist() == [result.most]


@pytest.mark.parametrize("kind", [torch.as_tensor, np.asarray, lambda x: x.tolist(), lambda x: x.to(torch.uint8)])
def test_a_map_may_be_any_array_of_whole_numbers(kind):
    given = whole(3, 7)
    assert torch.equal(feature_map(kind(given), TABLE).map, feature_map(given, TABLE).map)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([0, 0, 1, 2, 2, 1, 0], [0, 0, 1, 2, 2, 1, 0]),
        ([10, 10, 500, 7, 7, 500, 10], [1, 1, 2, 0, 0, 2, 1]),
        ([-1, 3, 0, -9, 3, 0, -1], [0, 1, 0, 0, 1, 0, 0]),
        ([4, 4, 4, 4, 4, 4, 4], [0, 0, 0, 0, 0, 0, 0]),
    ],
    ids=["consecutive", "gaps", "negative", "one group"],
)
def test_group_numbers_become_consecutive_in_their_old_order(given, expected):
    result = feature_map(torch.tensor(given), TABLE)
    assert result.map.tolist() == [expected]
    assert result.most == max(expected) + 1


def test_group_numbers_become_consecutive_in_each_map():
    result = feature_map(torch.tensor([[5, 5, 9, 9, 9, 9, 9], [0, 1, 2, 3, 3, 3, 3], [7, 6, 5, 4, 3, 2, 1]]), TABLE)
    assert result.map.tolist() == [[0, 0, 1, 1, 1, 1, 1], [0, 1, 2, 3, 3, 3, 3], [6, 5, 4, 3, 2, 1, 0]]
    assert result.counts(slice(None)).tolist() == [2, 4, 7]
    assert result.counts(slice(1, 2)).tolist() == [4]
    assert result.most == 7


@pytest.mark.parametrize("shape", [(C, H, W), (H, W), (N, C, H, W), (N, H, W)], ids=str)
def test_image_maps_with_and_without_channels_for_all_and_for_each(shape):
    given = whole(4, *shape)
    result = feature_map(given, IMAGES)
    full = given if len(shape) in (3, 4) and shape[-3] == C else given.unsqueeze(-3)
    expected = full.expand(*((N,) if shape[0] == N else ()), C, H, W).reshape(-1, C * H * W)
    assert torch.equal(result.map, expected)


# Reduce and expand


@pytest.mark.parametrize("features", ["element", "pixel"])
def test_grid_reduce_and_expand(features):
    grid = feature_map(features, IMAGES)
    stacked = torch.stack((IMAGES, 2 * IMAGES))
    reduced = grid.reduce(stacked, slice(0, N))
    chosen = whole(2, N, grid.most).bool()
    mask = grid.expand(chosen, torch.arange(N)).expand(IMAGES.shape)
    for row, c, h, w in itertools.product(range(N), range(C), range(H), range(W)):
        feature = (c * H + h) * W + w if features == "element" else h * W + w
        expected = IMAGES[row, c, h, w] if features == "element" else IMAGES[row, :, h, w].sum()
        torch.testing.assert_close(reduced[0, row, feature], expected)
        torch.testing.assert_close(reduced[1, row, feature], 2 * expected)
        assert mask[row, c, h, w] == chosen[row, feature]


def test_grid_reduce_passes_values_with_one_channel_through():
    grid = feature_map("pixel", IMAGES)
    assert torch.equal(grid.reduce(IMAGES[:, :1], slice(0, N)), IMAGES[:, 0].flatten(1))


@pytest.mark.parametrize("shape", [(H, W), (C, H, W), (N, H, W), (N, C, H, W)], ids=str)
def test_group_reduce_and_expand(shape):
    groups = feature_map(whole(6, *shape, seed=3), IMAGES)
    maps = groups.map.expand(N, -1).reshape(IMAGES.shape)
    rows = slice(1, N)
    expected = plain_reduce(IMAGES, maps, groups.most)
    torch.testing.assert_close(groups.reduce(IMAGES[rows], rows), expected[rows])
    torch.testing.assert_close(groups.reduce(torch.stack((IMAGES, -IMAGES))[:, rows], rows)[1], -expected[rows])
    owner = torch.tensor([2, 0, 2, 1])
    chosen = whole(2, len(owner), groups.most).bool()
    mask = groups.expand(chosen, owner)
    for place, row in enumerate(owner):
        for c, h, w in itertools.product(range(C), range(H), range(W)):
            assert mask[place, c, h, w] == chosen[place, maps[row, c, h, w]]


def test_group_reduce_shares_a_pixels_value_out_over_its_channels():
    groups = feature_map(whole(6, H, W), IMAGES)
    summed = IMAGES.sum(1, keepdim=True)
    torch.testing.assert_close(groups.reduce(summed, slice(0, N)), groups.reduce(IMAGES, slice(0, N)))


def test_groups_of_single_elements_are_elements():
    groups = feature_map(torch.arange(7), TABLE)
    assert isinstance(groups, Groups)
    assert torch.equal(groups.reduce(TABLE, slice(0, N)), TABLE)
    by_group = calls.prediction_change(SCORER, TABLE, -TABLE, features=torch.arange(7))
    by_element = calls.prediction_change(SCORER, TABLE, -TABLE)
    assert torch.equal(by_group.morf, by_element.morf)
    assert torch.equal(by_group.value, by_element.value)


# Curves


def test_elements_of_an_image_against_a_plain_loop():
    maps = torch.arange(C * H * W).reshape(1, C, H, W).expand(N, -1, -1, -1)
    check_against_plain_curves(IMAGES, normal(N, C, H, W, seed=1), "element", maps, steps=6)


@pytest.mark.parametrize("features", ["pixel", "auto"])
def test_pixels_against_a_plain_loop(features):
    maps = torch.arange(H * W).reshape(1, 1, H, W).expand(N, C, H, W)
    check_against_plain_curves(IMAGES, normal(N, C, H, W, seed=1), features, maps, steps=6)


@pytest.mark.parametrize("given", [(N, 1, H, W), (N, H, W)], ids=str)
@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("stacked", [False, True])
def test_pixel_attributions_may_have_one_channel_or_none(given, channels, stacked):
    x = normal(N, channels, H, W)
    one = normal(N, 1, H, W, seed=1)
    short = one.reshape(given)
    result = calls.prediction_change(SCORER, x, torch.stack((short, -short)) if stacked else short)
    expected = calls.prediction_change(SCORER, x, {"one": one.expand_as(x) / channels})
    torch.testing.assert_close(result.morf[0] if stacked else result.morf, expected.morf["one"])


# What can be read two ways


SQUARE = normal(3, 3, H, W)  # as many images as channels


def test_a_map_that_may_be_for_all_images_or_for_each_is_refused():
    groups = whole(4, 3, H, W)
    with pytest.raises(
        ValueError, match=r"features: .*\(3, 4, 5\) can be read as one map.*\(1, 3, 4, 5\).*\(3, 1, 4, 5\)"
    ):
        feature_map(groups, SQUARE)
    for_all, for_each = feature_map(groups[None], SQUARE), feature_map(groups[:, None], SQUARE)
    assert torch.equal(for_all.map, feature_map(groups, SQUARE[:2]).map)
    assert torch.equal(for_each.map, feature_map(groups, SQUARE[:, :1]).map.repeat(1, 3))


def test_a_map_that_is_the_same_either_way_is_taken():
    flat = whole(4, H, W)
    expected = feature_map(flat, SQUARE).map
    assert torch.equal(feature_map(flat.expand(3, H, W), SQUARE).map, expected)
    assert torch.equal(feature_map(whole(4, 1, H, W), normal(1, 1, H, W)).map, whole(4, 1, H, W).reshape(1, -1))


@pytest.mark.parametrize("shape", [(1, C, H, W), (N, 1, H, W), (1, 1, H, W)], ids=str)
def test_length_one_stands_for_all_inputs_or_all_channels(shape):
    given = whole(4, *shape)
    result = feature_map(given, IMAGES).map
    assert result.shape == (shape[0], C * H * W)
    assert torch.equal(result.expand(N, -1), feature_map(given.expand(N, C, H, W), IMAGES).map)


@pytest.mark.parametrize("shape", [(2, 1, H, W), (1, C, 1, W), (N, C, H, 1), (1, 1, 1, 1), (1, 7)], ids=str)
def test_other_lengths_of_one_are_refused(shape):
    with pytest.raises(ValueError, match=r"features: group numbers of shape .* do not fit"):
        feature_map(whole(4, *shape), IMAGES)


@pytest.mark.parametrize(
    ("inputs", "features"), [(SQUARE, "auto"), (SQUARE, whole(4, H, W)), (normal(5, 5, 5), "pixel")], ids=str
)
def test_attributions_that_may_be_one_or_a_stack_are_refused(inputs, features):
    count = len(inputs)
    full = normal(*inputs.shape, seed=1)
    with pytest.raises(
        ValueError, match=rf"attributions: .*as a stack of {count} without.*a channel axis, shape \(K, {count}, 1,"
    ):
        calls.prediction_change(SCORER, inputs, full, features=features)
    as_one = calls.prediction_change(SCORER, inputs, {"it": full}, features=features).value["it"]
    assert torch.equal(calls.prediction_change(SCORER, inputs, full[None], features=features).value, as_one[None])
    stack = calls.prediction_change(SCORER, inputs, full[:, :, None], features=features).value
    by_name = calls.prediction_change(
        SCORER, inputs, {str(number): one for number, one in enumerate(full)}, features=features
    ).value
    assert torch.equal(stack, torch.stack(list(by_name.values())))


def test_attributions_of_elements_can_only_be_one():
    assert calls.prediction_change(SCORER, SQUARE, SQUARE, features="element").value.shape == (3,)
    assert calls.prediction_change(SCORER, SQUARE[:1], SQUARE[:1]).value.shape == (1,)


@pytest.mark.parametrize("steps", [2, 5, 20])
@pytest.mark.parametrize("shape", [(H, W), (C, H, W), (N, H, W), (N, C, H, W)], ids=str)
def test_image_groups_against_a_plain_loop(shape, steps):
    generator = torch.Generator().manual_seed(3)
    one = shape[1:] if shape[0] == N else shape
    orders = [torch.randperm(math.prod(one), generator=generator) for _ in range(math.prod(shape) // math.prod(one))]
    given = 10 * (torch.stack(orders).reshape(shape) % 9) + 30
    maps = feature_map(given, IMAGES).map.expand(N, -1).reshape(IMAGES.shape)
    check_against_plain_curves(IMAGES, normal(N, C, H, W, seed=1), given, maps, steps)


def test_more_groups_than_bits_against_a_plain_loop():
    x = normal(2, 150)
    given = torch.stack((torch.arange(150) % 70, torch.arange(150) // 2))
    check_against_plain_curves(x, normal(2, 150, seed=1), given, given, steps=20)


def test_groups_equal_a_table_with_one_column_per_group():
    groups = torch.tensor([0, 2, 1, 2, 0, 3, 3, 1])
    weight = normal(8, seed=4)
    small, attributions = normal(5, 4, seed=5), normal(5, 8, seed=6)
    small_weight = torch.zeros(4, dtype=torch.float64).index_add(0, groups, weight)
    small_attributions = torch.zeros(5, 4, dtype=torch.float64).index_add(1, groups, attributions)
    for measure in (calls.prediction_change, calls.directed_prediction_change):
        large = measure(
            verax.Scorer(lambda x: x @ weight, returns="logits"), small[:, groups], attributions, features=groups
        )
        expected = measure(verax.Scorer(lambda x: x @ small_weight, returns="logits"), small, small_attributions)
        torch.testing.assert_close(large.morf, expected.morf)
        torch.testing.assert_close(large.lerf, expected.lerf)
        if measure is calls.prediction_change:
            torch.testing.assert_close(large.value, expected.value)
        assert large.rows == expected.rows == 5 * 8


def test_one_map_for_all_equals_the_same_map_for_each():
    given = whole(5, 7)
    for measure in (calls.prediction_change, calls.directed_prediction_change):
        for_all = measure(SCORER, TABLE, -TABLE, features=given)
        for_each = measure(SCORER, TABLE, -TABLE, features=given.expand(N, -1))
        assert torch.equal(for_all.value, for_each.value)
        assert torch.equal(for_all.morf, for_each.morf)
        assert for_all.rows == for_each.rows


# Maps with different numbers of groups


def ragged(columns, counts):
    """One map per input with the given numbers of groups, every group in use."""
    return torch.stack([torch.arange(columns) * count // columns for count in counts])


RAGGED = {"few groups": (12, [4, 6, 3, 9, 4], 4), "more groups than bits": (160, [70, 66, 20, 150, 90], 20)}
ragged_maps = pytest.mark.parametrize(("columns", "counts", "steps"), RAGGED.values(), ids=RAGGED)


@ragged_maps
@pytest.mark.parametrize("measure", [calls.prediction_change, calls.directed_prediction_change])
def test_ragged_groups_equal_each_input_alone(columns, counts, steps, measure):
    x, a, maps = normal(5, columns), normal(5, columns, seed=1), ragged(columns, counts)
    together = measure(SCORER, x, a, features=maps, steps=steps)
    for row, count in enumerate(counts):
        alone = measure(SCORER, x[row : row + 1], a[row : row + 1], features=maps[row : row + 1], steps=steps)
        for curve in ("morf", "lerf"):
            result, expected = getattr(together, curve)[row], getattr(alone, curve)[0]
            torch.testing.assert_close(result[[0, -1]], expected[[0, -1]])
            if count >= steps:
                torch.testing.assert_close(result, expected)
        if count >= steps:
            torch.testing.assert_close(together.value[row], alone.value[0])


@ragged_maps
def test_inputs_with_fewer_groups_than_steps_are_valued_as_if_alone(columns, counts, steps):
    x, a = normal(5, columns), normal(5, columns, seed=1)
    alone = calls.prediction_change(SCORER, x[:1], a[:1], features=ragged(columns, [3]), steps=steps)
    maps = ragged(columns, [3, *counts[1:]])
    together = calls.prediction_change(SCORER, x, a, features=maps, steps=steps)
    assert alone.steps == 3
    assert together.steps == steps
    cuts = torch.arange(steps + 1).clamp(max=3)
    torch.testing.assert_close(together.value[0], alone.value[0])
    torch.testing.assert_close(together.morf[0], alone.morf[0][cuts])
    torch.testing.assert_close(together.lerf[0], alone.lerf[0][cuts])


@ragged_maps
@pytest.mark.parametrize("order", ["signed", "magnitude"])
def test_ragged_groups_do_not_depend_on_how_inputs_are_cut_into_blocks(columns, counts, steps, order, monkeypatch):
    x, a, maps = normal(5, columns), normal(5, columns, seed=1), ragged(columns, counts)
    expected = calls.prediction_change(SCORER, x, a, features=maps, steps=steps, order=order)
    monkeypatch.setattr("verax.perturbation.guided.block_bytes", lambda device: 1)
    result = calls.prediction_change(SCORER, x, a, features=maps, steps=steps, order=order)
    torch.testing.assert_close(result.morf, expected.morf)
    torch.testing.assert_close(result.lerf, expected.lerf)


def test_ragged_groups_in_infidelity_do_not_depend_on_how_inputs_are_cut_into_blocks(monkeypatch):
    x, a, maps = normal(5, 12), normal(5, 12, seed=1), ragged(12, [4, 6, 3, 9, 4])
    options = {"features": maps, "subset": 2, "samples": 12}
    expected = calls.infidelity(SCORER, x, a, **options)
    monkeypatch.setattr("verax.perturbation.sampled.block_bytes", lambda device: 1)
    torch.testing.assert_close(calls.infidelity(SCORER, x, a, **options).value, expected.value)

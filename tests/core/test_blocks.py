"""How work is cut, and an order of rows that nobody holds."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from verax.core.blocks import chunk_size, pieces
from verax.core.noise import random_order


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.integers(0, 60), st.integers(1, 20), st.integers(1, 30))
def test_pieces_of_a_call_are_those_of_its_stretches(count: int, size: int, stretch: int) -> None:
    whole = [(piece.start, piece.stop) for piece in pieces(count, size, stretch)]
    apart = [
        (begin + piece.start, begin + piece.stop)
        for begin in range(0, count, stretch)
        for piece in pieces(min(stretch, count - begin), size)
    ]
    assert whole == apart
    assert [row for start, stop in whole for row in range(start, stop)] == list(range(count))


def test_a_stretch_is_at_least_one_batch() -> None:
    assert chunk_size(8, row_bytes=1 << 40) == 8


@settings(derandomize=True, max_examples=30, deadline=None)
@given(st.integers(1, 700), st.integers(0, 5))
def test_a_shuffled_order_holds_every_row_once(count: int, seed: int) -> None:
    order = random_order(torch.arange(count), count, seed)
    assert sorted(order.tolist()) == list(range(count))


def test_shuffled_orders_look_random() -> None:
    orders = torch.stack([random_order(torch.arange(50), 50, seed) for seed in range(400)]).double()
    assert (orders.mean(0) - 24.5).abs().max() < 4 * 14.43 / 20  # of uniform numbers, four standard errors
    first, second = orders[:, :-1].flatten(), orders[:, 1:].flatten()
    assert abs(float(torch.corrcoef(torch.stack((first, second)))[0, 1]) + 1 / 49) < 0.02

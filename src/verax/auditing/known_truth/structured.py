"""Models of other kinds than formulas of columns: a decision tree, an image with a patch, a sentence with a word."""

import torch
from torch import Tensor, nn

from verax.auditing.known_truth.base import (
    BACKGROUND_ROWS,
    GRADIENT,
    SHAPLEY,
    Case,
    Formula,
    Truth,
    background_rows,
    double,
    known,
    normal_rows,
    product_shares,
)
from verax.core.shapes import Float, Int
from verax.problem.problem import Problem
from verax.scoring.scorer import Scorer

_FEATURES, _DEPTH, _TELLING = 6, 3, 3
_ASKED = (0, 1, 2, 3, 4, 5, 0)  # the feature of each question, level by level
_THRESHOLDS = (-0.3, 0.4, 0.2, -0.6, 0.5, -0.2, 0.8)
_LEAVES = (-2.0, 0.5, 1.3, 3.0, -1.1, 0.9, 1.7, -0.4)

_HEIGHT, _WIDTH, _SIDE = 6, 8, 2
_PATCHES = (_HEIGHT // _SIDE) * (_WIDTH // _SIDE)
_NOISE, _BRIGHTNESS = 0.3, 1.5
_STEEPNESS, _THRESHOLD = 4.0, 0.75

_START, _MASK, _NOT, _PLANTED, _FIRST_PLAIN = range(5)
_PLAIN = (0.2, -0.15, 0.12, -0.1, 0.08, -0.06, 0.05, -0.04, 0.03, -0.02)
_STRENGTHS = (0.0, 0.0, 0.0, 1.0, *_PLAIN)  # by token
_WORDS = 8
_TURNED = 1.5  # "not" takes one and a half of what is there


def decision_tree(inputs: int, seed: int) -> Case:
    """Three questions to one of eight leaves, and inputs in which at least three features have influence.

    A tree is the sum over its leaves of value times the product of its features' answers: a sum of products.
    """
    drawn = normal_rows("decision tree", 16 * inputs + 256, _FEATURES, seed)  # a sixth or so are such
    present, absent = (_answers(rows, double(_THRESHOLDS)) for rows in (drawn, torch.zeros_like(drawn[:1])))
    terms = [value * product_shares(present[:, leaf], absent[:, leaf]) for leaf, value in enumerate(_LEAVES)]
    shares = torch.stack(terms).sum(0)
    telling = ((shares != 0).sum(1) >= _TELLING).nonzero()[:inputs, 0]
    tree = Formula(
        lambda formula, rows: _answers(rows, formula.thresholds).prod(2) @ formula.leaves,
        thresholds=_THRESHOLDS,
        leaves=_LEAVES,
    )
    return Case(
        "decision tree",
        "A tree of depth three on six features.",
        Problem(
            Scorer(tree, returns="values"),
            drawn[telling],
            background=background_rows("decision tree", _FEATURES, seed),
        ),
        None,
        Truth(shares[telling], SHAPLEY),
        left_out="local: the gradient of a tree is 0 wherever it exists",
    )


def _answers(
    rows: Float[Tensor, "n features"], thresholds: Float[Tensor, " questions"]
) -> Float[Tensor, "n leaves features"]:
    """Whether each feature is on the way to each leaf: 1 where it answers all its questions so, else 0."""
    met = rows.new_ones(len(rows), len(_LEAVES), rows.shape[1])
    for leaf in range(len(_LEAVES)):
        question = 0
        for level in reversed(range(_DEPTH)):
            right = leaf >> level & 1
            feature = _ASKED[question]
            met[:, leaf, feature] *= ((rows[:, feature] > thresholds[question]) == bool(right)).to(rows.dtype)
            question = 2 * question + 1 + right
    return met


class BrightPatches(nn.Module):
    """How much the patches of an image exceed a brightness, added up."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Conv2d(1, 1, _SIDE, stride=_SIDE, device="meta")
        self.look.weight = known(torch.full((1, 1, _SIDE, _SIDE), 1 / _SIDE**2, dtype=torch.float64))
        self.look.bias = known(double((-_THRESHOLD,)))

    def forward(self, images: Float[Tensor, "n 1 6 8"]) -> Float[Tensor, " n"]:
        return nn.functional.softplus(self.look(images), beta=_STEEPNESS).flatten(1).sum(1)


def planted_patch(inputs: int, seed: int) -> Case:
    """``sum_p softplus_4(m_p - 0.75)`` with the mean ``m_p`` of each patch: one feature is a patch.

    All pixels of a patch have one gradient, and a patch's is their sum; patches add up, so that a patch's Shapley value
    is its term less what it is at the baseline.
    """
    images = _images("planted patch", inputs, seed)
    above = nn.functional.avg_pool2d(images, _SIDE).flatten(1) - _THRESHOLD
    term = nn.functional.softplus(above, beta=_STEEPNESS)
    absent = nn.functional.softplus(torch.full_like(above[:1], -_THRESHOLD), beta=_STEEPNESS)
    return Case(
        "planted patch",
        "A network adds up how far twelve patches of an image exceed a brightness; one does.",
        Problem(
            Scorer(BrightPatches(), returns="values"),
            images,
            features=_patch_numbers(),
            background=_images("planted patch/background", BACKGROUND_ROWS, seed),
        ),
        Truth((_STEEPNESS * above).sigmoid(), GRADIENT),
        Truth(term - absent, SHAPLEY),
    )


def _patch_numbers() -> Int[Tensor, "1 6 8"]:
    numbers = torch.arange(_PATCHES).reshape(1, _HEIGHT // _SIDE, _WIDTH // _SIDE)
    return numbers.repeat_interleave(_SIDE, 1).repeat_interleave(_SIDE, 2)


def _images(purpose: str, count: int, seed: int) -> Float[Tensor, "{count} 1 6 8"]:
    """Noise, and one bright patch at a random place."""
    noise = normal_rows(purpose, count, _HEIGHT * _WIDTH, seed).reshape(count, 1, _HEIGHT, _WIDTH)
    planted = normal_rows(f"{purpose}/place", count, _PATCHES, seed).argmax(1)
    return _NOISE * noise + _BRIGHTNESS * (_patch_numbers() == planted[:, None, None, None])


class Sentiment(nn.Module):
    """The strengths of a sentence's words, added up, and turned round by "not"."""

    def __init__(self) -> None:
        super().__init__()
        self.strength = nn.Embedding(len(_STRENGTHS), 1, device="meta")
        self.strength.weight = known(double(_STRENGTHS)[:, None])

    def forward(self, tokens: Int[Tensor, "n 9"]) -> Float[Tensor, " n"]:
        turned = (tokens == _NOT).any(1).double()
        whole: Tensor = self.strength(tokens).sum((1, 2))
        return whole * (1 - _TURNED * turned)


def planted_word(inputs: int, seed: int) -> Case:
    """``(sum_i u_i) (1 - 1.5 [not])``: each word shares with "not", in halves, what "not" takes of it."""
    tokens = _sentences(inputs, seed)
    strengths, nots = double(_STRENGTHS)[tokens[:, 1:]], tokens[:, 1:] == _NOT
    shared = _TURNED / 2 * strengths * nots.any(1, keepdim=True)
    shares = strengths - shared - nots * shared.sum(1, keepdim=True)
    features = torch.arange(_WORDS + 1) - 1  # the start token is never removed
    return Case(
        "planted word",
        'Eight words of a sentence add up, one of them strong; "not" turns the sum round.',
        Problem(Scorer(Sentiment(), returns="values"), tokens, features=features, baselines=_MASK, categorical=True),
        None,
        Truth(shares, SHAPLEY),
        left_out="local: words have no neighbourhood",
    )


def _sentences(inputs: int, seed: int) -> Int[Tensor, "{inputs} 9"]:
    """A start token and eight different words: the planted one, "not" in every second sentence, and plain ones."""
    plain = normal_rows("planted word", inputs, len(_PLAIN), seed).argsort(1)[:, : _WORDS - 1] + _FIRST_PLAIN
    words = torch.cat((torch.full((inputs, 1), _PLANTED), plain), dim=1)
    words[1::2, 1] = _NOT
    words = words.gather(1, normal_rows("planted word/order", inputs, _WORDS, seed).argsort(1))
    return torch.cat((torch.full((inputs, 1), _START), words), dim=1)

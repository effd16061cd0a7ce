"""A sentence with a planted word: one word carries the score, and in half of the sentences another turns it round."""

import torch
from torch import Tensor, nn

from verax.auditing.case import Case, Truth
from verax.auditing.known_truth.common import SHAPLEY, known, normal_rows
from verax.core.shapes import Float, Int
from verax.problem.problem import Problem
from verax.scoring.scorer import Scorer

_START, _MASK, _NOT, _PLANTED, _FIRST_PLAIN = range(5)
_PLAIN = (0.2, -0.15, 0.12, -0.1, 0.08, -0.06, 0.05, -0.04, 0.03, -0.02)
_STRENGTHS = (0.0, 0.0, 0.0, 1.0, *_PLAIN)  # by token
_WORDS = 8
_TURNED = 1.5  # "not" takes one and a half of what is there


class Sentiment(nn.Module):
    """The strengths of a sentence's words, added up, and turned round by "not"."""

    def __init__(self) -> None:
        super().__init__()
        self.strength = nn.Embedding(len(_STRENGTHS), 1, device="meta")
        self.strength.weight = known(torch.tensor(_STRENGTHS, dtype=torch.float64)[:, None])

    def forward(self, tokens: Int[Tensor, "n 9"]) -> Float[Tensor, " n"]:
        """One value per sentence."""
        turned = (tokens == _NOT).any(1).double()
        whole: Tensor = self.strength(tokens).sum((1, 2))
        return whole * (1 - _TURNED * turned)


def _sentences(inputs: int, seed: int) -> Int[Tensor, "{inputs} 9"]:
    """A start token and eight different words: the planted one, "not" in every second sentence, and plain ones."""
    plain = normal_rows("planted word", inputs, len(_PLAIN), seed).argsort(1)[:, : _WORDS - 1] + _FIRST_PLAIN
    words = torch.cat((torch.full((inputs, 1), _PLANTED), plain), dim=1)
    words[1::2, 1] = _NOT
    words = words.gather(1, normal_rows("planted word/order", inputs, _WORDS, seed).argsort(1))
    return torch.cat((torch.full((inputs, 1), _START), words), dim=1)


def planted_word(inputs: int, seed: int) -> Case:
    """``(sum_i u_i) (1 - 1.5 [not])``: each word shares with "not", in halves, what "not" takes of it."""
    tokens = _sentences(inputs, seed)
    strengths, nots = torch.tensor(_STRENGTHS, dtype=torch.float64)[tokens[:, 1:]], tokens[:, 1:] == _NOT
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

"""Cases: small models whose true explanations are known exactly, one module each."""

from verax.auditing.case import Case
from verax.auditing.known_truth.additive import additive
from verax.auditing.known_truth.conflicting import conflicting
from verax.auditing.known_truth.decision_tree import decision_tree
from verax.auditing.known_truth.idle_features import duplicated, uninformative
from verax.auditing.known_truth.linear import linear
from verax.auditing.known_truth.logic import logic
from verax.auditing.known_truth.piecewise_linear import piecewise_linear
from verax.auditing.known_truth.planted_patch import planted_patch
from verax.auditing.known_truth.planted_word import planted_word
from verax.auditing.known_truth.product import product
from verax.auditing.known_truth.shattered_gradients import shattered_gradients
from verax.core.arguments import checked_count, checked_seed

_CASES = (
    linear,
    additive,
    product,
    conflicting,
    logic,
    decision_tree,
    shattered_gradients,
    uninformative,
    duplicated,
    piecewise_linear,
    planted_patch,
    planted_word,
)


def cases(inputs: int = 64, seed: int = 0) -> tuple[Case, ...]:
    """All cases, always in the same order.

    The models are the same each time; the seed draws the inputs. They are generic: no feature is at its baseline.

    Args:
        inputs: Rows to explain in each case.
        seed: Same seed, same rows; fewer inputs are the first of more.

    Example:
        >>> from verax.auditing import cases
        >>> first = cases(inputs=2)[0]
        >>> first.name, first.local.says, first.local.attribution[0, :3].tolist()
        ('linear', 'the gradient', [2.0, -1.5, 1.2])
    """
    count, drawn = checked_count("inputs", inputs), checked_seed(seed)
    return tuple(make(count, drawn) for make in _CASES)

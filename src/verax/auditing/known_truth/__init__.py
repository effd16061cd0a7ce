"""Cases: small models whose true explanations are known exactly."""

from verax.auditing.known_truth import formulas, structured
from verax.auditing.known_truth.base import Case, Truth
from verax.core.arguments import checked_count, checked_seed

__all__ = ["Case", "Truth", "cases"]

_CASES = (
    formulas.linear,
    formulas.additive,
    formulas.product,
    formulas.conflicting,
    formulas.logic,
    structured.decision_tree,
    formulas.shattered_gradients,
    formulas.uninformative,
    formulas.duplicated,
    formulas.piecewise_linear,
    structured.planted_patch,
    structured.planted_word,
    formulas.pertinent_negatives,
    formulas.uncertainty_aware,
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

"""What the configuration of a ``transformers`` model says about its outputs; the package need not be installed."""

from torch import nn

from verax.scoring.adapters.base import Returns

_WIDEST = 4  # times the vector of a token: what the widest layer of a transformer makes of it


def configured_returns(module: nn.Module) -> Returns:
    """Values for a head of regression, which one output is unless the configuration says otherwise; else logits."""
    config = getattr(module, "config", None)
    kind, outputs = getattr(config, "problem_type", None), getattr(config, "num_labels", None)
    classifies = type(module).__name__.endswith("ForSequenceClassification")
    one = classifies and outputs == 1 and kind is None
    return "values" if kind == "regression" or one else "logits"


def numbers_of(module: nn.Module | None, elements: int) -> int:
    """Numbers that a model computes with for a row of so many whole ones: of each token it makes a vector."""
    find = getattr(module, "get_input_embeddings", None)
    embedding = find() if callable(find) else None
    return elements * (_WIDEST * embedding.embedding_dim if isinstance(embedding, nn.Embedding) else 1)


def configured_labels(module: nn.Module) -> tuple[str, ...] | None:
    """Names of the classes, where somebody gave them names."""
    names = getattr(getattr(module, "config", None), "id2label", None)
    if not isinstance(names, dict) or sorted(names) != list(range(len(names))):
        return None
    labels = tuple(str(names[number]) for number in range(len(names)))
    return None if all(label == f"LABEL_{number}" for number, label in enumerate(labels)) else labels

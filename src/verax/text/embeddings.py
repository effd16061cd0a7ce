"""Texts as vectors: the embeddings of tokens, for methods that need gradients and metrics that need a direction."""

from dataclasses import replace
from typing import Any, Literal

import torch

from verax.core.arguments import checked_choice
from verax.core.arrays import as_tensor
from verax.scoring.scorer import Scorer
from verax.text.collate import DELETED, Trim
from verax.text.tokens import TextInputs

Reduction = Literal["sum", "norm"]


def embedded(model: Any, inputs: TextInputs) -> TextInputs:
    """The same texts as vectors, ``(N, L, D)``, which the same model takes as ``inputs_embeds``.

    A feature is a token (or word, or sentence) as before, with all its numbers. Here gradients exist and ``x - b`` has
    a direction: Integrated Gradients, SmoothGrad and DPC (rules ``"dot"`` and ``"coherent"``) work.

    Args:
        model: A model of ``transformers``, or what ``verax.text.continuation`` gave.
        inputs: Tokenized texts. A removed token becomes the vector of its replacement, so deletion is refused.

    Example:
        >>> import verax
        >>> from verax.text.example import small_classifier, small_tokenizer
        >>> tokenizer = small_tokenizer("a good film")
        >>> model, inputs = small_classifier(tokenizer), verax.text.tokenized(tokenizer, ["a good film"])
        >>> vectors = verax.text.embedded(model, inputs)
        >>> gradient = verax.attribution.Gradient()(model, vectors)
        >>> gradient.shape, verax.text.per_token(gradient, "norm").shape
        (torch.Size([1, 5, 32]), torch.Size([1, 5]))
    """
    module: Any = model.adapter.module if isinstance(model, Scorer) else model
    embedding = module.get_input_embeddings()
    if inputs.baselines == DELETED:
        raise ValueError('inputs: a deleted token has no vector; tokenize with replace="mask", "pad" or "unk".')
    device = embedding.weight.device
    with torch.no_grad():
        values = embedding(inputs.values.to(device)).to(inputs.values.device)
        instead = embedding(torch.tensor(inputs.baselines, device=device)).to(inputs.values.device)
    along = inputs.collate.along if isinstance(inputs.collate, Trim) else ()
    return replace(
        inputs, values=values, baselines=instead, codes=False, key="inputs_embeds", collate=Trim(0, along, ids=False)
    )


def per_token(attribution: Any, how: Reduction = "sum") -> Any:
    """One number per token from attributions of vectors.

    Args:
        attribution: ``(N, L, D)``, of a method on ``embedded`` inputs.
        how: ``"sum"``, what the numbers of a vector contribute together (of gradient times input: the dot product), or
            ``"norm"``, their Euclidean length, which has no sign.
    """
    checked_choice("how", how, ("sum", "norm"))
    values = as_tensor("attribution", attribution)
    found = values.sum(-1) if how == "sum" else values.norm(dim=-1)
    return found if isinstance(attribution, torch.Tensor) else found.numpy()

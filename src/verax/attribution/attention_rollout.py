"""Attention rollout: how much of each token flows to where a transformer reads its answer, going by attention alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from verax.attribution.base import Attribution, Modality
from verax.attribution.family import Family, Piece, Place
from verax.core import palette
from verax.core.arguments import checked_choice
from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Bool, Float
from verax.problem.problem import Problem
from verax.problem.text.continuation import ContinuationScore
from verax.problem.text.problems import TokenLabelScore
from verax.scoring.adapters.base import RowArguments
from verax.scoring.meter import Rows

Read = Literal["first", "last"]
_MASK = "attention_mask"
_NO_WEIGHTS = (
    "model: AttentionRollout reads attention weights, and {found}. Models of transformers give them after "
    'model.set_attn_implementation("eager"); encoder-decoder models have no single rollout.'
)


@dataclass(frozen=True)
class AttentionRollout(Attribution):
    """Attention multiplied through the layers of a transformer, encoder or decoder (Abnar and Zuidema 2020).

    ``R = (A_L + I)/2 ... (A_1 + I)/2``, with ``A_l`` the attention of layer ``l``, mean over its heads, and ``I`` for
    the residual connection. A token's attribution is its entry in the row of ``R`` that belongs to the place where the
    answer is read; all entries of a row are positive and sum to 1. It knows neither the class nor what the values that
    attention weighs do to it, so it cannot say for or against: a reference that an explanation of the class should
    beat. In a decoder early tokens get more, since all later places see them.

    For models of ``transformers`` in ``attn_implementation="eager"``, and ids of tokens.

    Args:
        read: Where a classifier reads its answer: at the ``"first"`` token, as BERT does, or the ``"last"``, as
            decoders do. Of ``verax.text.generation`` the places that predict its tokens are read, their mean, and of
            taggers (``words``) the word in question.

    Example:
        >>> import verax.text
        >>> from verax.problem.text.example import small_classifier, small_tokenizer
        >>> tokenizer = small_tokenizer("a good film")
        >>> model = small_classifier(tokenizer)
        >>> model.set_attn_implementation("eager")
        >>> AttentionRollout()(verax.text.classification(model, tokenizer, ["a good film"])).shape
        torch.Size([1, 5])
    """

    read: Read = "first"

    local: ClassVar[bool] = True  # neither, as there is no baseline
    label: ClassVar[str] = "Attention rollout"
    colour: ClassVar[str | None] = palette.ROSE
    citation: ClassVar[str] = "Abnar, Zuidema: Quantifying attention flow in transformers, ACL 2020"
    modalities: ClassVar[tuple[Modality, ...]] = ("tabular",)  # rows of ids

    def __post_init__(self) -> None:
        checked_choice("read", self.read, ("first", "last"))

    @property
    def family(self) -> "AttentionRolloutFamily":
        return AttentionRolloutFamily()


@dataclass(frozen=True)
class AttentionRolloutFamily(Family):
    """One forward pass per input."""

    def check(self, members: Sequence[AttentionRollout], problem: Problem) -> None:
        if problem.inputs.is_floating_point() or problem.inputs.ndim != 2:
            raise TypeError("inputs: AttentionRollout takes ids of tokens, as verax.text.classification makes them.")
        config = _transformer(problem.scorer.adapter.module).config
        if getattr(config, "is_encoder_decoder", False):
            raise ValueError(_NO_WEIGHTS.format(found="this one has those of two sides"))
        kind = getattr(config, "_attn_implementation", None)
        if kind not in ("eager", None):
            raise ValueError(_NO_WEIGHTS.format(found=f"this one computes with {kind!r}, which gives none"))

    def rows(self, members: Sequence[AttentionRollout], problem: Problem, place: Place) -> Rows:
        return Rows(len(problem.inputs))

    def pieces(self, members: Sequence[AttentionRollout], problem: Problem) -> Iterator[Piece]:
        session, inputs = problem.open_session, problem.inputs
        model = _transformer(session.module)
        heads = [getattr(model.config, name, 12) for name in ("num_hidden_layers", "num_attention_heads")]
        weights = 8 * heads[0] * heads[1] * inputs.shape[1] ** 2
        height = max(1, min(session.batch_size, block_bytes(session.device) // weights))
        for rows in pieces(len(inputs), height):
            block = inputs[rows].to(session.device)
            which = torch.arange(rows.start, rows.stop, device=block.device)
            beside = (session.row_arguments or RowArguments()).at(which)
            with session.clocked():
                rollout, arguments = beside.call(_Rollout(model), block)
            session.counts.rows += len(block)
            mask = beside.model_kwargs.get(_MASK, torch.ones_like(block)).bool()
            yield Piece(rows, torch.stack([_read(member.read, rollout, arguments, mask) for member in members]))


@dataclass(frozen=True)
class _Rollout:
    """A model that answers with the rollout of a batch, and with what it was given: padding may have been trimmed."""

    model: Any

    def __call__(
        self, *values: Tensor, **arguments: Tensor
    ) -> tuple[Float[Tensor, "n length length"], dict[str, Tensor]]:
        ids = values[0] if values else arguments["input_ids"]
        model_arguments = {name: value for name, value in arguments.items() if name not in ("labels", "marks")}
        outputs = self.model(*values, **model_arguments, output_attentions=True)
        layers = getattr(outputs, "attentions", None)
        if not layers or any(layer is None for layer in layers):
            raise ValueError(_NO_WEIGHTS.format(found="this one gives none"))
        return rolled_out(layers), {_MASK: torch.ones_like(ids), **arguments}


def rolled_out(layers: Sequence[Float[Tensor, "n heads length length"]]) -> Float[Tensor, "n length length"]:
    """Attention through all layers, the first one first.

    Example:
        >>> rolled_out([torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]])] * 2)
        tensor([[[1.0000, 0.0000],
                 [0.7500, 0.2500]]])
    """
    kept = torch.eye(layers[0].shape[-1], device=layers[0].device)
    rollout = kept.expand(len(layers[0]), -1, -1)
    for layer in layers:
        rollout = (layer.mean(1).float() + kept) / 2 @ rollout
    return rollout


def _read(
    read: Read,
    rollout: Float[Tensor, "n short short"],
    arguments: dict[str, Tensor],
    mask: Bool[Tensor, "n length"],
) -> Float[Tensor, "n length"]:
    """The row of the place where the answer is read, or the mean of those places, as tokens stand in the inputs."""
    shown = arguments[_MASK].bool()
    if "marks" in arguments:
        weights = arguments["marks"].float()
    elif "labels" in arguments:  # a place predicts the next token
        weights = nn.functional.pad(arguments["labels"][:, 1:] >= 0, (0, 1)).float()
        weights = weights / weights.sum(1, keepdim=True)
    else:
        last = shown.shape[1] - 1 - shown.int().flip(1).argmax(1)
        place = shown.int().argmax(1) if read == "first" else last
        weights = nn.functional.one_hot(place, shown.shape[1]).float()
    values = torch.einsum("nq,nqk->nk", weights.to(rollout), rollout)
    return torch.zeros(mask.shape, device=values.device).masked_scatter(mask, values[shown])


def _transformer(module: nn.Module | None) -> Any:
    inner = module.model if isinstance(module, ContinuationScore | TokenLabelScore) else module
    if not hasattr(inner, "config"):
        raise TypeError(_NO_WEIGHTS.format(found=f"a {type(inner).__name__} has no configuration of transformers"))
    return inner

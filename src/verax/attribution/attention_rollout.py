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
from verax.core.shapes import Bool, Float, Int
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
        """Both places come from the same pass."""
        return AttentionRolloutFamily()


@dataclass(frozen=True)
class AttentionRolloutFamily(Family):
    """One forward pass per input."""

    def check(self, members: Sequence[AttentionRollout], problem: Problem) -> None:
        """Raise for what has no attention, before the model runs."""
        if problem.inputs.is_floating_point() or problem.inputs.ndim != 2:
            raise TypeError("inputs: AttentionRollout takes ids of tokens, as verax.text.classification makes them.")
        config = _transformer(problem.scorer.adapter.module).config
        if getattr(config, "is_encoder_decoder", False):
            raise ValueError(_NO_WEIGHTS.format(found="this one has those of two sides"))
        kind = getattr(config, "_attn_implementation", None)
        if kind not in ("eager", None):
            raise ValueError(_NO_WEIGHTS.format(found=f"this one computes with {kind!r}, which gives none"))

    def rows(self, members: Sequence[AttentionRollout], problem: Problem, place: Place) -> Rows:
        """One per input."""
        return Rows(len(problem.inputs))

    def pieces(self, members: Sequence[AttentionRollout], problem: Problem) -> Iterator[Piece]:
        """Yield what each member reads from the rollout of some texts after others."""
        session, inputs = problem.open_session, problem.inputs
        model = _transformer(session.module)
        weights = 8 * _heads(model.config) * inputs.shape[1] ** 2
        height = max(1, min(session.batch_size, block_bytes(session.device) // weights))
        for rows in pieces(len(inputs), height):
            block = inputs[rows].to(session.device)
            beside = (session.row_arguments or RowArguments()).at(
                torch.arange(rows.start, rows.stop, device=block.device)
            )
            with session.clocked():
                rollout, arguments = beside.call(_Rollout(model), block)
            session.counts.rows += len(block)
            mask = beside.model_kwargs.get(_MASK, torch.ones_like(block)).bool()
            yield Piece(
                rows,
                torch.stack([_placed(_read(member.read, rollout, arguments), arguments, mask) for member in members]),
            )


@dataclass(frozen=True)
class _Rollout:
    """A model that answers with the rollout of a batch, and with what it was given: padding may have been trimmed."""

    model: Any

    def __call__(
        self, *values: Tensor, **arguments: Tensor
    ) -> tuple[Float[Tensor, "n length length"], dict[str, Tensor]]:
        ids = values[0] if values else arguments["input_ids"]
        model_arguments = {name: value for name, value in arguments.items() if name not in ("labels", "asked")}
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
    read: Read, rollout: Float[Tensor, "n length length"], arguments: dict[str, Tensor]
) -> Float[Tensor, "n length"]:
    """The row of the place, or the mean of those of the places, where the answer is read."""
    return torch.einsum("nq,nqk->nk", _weights(read, arguments).to(rollout), rollout)


def _weights(read: Read, arguments: dict[str, Tensor]) -> Float[Tensor, "n length"]:
    """How much each place counts."""
    if "asked" in arguments:
        return arguments["asked"].float()
    if "labels" in arguments:  # a place predicts the next token
        before = nn.functional.pad(arguments["labels"][:, 1:] >= 0, (0, 1)).float()
        return before / before.sum(1, keepdim=True)
    mask = arguments[_MASK].bool()
    return nn.functional.one_hot(_first(mask) if read == "first" else _last(mask), mask.shape[1]).float()


def _first(present: Bool[Tensor, "n length"]) -> Int[Tensor, " n"]:
    return present.int().argmax(1)


def _last(present: Bool[Tensor, "n length"]) -> Int[Tensor, " n"]:
    return present.shape[1] - 1 - present.int().flip(1).argmax(1)


def _placed(
    values: Float[Tensor, "n short"], arguments: dict[str, Tensor], present: Bool[Tensor, "n length"]
) -> Float[Tensor, "n length"]:
    """Numbers of the tokens at the places that they have in the inputs."""
    return torch.zeros(present.shape, device=values.device).masked_scatter(present, values[arguments[_MASK].bool()])


def _transformer(module: nn.Module | None) -> Any:
    """The model of ``transformers`` that is explained."""
    inner = module.model if isinstance(module, ContinuationScore | TokenLabelScore) else module
    if not hasattr(inner, "config"):
        raise TypeError(_NO_WEIGHTS.format(found=f"a {type(inner).__name__} has no configuration of transformers"))
    return inner


def _heads(config: Any) -> int:
    """Attention matrices of a row, to tell the memory that they take."""
    return int(getattr(config, "num_hidden_layers", 12)) * int(getattr(config, "num_attention_heads", 12))

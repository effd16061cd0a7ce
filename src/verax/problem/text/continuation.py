"""Generation: how likely is a continuation, and which tokens of the prompt make it so?"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from verax.core.arguments import checked_count, checked_flag
from verax.core.shapes import Float, Int, Shaped
from verax.problem.text.collate import Trim
from verax.problem.text.fixed import fixed_around
from verax.problem.text.pieces import decoded_pieces
from verax.problem.text.prefix import SharedPrefix
from verax.problem.text.tokens import Replace, TextInputs, Unit, check_deletion, token_rows
from verax.scoring.scorer import Scorer

_IGNORED = -100  # a label that is none


class ContinuationScore(nn.Module):
    """A language model that answers with the log-probability of what is given to follow, in nats.

    Args:
        model: A causal or an encoder-decoder model of ``transformers``.
        tokens: Give one number for each of so many tokens of the continuation, 0 where it is shorter; None for their
            sum.
    """

    def __init__(self, model: Any, tokens: int | None = None) -> None:
        super().__init__()
        self.model, self.tokens = model, tokens
        self.pairs = bool(getattr(model.config, "is_encoder_decoder", False))
        self.config = model.config
        self.shared = SharedPrefix(model)

    def train(self, mode: bool = True) -> "ContinuationScore":
        """Switch the mode, as every call of Verax does first; what was read of prompts before is forgotten."""
        self.shared.forget()
        return super().train(mode)

    def get_input_embeddings(self) -> Any:
        """The embeddings of the model's tokens."""
        find = getattr(self.model, "get_input_embeddings", None)
        return None if find is None else find()

    def forward(self, labels: Int[Tensor, "n length"], **given: Tensor) -> Float[Tensor, "n outputs"]:
        """Log-probabilities of the labels that are not -100.

        Args:
            labels: The continuation: of a causal model at its own places, otherwise alone.
            given: What the model takes: ids or vectors, and the attention mask.
        """
        found = self._followed(labels, given) if self.pairs else self._continued(labels, given)
        if self.tokens is None:
            return found.sum(1, keepdim=True)
        return nn.functional.pad(found, (0, self.tokens - found.shape[1]))

    def _followed(self, labels: Int[Tensor, "n length"], given: dict[str, Tensor]) -> Float[Tensor, "n length"]:
        begin = self.model.prepare_decoder_input_ids_from_labels(labels=labels)
        logits = self.model(decoder_input_ids=begin, use_cache=False, **given).logits
        return _log_probabilities(logits, labels)

    def _continued(self, labels: Int[Tensor, "n length"], given: dict[str, Tensor]) -> Float[Tensor, "n tokens"]:
        """The logits of a place are about the next one; places before the first continuation are left out."""
        there = labels != _IGNORED
        last = labels.shape[1] - int(there.int().argmax(1).min()) + 1
        found = _log_probabilities(self.shared.logits(given, last)[:, :-1], labels[:, 1 - last :])
        if self.tokens is None:
            return found
        own = there[:, 1 - last :]
        order = (~own).to(torch.int8).argsort(dim=1, stable=True)[:, : int(own.sum(1).max())]
        return found.gather(1, order)


def _log_probabilities(
    logits: Shaped[Tensor, "n length words"], labels: Int[Tensor, "n length"]
) -> Float[Tensor, "n length"]:
    """Of each label; 0 where there is none."""
    wanted = labels.clamp(min=0)[..., None]
    picked = logits.gather(2, wanted)[..., 0].float() - logits.float().logsumexp(2)
    return picked.masked_fill(labels == _IGNORED, 0)


def continued(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    continuations: Sequence[str] | None,
    *,
    per_token: bool,
    max_new_tokens: int,
    unit: Unit,
    replace: Replace | None,
    prefix: str,
    suffix: str,
) -> tuple[Scorer, TextInputs]:
    """A language model that scores continuations, and prompts with them; ``verax.text.generation`` explains them."""
    checked_flag("per_token", per_token)
    checked_count("max_new_tokens", max_new_tokens)
    listed = _prompts(prompts, prefix, suffix)
    if continuations is not None and len(list(continuations)) != len(listed):
        raise ValueError(f"continuations: expected one for each of {len(listed)} prompts, got {len(continuations)}.")
    inputs = token_rows(tokenizer, listed, unit, replace)
    if prefix or suffix:
        inputs = fixed_around(tokenizer, inputs, listed, prefix, suffix)
    check_deletion(inputs)  # the first token of a continuation is likely or not after something
    if continuations is None:
        following = [_generated(model, inputs[row], max_new_tokens) for row in range(len(listed))]
    else:
        following = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in continuations]
    for row, ids in enumerate(following):
        if not ids:
            raise ValueError(f"continuations: row {row} has no token.")
    scorer = ContinuationScore(model, max(map(len, following)) if per_token else None)
    joined = _beside(inputs, following) if scorer.pairs else _behind(tokenizer, inputs, following)
    return Scorer(scorer, returns="values"), joined


def _prompts(prompts: Sequence[str], prefix: str, suffix: str) -> list[str]:
    """Prompts with what stands around each."""
    for name, text in (("prefix", prefix), ("suffix", suffix)):
        if not isinstance(text, str):
            raise TypeError(f"{name}: expected a text, got {type(text).__name__}.")
    if isinstance(prompts, str):
        raise TypeError("prompts: expected a list of texts, got str.")
    for row, text in enumerate(prompts):
        if not isinstance(text, str):
            raise TypeError(f"prompts: expected a text in row {row}, got {type(text).__name__}.")
    return [f"{prefix}{text}{suffix}" for text in prompts]


def _generated(model: Any, prompt: TextInputs, most: int) -> list[int]:
    """What a model continues a prompt with, the likeliest token each time."""
    ids = prompt.values[prompt.there][None].to(model.device)
    with torch.inference_mode():
        found = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=most, do_sample=False, num_beams=1
        )
    listed: list[int] = found[0, 1 if model.config.is_encoder_decoder else ids.shape[1] :].tolist()
    return listed


def _beside(inputs: TextInputs, following: list[list[int]]) -> TextInputs:
    """Continuations travel along: an encoder reads the prompt, a decoder what follows."""
    return dataclasses.replace(inputs, alongside={**inputs.alongside, "labels": _padded(following, _IGNORED)})


def _behind(tokenizer: Any, inputs: TextInputs, following: list[list[int]]) -> TextInputs:
    """Continuations stand behind their prompts in the same rows; they are never removed."""
    there, rows = inputs.there, range(len(inputs))
    pad = inputs.collate.pad if isinstance(inputs.collate, Trim) else 0
    prompts = [inputs.values[row][there[row]].tolist() for row in rows]
    numbers = [inputs.features[row][there[row]].tolist() for row in rows]
    ids = _padded([[*prompts[row], *following[row]] for row in rows], pad)
    lengths = torch.tensor([len(prompts[row]) + len(following[row]) for row in rows])
    labels = _padded([[_IGNORED] * len(prompts[row]) + following[row] for row in rows], _IGNORED)
    return TextInputs(
        values=ids,
        features=_padded([[*numbers[row], *[-1] * len(following[row])] for row in rows], -1),
        baselines=inputs.baselines,
        alongside={Trim.mask: (torch.arange(ids.shape[1]) < lengths[:, None]).long(), "labels": labels},
        key="input_ids",
        collate=Trim(pad, ("labels",)),
        tokens=tuple((*inputs.tokens[row], *tokenizer.convert_ids_to_tokens(following[row])) for row in rows),
        pieces=tuple(
            inputs.pieces[row] + decoded_pieces(tokenizer, [*prompts[row], *following[row]])[len(prompts[row]) :]
            for row in rows
        ),
    )


def _padded(rows: list[list[int]], pad: int) -> Int[Tensor, "n length"]:
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [pad] * (longest - len(row)) for row in rows])

"""Generation: how likely is a continuation, and which tokens of the prompt make it so?"""

import copy
import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from verax.core.arguments import checked_count, checked_flag
from verax.core.shapes import Bool, Float, Int, Shaped
from verax.problem.text.collate import Trim
from verax.problem.text.tokens import (
    Replace,
    TextInputs,
    Unit,
    check_deletion,
    checked_texts,
    decoded_pieces,
    fixed_around,
    token_rows,
)
from verax.scoring.scorer import Scorer

_FEWEST = 256  # tokens spared by a batch: below, a second call of a small model costs as much
_PLAIN = ("DynamicLayer", "DynamicSlidingWindowLayer")  # caches that hold keys and values, and nothing else
_GIVEN = {"input_ids", "attention_mask"}


class SharedPrefix:
    """Runs a causal model of ``transformers`` on rows that begin alike: the beginning once, what follows for each row.

    In a causal model the keys and values of a token depend on it and on what stands before it alone, so those of a
    common beginning serve every row, ``f(prefix + rest) = f(rest | cache(prefix))`` but for rounding, and the batches
    that follow until weights change in place or ``forget`` is called. The first batch that could gain is run both ways
    for two rows; a model that answers otherwise, or has no such cache, is run the plain way.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        takes = inspect.signature(model.forward).parameters
        self.usable = {"past_key_values", "use_cache", *_GIVEN} <= set(takes)
        self.some = "logits_to_keep" in takes
        self._tried = False
        self._held: tuple[int, list[int], Any] = (0, [], None)  # version of the weights; a beginning; its cache

    def forget(self) -> None:
        self._held = (0, [], None)

    def logits(self, arguments: dict[str, Tensor], last: int) -> Shaped[Tensor, "n last words"]:
        shared = self._shared(arguments, last)
        if shared and not self._tried:
            self._tried = True
            few = {name: value[:2] for name, value in arguments.items()}
            logits, expected = self._continued(few, last, shared), self._plain(few, last)
            slack = torch.finfo(expected.dtype).eps ** 0.5 * float(expected.abs().max())
            self.usable = logits is not None and bool((logits - expected).abs().max() <= slack)
        logits = self._continued(arguments, last, shared) if shared and self.usable else None
        return self._plain(arguments, last) if logits is None else logits

    def _shared(self, arguments: dict[str, Tensor], last: int) -> int:
        """How many tokens all rows begin with; 0 where that is not worth a call, or the model takes no cache."""
        plain = torch.is_grad_enabled() or torch.compiler.is_compiling()
        if not self.usable or plain or set(arguments) != _GIVEN:
            return 0
        rows, length = arguments["input_ids"].shape
        shared = beginning(arguments["input_ids"], arguments["attention_mask"].bool(), length - last)
        return shared if shared * (rows - 1) >= _FEWEST and 4 * shared >= length else 0

    def _plain(self, arguments: dict[str, Tensor], last: int) -> Shaped[Tensor, "n last words"]:
        logits: Tensor = self.model(use_cache=False, **arguments, **self._kept(last)).logits
        return logits[:, -last:]

    def _continued(self, arguments: dict[str, Tensor], last: int, shared: int) -> Shaped[Tensor, "n last words"] | None:
        """The same by way of the cache; None where the model gives none."""
        ids = arguments["input_ids"]
        known, cache = self._read(ids[:1, :shared])
        if cache is None:
            return None
        past = copy.deepcopy(cache)  # the model adds to it
        past.batch_repeat_interleave(len(ids))
        rest = {"input_ids": ids[:, known:], "attention_mask": arguments["attention_mask"], "past_key_values": past}
        logits: Tensor = self.model(use_cache=True, **rest, **self._kept(last)).logits
        return logits[:, -last:]

    def _read(self, ids: Int[Tensor, "1 shared"]) -> tuple[int, Any]:
        """Keys and values of a beginning, or of most of it where they are held, and of how many tokens they are."""
        numbers: list[int] = ids[0].tolist()
        version = sum(parameter._version for parameter in self.model.parameters() if not parameter.is_inference())
        then, known, _ = self._held
        if then != version or 2 * len(known) < len(numbers) or known != numbers[: len(known)]:
            outputs = self.model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=True, **self._kept(1))
            cache = getattr(outputs, "past_key_values", None)
            plain = all(type(layer).__name__ in _PLAIN for layer in getattr(cache, "layers", (None,)))
            self._held = (version, numbers, cache if plain else None)
        return len(self._held[1]), self._held[2]

    def _kept(self, last: int) -> dict[str, int]:
        """Ask for the logits of the last places alone, where the model can be asked."""
        return {"logits_to_keep": last} if self.some else {}


def beginning(ids: Int[Tensor, "n length"], present: Bool[Tensor, "n length"], most: int) -> int:
    same = ((ids == ids[:1]) & present).all(0)[:most]
    return int(same.long().cumprod(0).sum())


_IGNORED = -100  # a label that is none


class TokenModel(nn.Module):
    """A model of tokens behind another output."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.config = model, model.config

    def get_input_embeddings(self) -> Any:
        """The embeddings of the model's tokens."""
        find = getattr(self.model, "get_input_embeddings", None)
        return None if find is None else find()


class ContinuationScore(TokenModel):
    """A language model that answers with the log-probability of what is given to follow, in nats.

    Args:
        model: A causal or an encoder-decoder model of ``transformers``.
        tokens: Give one number for each of so many tokens of the continuation, 0 where it is shorter; None for their
            sum.
    """

    def __init__(self, model: Any, tokens: int | None = None) -> None:
        super().__init__(model)
        self.tokens = tokens
        self.pairs = bool(getattr(model.config, "is_encoder_decoder", False))
        self.shared = SharedPrefix(model)

    def train(self, mode: bool = True) -> "ContinuationScore":
        """Switch the mode, as every call of Verax does first; what was read of prompts before is forgotten."""
        self.shared.forget()
        return super().train(mode)

    def forward(self, labels: Int[Tensor, "n length"], **arguments: Tensor) -> Float[Tensor, "n outputs"]:
        """Log-probabilities of the labels that are not -100.

        Args:
            labels: The continuation: of a causal model at its own places, otherwise alone.
            arguments: What the model takes: ids or vectors, and the attention mask.
        """
        totals = self._followed(labels, arguments) if self.pairs else self._continued(labels, arguments)
        if self.tokens is None:
            return totals.sum(1, keepdim=True)
        return nn.functional.pad(totals, (0, self.tokens - totals.shape[1]))

    def _followed(self, labels: Int[Tensor, "n length"], arguments: dict[str, Tensor]) -> Float[Tensor, "n length"]:
        begin = self.model.prepare_decoder_input_ids_from_labels(labels=labels)
        logits = self.model(decoder_input_ids=begin, use_cache=False, **arguments).logits
        return _log_probabilities(logits, labels)

    def _continued(self, labels: Int[Tensor, "n length"], arguments: dict[str, Tensor]) -> Float[Tensor, "n tokens"]:
        """The logits of a place are about the next one; places before the first continuation are left out."""
        present = labels != _IGNORED
        last = labels.shape[1] - int(present.int().argmax(1).min()) + 1
        log_probabilities = _log_probabilities(self.shared.logits(arguments, last)[:, :-1], labels[:, 1 - last :])
        if self.tokens is None:
            return log_probabilities
        present_here = present[:, 1 - last :]
        order = (~present_here).to(torch.int8).argsort(dim=1, stable=True)[:, : int(present_here.sum(1).max())]
        return log_probabilities.gather(1, order)


def _log_probabilities(
    logits: Shaped[Tensor, "n length words"], labels: Int[Tensor, "n length"]
) -> Float[Tensor, "n length"]:
    places = labels.clamp(min=0)[..., None]
    picked = logits.gather(2, places)[..., 0].float() - logits.float().logsumexp(2)
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
    for name, text in (("prefix", prefix), ("suffix", suffix)):
        if not isinstance(text, str):
            raise TypeError(f"{name}: expected a text, got {type(text).__name__}.")
    listed = [f"{prefix}{text}{suffix}" for text in checked_texts("prompts", prompts)]
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
    if not scorer.pairs:
        return Scorer(scorer, returns="values"), _behind(tokenizer, inputs, following)
    beside = {**inputs.model_kwargs, "labels": _padded(following, _IGNORED)}  # an encoder reads the prompt alone
    return Scorer(scorer, returns="values"), dataclasses.replace(inputs, model_kwargs=beside)


def _generated(model: Any, prompt: TextInputs, most: int) -> list[int]:
    ids = prompt.values[prompt.present][None].to(model.device)
    with torch.inference_mode():
        generated = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=most, do_sample=False, num_beams=1
        )
    listed: list[int] = generated[0, 1 if model.config.is_encoder_decoder else ids.shape[1] :].tolist()
    return listed


def _behind(tokenizer: Any, inputs: TextInputs, following: list[list[int]]) -> TextInputs:
    """Continuations stand behind their prompts in the same rows; they are never removed."""
    pad = inputs.collate.pad if isinstance(inputs.collate, Trim) else 0
    rows = list(zip(inputs.values, inputs.features, inputs.present, following, strict=True))
    prompts = [ids[mask].tolist() for ids, _, mask, _ in rows]
    whole = [[*prompt, *ids] for prompt, ids in zip(prompts, following, strict=True)]
    present = _padded([[1] * len(ids) for ids in whole], 0)
    labels = _padded([[_IGNORED] * int(mask.sum()) + ids for _, _, mask, ids in rows], _IGNORED)
    return TextInputs(
        values=_padded(whole, pad),
        features=_padded([[*numbers[mask].tolist(), *[-1] * len(ids)] for _, numbers, mask, ids in rows], -1),
        baselines=inputs.baselines,
        model_kwargs={Trim.mask: present, "labels": labels},
        key="input_ids",
        collate=Trim(pad, ("labels",)),
        tokens=tuple(
            (*tokens, *tokenizer.convert_ids_to_tokens(ids))
            for tokens, ids in zip(inputs.tokens, following, strict=True)
        ),
        pieces=tuple(
            pieces + decoded_pieces(tokenizer, ids)[len(prompt) :]
            for pieces, ids, prompt in zip(inputs.pieces, whole, prompts, strict=True)
        ),
    )


def _padded(rows: list[list[int]], pad: int) -> Int[Tensor, "n length"]:
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [pad] * (longest - len(row)) for row in rows])

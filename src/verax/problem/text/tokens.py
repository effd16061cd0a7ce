"""Texts as inputs: ids of tokens, with what a model gets beside them, and tokens, words or sentences as features."""

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from verax.core.arguments import checked_choice, checked_count
from verax.core.shapes import Bool, Int
from verax.problem.inputs import Inputs
from verax.problem.text.collate import DELETED, Trim

_PARTIAL = "\N{REPLACEMENT CHARACTER}"  # what bytes of an unfinished character are decoded to


def text_pieces(tokenizer: Any, encoded: Any, texts: Sequence[Any]) -> tuple[tuple[str, ...], ...]:
    """What each token stands for in its text, with the space before it; empty for special tokens."""
    if getattr(tokenizer, "is_fast", False):
        return tuple(_cut(encoding, text) for encoding, text in zip(encoded.encodings, texts, strict=True))
    rows = zip(encoded["input_ids"], encoded["attention_mask"], strict=True)
    return tuple(
        decoded_pieces(tokenizer, [int(number) for number, present in zip(ids, mask, strict=True) if present])
        for ids, mask in rows
    )


def decoded_pieces(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    """The same from ids alone, each decoded behind the ones before it; characters of several go with the last."""

    def text(begin: int, end: int) -> str:
        return str(tokenizer.decode(ids[begin:end], skip_special_tokens=True, clean_up_tokenization_spaces=False))

    pieces: list[str] = []
    begin = read = 0  # what is decoded, and how much of it has been taken
    for end in range(1, len(ids) + 1):
        now = text(begin, end)
        if now.endswith(_PARTIAL):
            pieces.append("")
            continue
        pieces.append(now[len(text(begin, read)) :])
        if pieces[-1]:  # special tokens are not there, so that what comes before them stays in sight
            begin, read = read, end
    return tuple(pieces)


def _cut(encoding: Any, text: Any) -> tuple[str, ...]:
    """Cut a text, or a pair below each other, where its tokens end."""
    parts = text if isinstance(text, tuple) else (text,)
    texts: list[str] = []
    cut: dict[int, int] = {}  # of each part, where the next piece begins
    for (start, end), part, present in zip(
        encoding.offsets, encoding.sequence_ids, encoding.attention_mask, strict=True
    ):
        if not present:
            continue
        if part is None:
            texts.append("")
            continue
        below = "\n" if part and part not in cut else ""
        begin = cut.get(part, start)
        texts.append(below + parts[part][begin:end])
        cut[part] = max(begin, end)  # tokens of one character all end with it
    return tuple(texts)


Unit = Literal["token", "word", "sentence"]
Replace = Literal["mask", "pad", "unk", "delete"]
_SENTENCE = re.compile(r"(?<=[.!?…])[\"')\]]*\s+")


@dataclass(frozen=True, eq=False)
class TextInputs(Inputs):
    """Tokenized texts. Slicing keeps everything together.

    Attributes:
        tokens: The tokens of each text as people read them, without padding, special ones included.
        pieces: What each of them stands for: joined, the text that the model reads. Empty for special tokens.
    """

    tokens: tuple[tuple[str, ...], ...] = ()
    pieces: tuple[tuple[str, ...], ...] = ()

    def __getitem__(self, rows: Any) -> "TextInputs":
        chosen: Any = super().__getitem__(rows)
        kept = np.arange(len(self))[rows if isinstance(rows, slice) else np.asarray(rows)].reshape(-1).tolist()
        tokens, pieces = (tuple(held[place] for place in kept) if held else () for held in (self.tokens, self.pieces))
        return replace(chosen, tokens=tokens, pieces=pieces)  # type: ignore[no-any-return]

    @property
    def present(self) -> Any:
        """Which places of each row hold a token, special ones included, ``(N, L)``."""
        return torch.as_tensor(self.model_kwargs["attention_mask"]).bool()

    def words(self, rows: int) -> tuple[tuple[str, ...], ...]:
        """What people read at each place of the first rows; nothing at special tokens and padding."""
        if not self.pieces:
            return ()
        left = [iter(pieces) for pieces in self.pieces[:rows]]
        texts = zip(left, self.present[:rows].tolist(), strict=True)
        return tuple(tuple(next(pieces) if present else "" for present in mask) for pieces, mask in texts)

    def fitted(self, attribution: Any) -> Any:
        """Attributions of these texts as one array: lists of one number per token, or per feature, are padded.

        Args:
            attribution: An array as it is, or a list with one sequence per text: a number for each of its tokens,
                special ones included, or for each of its features; of a prompt with or without what follows it.
        """
        if hasattr(attribution, "base_values"):  # a shap.Explanation
            attribution = list(attribution.values)
            if attribution and np.ndim(attribution[0]) == 2:
                raise ValueError(
                    f"attributions: the explanation is about {np.shape(attribution[0])[1]} classes; take one, for "
                    "instance explanation[:, :, 1], and say target=1."
                )
        if isinstance(attribution, np.ndarray) and attribution.dtype == object:  # texts of unlike lengths
            attribution = list(attribution)
        if not isinstance(attribution, list | tuple):
            return attribution
        rows = [
            np.asarray(row_values.detach().cpu() if isinstance(row_values, Tensor) else row_values, dtype=np.float64)
            for row_values in attribution
        ]
        if len(rows) != len(self) or any(row.ndim != 1 for row in rows):
            return attribution  # the array's own check says what is wrong
        prompt = self.present  # without what follows a prompt in the same row
        if isinstance(self.collate, Trim) and "labels" in self.collate.along:
            prompt = self.present & (torch.as_tensor(self.model_kwargs["labels"]) < 0)
        places = zip(*(np.asarray(each) for each in (self.features, self.present, prompt)), strict=True)
        return np.stack([_placed(number, row, *at) for number, (row, at) in enumerate(zip(rows, places, strict=True))])


def tokenized(
    tokenizer: Any,
    texts: Sequence[str] | Sequence[tuple[str, str]],
    *,
    unit: Unit = "token",
    replace: Replace | None = None,
    max_length: int | None = None,
) -> TextInputs:
    """Texts as rows of token ids; ``verax.text.classification`` explains the arguments."""
    rows = token_rows(tokenizer, checked_texts("texts", texts), unit, replace, max_length)
    check_deletion(rows)
    return rows


def check_deletion(inputs: TextInputs) -> None:
    """Raise where nothing is left of a text without its features: no model has an answer for an empty one."""
    if inputs.baselines != DELETED:
        return
    empty = ~(inputs.present & (inputs.features < 0)).any(1)
    if bool(empty.any()):
        raise ValueError(
            f'replace: "delete" leaves no token of row {int(empty.int().argmax())}, because the tokenizer adds no '
            'special token that would remain. Say replace="mask", "pad" or "unk"; a tokenizer that has none of them '
            "can be given one: tokenizer.pad_token = tokenizer.eos_token."
        )


def token_rows(
    tokenizer: Any, texts: list[Any], unit: Unit, replace: Replace | None, max_length: int | None = None
) -> TextInputs:
    """What ``tokenized``, which explains the arguments, returns; a text may be deleted as a whole."""
    checked_choice("unit", unit, get_args(Unit))
    how: dict[str, Any] = {"padding": True, "return_special_tokens_mask": True, "return_attention_mask": True}
    if max_length is not None:
        how |= {"truncation": True, "max_length": checked_count("max_length", max_length)}
    if getattr(tokenizer, "pad_token_id", None) is None and len(texts) > 1:
        raise ValueError(
            "tokenizer: it has no padding token, and texts of unlike length need one; say which, for instance "
            "tokenizer.pad_token = tokenizer.eos_token."
        )
    columns = [list(part) for part in zip(*texts, strict=True)] if isinstance(texts[0], tuple) else [texts]
    encoded = tokenizer(*columns, return_tensors="pt", **how)
    ids, present = encoded["input_ids"], encoded["attention_mask"].bool()
    special = encoded.pop("special_tokens_mask").bool() | ~present
    features = _features(tokenizer, encoded, texts, unit, special)
    check_some_left(features, "texts", "that could be removed", texts)
    beside = {name: value for name, value in encoded.items() if name != "input_ids"}
    along = tuple(name for name, value in beside.items() if value.shape == ids.shape and name != Trim.mask)
    instead = _replacement(tokenizer, replace)
    rows = zip(ids, present, strict=True)
    return TextInputs(
        values=ids,
        features=features,
        baselines=instead,
        model_kwargs=beside,
        key="input_ids",
        collate=Trim(getattr(tokenizer, "pad_token_id", None) or 0, along),
        tokens=tuple(tuple(tokenizer.convert_ids_to_tokens(row[mask].tolist())) for row, mask in rows),
        pieces=text_pieces(tokenizer, encoded, texts),
        removed="nothing: they are deleted" if instead == DELETED else str(tokenizer.convert_ids_to_tokens(instead)),
    )


def check_some_left(features: Tensor, argument: str, which: str, texts: Sequence[Any]) -> None:
    for row in (features < 0).all(1).nonzero()[:, 0].tolist():
        raise ValueError(f"{argument}: row {row} has no token {which}: {texts[row]!r}.")


def check_fast(tokenizer: Any, what: str) -> None:
    """Raise for a tokenizer that does not say which part of a text a token stands for."""
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(f"{what} a fast tokenizer, which knows where tokens come from.")


def checked_texts(argument: str, texts: Any) -> list[Any]:
    """Read texts, or pairs of them, none of which is empty."""
    if isinstance(texts, str) or not (isinstance(texts, Sequence) or hasattr(texts, "tolist")):
        raise TypeError(f"{argument}: expected a list of texts, got {type(texts).__name__}.")
    listed = list(texts)
    if not listed:
        raise ValueError(f"{argument}: expected at least one text, got none.")
    kind = type(listed[0]).__name__
    for row, text in enumerate(listed):
        parts = text if isinstance(text, tuple) and len(text) == 2 else (text,)
        if isinstance(text, tuple) != isinstance(listed[0], tuple):
            raise TypeError(f"{argument}: row {row} is a {type(text).__name__}, and the first a {kind}.")
        if not all(isinstance(part, str) for part in parts):
            raise TypeError(f"{argument}: expected texts, got {text!r} in row {row}.")
        if not any(part.strip() for part in parts):
            raise ValueError(f"{argument}: row {row} is empty; leave it out.")
    return listed


def _replacement(tokenizer: Any, replace: Replace | None) -> int:
    known: dict[str, Any] = {name: getattr(tokenizer, f"{name}_token_id", None) for name in ("mask", "pad", "unk")}
    if replace is None:
        return next((int(number) for number in known.values() if number is not None), DELETED)
    checked_choice("replace", replace, get_args(Replace))
    if replace == "delete":
        return DELETED
    if known[replace] is None:
        have = [name for name, number in known.items() if number is not None]
        raise ValueError(f"replace: the tokenizer has no {replace} token; it has {', '.join((*have, 'delete'))}.")
    return int(known[replace])


def _features(tokenizer: Any, encoded: Any, texts: list[Any], unit: Unit, special: Tensor) -> Int[Tensor, "n length"]:
    """The feature of every place, counted from 0 in each text; negative where nothing can be removed."""
    if unit == "token":
        counted = (~special).long().cumsum(1) - 1
        return counted.masked_fill(special, -1)
    check_fast(tokenizer, f'unit: "{unit}" needs')
    features = torch.full(special.shape, -1)
    for row in range(len(texts)):
        owners = _owners(encoded, texts[row], row, unit)
        numbers: dict[Any, int] = {}
        for place, owner in enumerate(owners):
            if owner is not None and not special[row, place]:
                features[row, place] = numbers.setdefault(owner, len(numbers))
    return features


def _owners(encoded: Any, text: Any, row: int, unit: Unit) -> list[Any]:
    parts = encoded.sequence_ids(row)
    if unit == "word":
        words = encoded.word_ids(row)
        return [None if word is None else (part, word) for part, word in zip(parts, words, strict=True)]
    spans = [None if part is None else encoded.token_to_chars(row, place) for place, part in enumerate(parts)]
    wholes = text if isinstance(text, tuple) else (text,)
    ends = [[end.end() for end in _SENTENCE.finditer(whole)] for whole in wholes]
    return [
        None if span is None else (part, sum(end <= span.start for end in ends[part]))
        for part, span in zip(parts, spans, strict=True)
    ]


def _placed(number: int, row: Any, features: Any, present: Any, prompt: Any) -> Any:
    """One text's attributions at the places of its tokens: of all, of its prompt's, or of its features."""
    for places in (present, prompt):
        if len(row) == int(places.sum()):
            numbers = np.zeros(len(features))
            numbers[places] = row
            return numbers
    count = int(features.max()) + 1
    if len(row) != count:
        raise ValueError(
            f"attributions: row {number} has {len(row)} numbers, and the text {int(present.sum())} tokens with special "
            f"ones ({count} features); expected one for each."
        )
    sizes = np.bincount(features[features >= 0], minlength=count)
    return np.where(features >= 0, (row / sizes)[np.maximum(features, 0)], 0.0)


def fixed_around(tokenizer: Any, inputs: TextInputs, texts: Sequence[str], prefix: str, suffix: str) -> TextInputs:
    """The same texts, of which what they begin and end with is never removed."""
    check_fast(tokenizer, "tokenizer: prefix and suffix need")
    spans = torch.tensor(tokenizer(list(texts), padding=True, return_offsets_mapping=True)["offset_mapping"])
    ends = torch.tensor([len(text) - len(suffix) for text in texts])[:, None]
    first = (spans[..., 0] < len(prefix.rstrip())) | (spans[..., 1] <= len(prefix))
    held = first | (spans[..., 1] > ends)
    features = without(inputs.features, held)
    inner = [text[len(prefix) : len(text) - len(suffix)] for text in texts]
    check_some_left(features, "prompts", "between prefix and suffix", inner)
    return dataclasses.replace(inputs, features=features)


def without(features: Int[Tensor, "n length"], held: Bool[Tensor, "n length"]) -> Int[Tensor, "n length"]:
    """Features of each row without what is held, counted from 0 and without gaps."""
    features_left = torch.full_like(features, -1)
    for row, numbers in enumerate(features.masked_fill(held, -1)):
        free = numbers >= 0
        features_left[row, free] = numbers[free].unique(return_inverse=True)[1]
    return features_left

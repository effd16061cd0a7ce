"""Pieces of a text, one for each token: joined, they are the text again, for reports that people read and copy from."""

from collections.abc import Sequence
from typing import Any

_PARTIAL = "\N{REPLACEMENT CHARACTER}"  # what bytes of an unfinished character are decoded to


def text_pieces(tokenizer: Any, encoded: Any, texts: Sequence[Any]) -> tuple[tuple[str, ...], ...]:
    """What each token stands for in its text, with the space before it; empty for special tokens.

    Args:
        tokenizer: Of ``transformers``. A fast one knows where tokens come from; of others, ids are decoded.
        encoded: What it made of the texts.
        texts: The texts, or pairs of them.

    Example:
        >>> from verax.problem.text.example import small_tokenizer
        >>> tokenizer = small_tokenizer("a good film")
        >>> text_pieces(tokenizer, tokenizer(["a  Good film"]), ["a  Good film"])
        (('', 'a', '  Good', ' film', ''),)
    """
    if not getattr(tokenizer, "is_fast", False):
        masks = [[bool(there) for there in mask] for mask in encoded["attention_mask"]]
        rows = zip(encoded["input_ids"], masks, strict=True)
        return tuple(
            decoded_pieces(tokenizer, [int(one) for one, there in zip(ids, mask, strict=True) if there])
            for ids, mask in rows
        )
    return tuple(_found(encoding, text) for encoding, text in zip(encoded.encodings, texts, strict=True))


def decoded_pieces(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    """The same from ids alone: each token is decoded behind the ones before it, since some take a space there.

    A character of several tokens goes with the last of them.
    """

    def text(begin: int, end: int) -> str:
        return str(tokenizer.decode(ids[begin:end], skip_special_tokens=True, clean_up_tokenization_spaces=False))

    found: list[str] = []
    begin = read = 0  # what is decoded, and how much of it has been taken
    for end in range(1, len(ids) + 1):
        now = text(begin, end)
        if now.endswith(_PARTIAL):
            found.append("")
            continue
        found.append(now[len(text(begin, read)) :])
        if found[-1]:  # special tokens are not there, so that what comes before them stays in sight
            begin, read = read, end
    return tuple(found)


def _found(encoding: Any, text: Any) -> tuple[str, ...]:
    """Cut a text, or a pair below each other, where its tokens end."""
    parts = text if isinstance(text, tuple) else (text,)
    found: list[str] = []
    cut: dict[int, int] = {}  # of each part, where the next piece begins
    for (start, end), part, there in zip(encoding.offsets, encoding.sequence_ids, encoding.attention_mask, strict=True):
        if not there:
            continue
        if part is None:
            found.append("")
            continue
        below = "\n" if part and part not in cut else ""
        begin = cut.get(part, start)
        found.append(below + parts[part][begin:end])
        cut[part] = max(begin, end)  # tokens of one character all end with it
    return tuple(found)

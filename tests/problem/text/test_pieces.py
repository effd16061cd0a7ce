"""Pieces of texts: joined, they are the text again, whatever the tokenizer makes of it."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import verax
from verax.problem.text.example import small_tokenizer
from verax.problem.text.tokens import decoded_pieces, text_pieces, tokenized

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

TEXT = "Tschüß 🙂🙂, the <b>film</b>\n was  good!"


def byte_level() -> Any:
    """A tokenizer of bytes: every letter beyond ASCII is several tokens, and words begin with a space."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(tokenizers.models.BPE({letter: at for at, letter in enumerate(alphabet)}, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made)


BYTES = byte_level()


@given(st.text(min_size=1).filter(str.strip))
def test_pieces_of_bytes_are_the_text(text: str) -> None:
    encoded = BYTES([text])
    (pieces,) = text_pieces(BYTES, encoded, [text])
    assert len(pieces) == len(encoded["input_ids"][0])
    assert "".join(pieces) == text
    assert "".join(decoded_pieces(BYTES, encoded["input_ids"][0])) == text


def test_special_tokens_and_padding_have_no_text() -> None:
    tokenizer = small_tokenizer(TEXT, "good")
    tokenizer.padding_side = "left"
    inputs = tokenized(tokenizer, [TEXT, "good"])
    assert "".join(inputs.pieces[0]) == TEXT
    assert inputs.pieces[1] == ("", "good", "")
    assert inputs.words(5)[1] == ("",) * (inputs.values.shape[1] - 2) + ("good", "")
    assert inputs[1:].pieces == inputs.pieces[1:]
    assert len(inputs.words(1)) == 1


def test_pairs_stand_below_each_other() -> None:
    inputs = tokenized(small_tokenizer("is it good", "yes"), [("is it good", "yes")])
    assert "".join(inputs.pieces[0]) == "is it good\nyes"


def test_what_a_tokenizer_without_places_gives() -> None:
    """Ids are decoded, one behind the other."""

    class Slow:
        is_fast = False

        def __getattr__(self, name: str) -> Any:
            return getattr(tokenizer, name)

    tokenizer = small_tokenizer("a good film")
    result = text_pieces(Slow(), tokenizer(["a good film", "film"], padding=True), ["a good film", "film"])
    assert result == (("", "a", " good", " film", ""), ("", "film", ""))


def test_a_continuation_goes_on_with_the_text() -> None:
    tokenizer = small_tokenizer("the cat sat on")
    config = transformers.GPT2Config(n_embd=8, n_layer=1, n_head=1, n_positions=16, vocab_size=len(tokenizer))
    with torch.random.fork_rng():
        model = transformers.GPT2LMHeadModel(config).eval()
    inputs = verax.text.generation(model, tokenizer, ["the cat", "the"], ["sat on", "cat"]).rows
    assert ["".join(one) for one in inputs.pieces] == ["the cat sat on", "the cat"]
    assert [len(one) for one in inputs.pieces] == [len(one) for one in inputs.tokens]

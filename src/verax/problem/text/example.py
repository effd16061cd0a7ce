"""A tokenizer and models made on the spot, for examples and tests that need no download."""

from collections.abc import Sequence
from typing import Any

import torch

from verax.core.packages import optional_package

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def small_tokenizer(*texts: str) -> Any:
    """A tokenizer whose vocabulary are the words of some texts."""
    transformers = optional_package("transformers", "verax[text]", "verax.text")
    tokenizers = optional_package("tokenizers", "verax[text]", "verax.text")
    words = dict.fromkeys(word for text in texts for word in text.lower().split())
    vocabulary = {word: number for number, word in enumerate((*_SPECIAL, *words))}
    pad, unk, cls, sep, mask = _SPECIAL
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token=unk))
    made.normalizer = tokenizers.normalizers.Lowercase()
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token=pad, unk_token=unk, cls_token=cls, sep_token=sep, mask_token=mask
    )


def small_classifier(tokenizer: Any, labels: Sequence[str] = ("negative", "positive"), seed: int = 0) -> Any:
    """A BERT of two layers with weights of a seed, that knows the tokenizer's words and nothing of their meaning."""
    transformers = optional_package("transformers", "verax[text]", "verax.text")
    settings = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=128,
        pad_token_id=tokenizer.pad_token_id,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
        **settings,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return transformers.BertForSequenceClassification(config).eval()

"""What all prompts begin with is read once, and the numbers stay those of the model called row by row."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

import verax
from verax.metrics import PredictionChange
from verax.problem.text.continuation import ContinuationScore, SharedPrefix
from verax.problem.text.example import small_tokenizer

transformers = pytest.importorskip("transformers")

PREFIX = "you are a helpful clerk and you answer in one short word . the sky ? blue . the grass ? green . "
PROMPTS = ["what is the colour of the sea", "is the old lamp red", "what colour has a ripe lemon in the cold winter"]
ANSWERS = ["blue", "yes it is", "yellow"]


@pytest.fixture(scope="module", name="tokenizer")
def _tokenizer() -> Any:
    return small_tokenizer(PREFIX, *PROMPTS, *ANSWERS)


def gpt2(tokenizer: Any) -> Any:
    settings = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, "initializer_range": 0.5}
    ends = {"bos_token_id": 2, "eos_token_id": 0, "vocab_size": len(tokenizer)}
    return seeded(transformers.GPT2LMHeadModel, transformers.GPT2Config(**settings, **ends))


def llama(tokenizer: Any) -> Any:
    return seeded(transformers.LlamaForCausalLM, transformers.LlamaConfig(**_like_llama(tokenizer)))


def sliding(tokenizer: Any) -> Any:
    """Tokens see a window that is shorter than the prefix."""
    return seeded(
        transformers.MistralForCausalLM, transformers.MistralConfig(**_like_llama(tokenizer), sliding_window=5)
    )


def _like_llama(tokenizer: Any) -> dict[str, Any]:
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 2}
    sizes = {"hidden_size": 16, "intermediate_size": 32, "max_position_embeddings": 64, "initializer_range": 0.5}
    return {**heads, **sizes, "vocab_size": len(tokenizer), "bos_token_id": 2, "eos_token_id": 0}


def seeded(kind: Any, config: Any) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(config).eval()


@contextmanager
def counted(model: Any) -> Iterator[list[int]]:
    """Tokens of every call of a model."""
    seen: list[int] = []
    hook = model.get_input_embeddings().register_forward_pre_hook(lambda part, args: seen.append(args[0].numel()))
    try:
        yield seen
    finally:
        hook.remove()


def switched_off(problem: verax.Problem) -> verax.Problem:
    score: Any = problem.scorer.adapter.module
    other = ContinuationScore(score.model, score.tokens)
    other.shared.usable = False
    return problem.with_model(verax.Scorer(other, returns="values"))


@pytest.mark.parametrize("replace", ["unk", "delete"])
@pytest.mark.parametrize("make", [gpt2, llama, sliding])
def test_scores_with_the_cache_are_those_without(tokenizer: Any, make: Any, replace: Any) -> None:
    """Prompts of unlike lengths, padded, at once and in small batches; far fewer tokens are computed."""
    model = make(tokenizer)
    problem, batches = (
        verax.text.generation(model, tokenizer, PROMPTS, ANSWERS, replace=replace, prefix=PREFIX, batch_size=size)
        for size in (None, 17)
    )
    given = {"r": torch.rand(problem.inputs.shape, generator=torch.Generator().manual_seed(0))}
    with counted(model) as plain:
        expected = PredictionChange()(switched_off(problem), given)
    with counted(model) as shared:
        result = PredictionChange()(problem, given)
    small = PredictionChange()(batches, given)
    assert expected.morf["r"].std(1).min() > 0.05  # the prompt does matter
    for one in (result, small):
        for curve in ("morf", "lerf"):
            torch.testing.assert_close(getattr(one, curve)["r"], getattr(expected, curve)["r"], atol=1e-5, rtol=1e-6)
    assert sum(shared) < 0.6 * sum(plain)


def test_the_prefix_is_read_once_and_anew_with_other_weights(tokenizer: Any) -> None:
    model = gpt2(tokenizer)
    problem, batches = (
        verax.text.generation(model, tokenizer, PROMPTS, ANSWERS, prefix=PREFIX, batch_size=size) for size in (None, 20)
    )
    given = {"r": torch.rand(problem.inputs.shape, generator=torch.Generator().manual_seed(0))}
    reads: list[int] = []
    hook = model.get_input_embeddings().register_forward_pre_hook(lambda part, args: reads.append(len(args[0])))
    try:
        PredictionChange()(batches, given)  # its rows make three batches and more
    finally:
        hook.remove()
    assert 1 <= reads.count(1) <= 2  # twice, where the first batch shares more by chance
    assert sum(rows > 2 for rows in reads) >= 3
    model.transformer.h[0].mlp.c_fc.weight.data *= -1
    result, expected = (PredictionChange()(each, given) for each in (problem, switched_off(problem)))
    torch.testing.assert_close(result.morf["r"], expected.morf["r"], atol=1e-5, rtol=1e-6)


def test_left_padding_does_not_matter(tokenizer: Any) -> None:
    model = gpt2(tokenizer)
    values = []
    for side in ("right", "left"):
        tokenizer.padding_side = side
        try:
            problem = verax.text.generation(model, tokenizer, PROMPTS, ANSWERS, prefix=PREFIX)
        finally:
            tokenizer.padding_side = "right"
        values.append(verax.attribution.Occlusion()(problem))
    torch.testing.assert_close(values[0], values[1], atol=1e-5, rtol=0)


def test_each_token_keeps_its_score(tokenizer: Any) -> None:
    settings = {"per_token": True, "target": [0, 2, 0], "batch_size": 64}
    problem = verax.text.generation(gpt2(tokenizer), tokenizer, PROMPTS, ANSWERS, prefix=PREFIX, **settings)
    effects = [verax.attribution.Occlusion()(each) for each in (problem, switched_off(problem))]
    torch.testing.assert_close(*effects, atol=1e-5, rtol=0)


def test_what_stands_around_the_prompt_is_never_removed(tokenizer: Any) -> None:
    inputs = verax.text.generation(
        gpt2(tokenizer), tokenizer, PROMPTS[:2], ["blue", "yes"], prefix=PREFIX, suffix=" . answer :"
    ).rows
    for row, text in enumerate(PROMPTS[:2]):
        free = [word for word, number in zip(inputs.tokens[row], inputs.features[row], strict=False) if number >= 0]
        assert free == text.split()
        assert inputs.features[row][inputs.features[row] >= 0].tolist() == list(range(len(free)))
    words = verax.text.generation(gpt2(tokenizer), tokenizer, ["a red lamp"], ["yes"], prefix=PREFIX, unit="word").rows
    assert int(words.features.max()) == 2


def byte_pairs(*texts: str) -> Any:
    """A tokenizer like GPT-2's, whose tokens bring the space before their word."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    made.train_from_iterator(texts, tokenizers.trainers.BpeTrainer(vocab_size=300, show_progress=False))
    special = {"pad_token": "!", "unk_token": "?"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **special)


@pytest.mark.parametrize("prefix", ["answer this : ", "answer this:\n", "answer this:\n\n ", "answer"])
def test_the_space_before_the_first_word_does_not_fix_it(prefix: str) -> None:
    tokenizer = byte_pairs("answer this the film was good", "the film", "the film", "answer this", "was good")
    inputs = verax.text.generation(
        gpt2(tokenizer), tokenizer, ["the film was good"], [" yes"], prefix=prefix, suffix="\nso ?"
    ).rows
    free = [int(one) for one, number in zip(inputs.values[0], inputs.features[0], strict=True) if number >= 0]
    assert tokenizer.decode(free).strip() == "the film was good"


def test_generation_reads_the_prefix(tokenizer: Any) -> None:
    model = gpt2(tokenizer)
    inputs = verax.text.generation(model, tokenizer, ["a red lamp"], prefix=PREFIX, max_new_tokens=2).rows
    ids = tokenizer([PREFIX + "a red lamp"], return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        expected = model.generate(input_ids=ids, max_new_tokens=2, do_sample=False)[0, ids.shape[1] :]
    assert inputs.values[0, -2:].tolist() == expected.tolist()


def test_wrong_prefixes_are_refused(tokenizer: Any) -> None:
    model = gpt2(tokenizer)
    with pytest.raises(TypeError, match="prefix"):
        verax.text.generation(model, tokenizer, PROMPTS, ANSWERS, prefix=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="prompts: expected a list of texts"):
        verax.text.generation(model, tokenizer, "what is it")
    with pytest.raises(ValueError, match="prompts: row 1 is empty; leave it out"):
        verax.text.generation(model, tokenizer, ["is", " "], ["yes", "yes"], prefix=PREFIX)


class Bidirectional(torch.nn.Module):
    """Claims a cache, but what follows changes how the beginning is read: every place sees the sum of the row."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.config = model, model.config

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, use_cache: bool = False, past_key_values: Any = None
    ) -> Any:
        result = self.model(
            input_ids=input_ids, attention_mask=attention_mask, use_cache=use_cache, past_key_values=past_key_values
        )
        result.logits = result.logits + input_ids.sum(1)[:, None, None] * torch.linspace(0, 1, result.logits.shape[2])
        return result


def test_a_model_that_answers_otherwise_is_run_the_plain_way(tokenizer: Any) -> None:
    model = Bidirectional(gpt2(tokenizer))
    shared = SharedPrefix(model)
    ids = torch.randint(5, 20, (12, 60), generator=torch.Generator().manual_seed(0))
    ids[:, :40] = ids[0, :40]
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with torch.inference_mode():
        assert torch.equal(shared.logits(given, 3), model(**given).logits[:, -3:])
        assert not shared.usable
        honest = SharedPrefix(model.model)
    for _ in range(2):
        with torch.no_grad():
            model.model.transformer.h[0].mlp.c_fc.weight.mul_(-1)  # as an optimiser does, in place
            expected = model.model(**given).logits[:, -3:]
            torch.testing.assert_close(honest.logits(given, 3), expected, atol=1e-4, rtol=1e-5)
        assert honest.usable


def test_models_without_a_cache_go_the_plain_way(tokenizer: Any) -> None:
    """An encoder used as a language model returns no keys and values; an encoder-decoder reads the prompt elsewhere."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    encoder = seeded(
        transformers.BertLMHeadModel, transformers.BertConfig(vocab_size=len(tokenizer), is_decoder=False, **sizes)
    )
    ids = torch.full((10, 60), 7)
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    shared = SharedPrefix(encoder)
    with torch.inference_mode():
        assert torch.equal(shared.logits(given, 3), encoder(**given).logits[:, -3:])
    assert not shared.usable
    t5 = transformers.T5Config(vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    t5.decoder_start_token_id = 0
    pair = seeded(transformers.T5ForConditionalGeneration, t5)
    problem = verax.text.generation(pair, tokenizer, PROMPTS[:1], ANSWERS[:1], prefix=PREFIX)
    effect = verax.attribution.Occlusion()(problem)
    assert (effect[0] != 0).sum() <= len(PROMPTS[0].split())

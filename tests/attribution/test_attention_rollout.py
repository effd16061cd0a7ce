"""Attention rollout against a loop over places, layers and heads, and what is read where."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import verax
from verax.attribution import AttentionRollout, Random
from verax.metrics import PredictionChange
from verax.problem.text.example import small_classifier, small_tokenizer

transformers = pytest.importorskip("transformers")

TEXTS = ["the film was good and the end was fine", "bad story", "a dull tale of a bad film"]


@pytest.fixture(scope="module", name="tokenizer")
def _tokenizer() -> Any:
    return small_tokenizer(*TEXTS)


def sharpened(model: Any) -> Any:
    """Untrained attention is flat; larger weights give it something to say."""
    for name, weights in model.named_parameters():
        weights.data *= 8 if "attention" in name or "attn" in name else 1
    model.set_attn_implementation("eager")
    return model


@pytest.fixture(scope="module", name="bert")
def _bert(tokenizer: Any) -> Any:
    return sharpened(small_classifier(tokenizer))


def gpt(tokenizer: Any) -> Any:
    settings = {"n_embd": 16, "n_layer": 3, "n_head": 2, "n_positions": 32, "vocab_size": len(tokenizer)}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return sharpened(transformers.GPT2LMHeadModel(transformers.GPT2Config(**settings)).eval())


def by_hand(attentions: Any, place: int) -> np.ndarray:
    """Follow what reaches one place, from the last layer down to the tokens."""
    flow = np.zeros(attentions[0].shape[-1])
    flow[place] = 1.0
    for layer in reversed(attentions):
        heads = layer[0].double().numpy()
        below = np.zeros_like(flow)
        for query in range(len(flow)):
            for key in range(len(flow)):
                share = sum(head[query, key] for head in heads) / len(heads)
                below[key] += flow[query] * (0.5 * share + 0.5 * (query == key))
        flow = below
    return flow


@pytest.mark.parametrize("side", ["right", "left"])
def test_it_is_the_loop_over_places_layers_and_heads(tokenizer: Any, bert: Any, side: str) -> None:
    tokenizer.padding_side = side
    try:
        problem = verax.text.classification(bert, tokenizer, TEXTS)
    finally:
        tokenizer.padding_side = "right"
    first, last = (AttentionRollout(read)(problem) for read in ("first", "last"))
    for row, text in enumerate(TEXTS):
        encoded = tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            attentions = bert(**encoded, output_attentions=True).attentions
        there = problem.rows.present[row]
        for found, place in ((first, 0), (last, int(there.sum()) - 1)):
            wanted = by_hand(attentions, place)
            wanted[[0, -1]] = 0  # special tokens are never removed
            np.testing.assert_allclose(found[row, there], wanted, atol=1e-6)
            assert not found[row, ~there].any()
    assert first[0].std() > 0.01


def test_a_continuation_is_read_where_it_is_predicted(tokenizer: Any) -> None:
    model = gpt(tokenizer)
    problem = verax.text.generation(model, tokenizer, ["the film was", "bad"], ["good", "story and film"])
    inputs, found = problem.rows, AttentionRollout()(problem)
    for row, count in enumerate((1, 3)):
        ids = inputs.values[row][inputs.present[row]][None]
        with torch.inference_mode():
            attentions = model(ids, output_attentions=True).attentions
        places = range(ids.shape[1] - count - 1, ids.shape[1] - 1)
        wanted = np.mean([by_hand(attentions, place) for place in places], axis=0)
        wanted[inputs.features[row][inputs.present[row]] < 0] = 0
        np.testing.assert_allclose(found[row, inputs.present[row]], wanted, atol=1e-6)


def test_a_tagger_is_read_at_the_word_in_question(tokenizer: Any) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        tagger = transformers.BertForTokenClassification(transformers.BertConfig(vocab_size=len(tokenizer), **sizes))
    tagger = sharpened(tagger.eval())
    problem = verax.text.classification(tagger, tokenizer, TEXTS[:1], words=["film"])
    with torch.inference_mode():
        attentions = tagger(**tokenizer(TEXTS[0], return_tensors="pt"), output_attentions=True).attentions
    wanted = by_hand(attentions, 2)
    wanted[[0, -1]] = 0
    np.testing.assert_allclose(AttentionRollout()(problem)[0], wanted, atol=1e-6)


def test_it_is_rated_like_any_other_and_pools_to_words_and_sentences(tokenizer: Any, bert: Any) -> None:
    problem = verax.text.classification(bert, tokenizer, TEXTS, target=1)
    found = verax.evaluate(problem, {"rollout": AttentionRollout(), "random": Random()}, ["pc"])
    assert torch.isfinite(found["pc"].value["rollout"]).all()
    inputs = problem.rows
    features = torch.where(inputs.features >= 0, inputs.features // 2, -1)
    pairs = problem.on(replace(inputs, features=features))
    tokens = AttentionRollout()(problem)
    torch.testing.assert_close(AttentionRollout()(pairs), tokens, atol=1e-6, rtol=0)  # summed by the metrics
    by_pair = torch.zeros(len(TEXTS), int(features.max()) + 1).scatter_add_(
        1, features.clamp(min=0), torch.where(features >= 0, tokens, 0)
    )
    values = [PredictionChange()(pairs, {"r": one}).value["r"] for one in (tokens, by_pair)]
    torch.testing.assert_close(*values)


def test_the_contract_of_attributions(tokenizer: Any, bert: Any) -> None:
    """What the contract suite asks of other methods: batches, order and company of rows, cost, nothing touched."""
    problem = verax.text.classification(bert, tokenizer, TEXTS)
    both = [AttentionRollout(), AttentionRollout("last")]
    together = verax.explain(problem, both)
    assert list(together) == ["AttentionRollout(read='first')", "AttentionRollout(read='last')"]
    assert together.rows == 2 * len(TEXTS)  # the inputs themselves, and one pass for both members
    assert together.rows_backward == 0
    assert not torch.equal(*together.values())
    for one in both:
        alone = one(problem)
        torch.testing.assert_close(together[one.canonical], alone, atol=1e-7, rtol=0)
        single = one(verax.text.classification(bert, tokenizer, TEXTS, batch_size=1))
        torch.testing.assert_close(single, alone, atol=1e-6, rtol=0)
        torch.testing.assert_close(one(problem[[2, 0]]), alone[[2, 0]], atol=1e-6, rtol=0)
        torch.testing.assert_close(one(problem.with_target(0)), one(problem.with_target(1)))
        assert not alone.requires_grad
        assert not alone.is_inference()
    before = {name: value.clone() for name, value in bert.state_dict().items()}
    bert.train()
    try:
        AttentionRollout()(verax.text.classification(bert, tokenizer, TEXTS))
        assert bert.training
    finally:
        bert.eval()
    assert all(torch.equal(value, before[name]) for name, value in bert.state_dict().items())


def test_what_gives_no_attention_is_refused_with_the_way_out(tokenizer: Any, bert: Any) -> None:
    with pytest.raises(ValueError, match=r"this one computes with 'sdpa'.*set_attn_implementation"):
        AttentionRollout()(verax.text.classification(small_classifier(tokenizer), tokenizer, TEXTS))
    with pytest.raises(TypeError, match="takes ids of tokens"):
        AttentionRollout()(verax.text.embedded(verax.text.classification(bert, tokenizer, TEXTS)))
    function = verax.Scorer(lambda input_ids, **_: bert(input_ids).logits, returns="logits")
    with pytest.raises(TypeError, match="a NoneType has no configuration"):
        AttentionRollout()(verax.text.classification(function, tokenizer, TEXTS))
    t5 = transformers.T5Config(vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    t5.decoder_start_token_id = 0
    pair = transformers.T5ForConditionalGeneration(t5).eval()
    pair.set_attn_implementation("eager")
    with pytest.raises(ValueError, match="encoder-decoder models have no single rollout"):
        AttentionRollout()(verax.text.generation(pair, tokenizer, ["bad"], ["story"]))
    with pytest.raises((TypeError, ValueError), match="read"):
        AttentionRollout("middle")  # type: ignore[arg-type]

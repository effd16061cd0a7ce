"""Token attributions of transformers: closed forms on models that sum over tokens, and the models as they are."""

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import verax
from verax.metrics import DirectedPredictionChange, EffectCorrelation, Infidelity, PredictionChange
from verax.problem.text.collate import Trim
from verax.problem.text.example import small_classifier, small_tokenizer

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

TEXTS = [
    "the film was good . i liked the end .",
    "bad acting and a bad story",
    "good",
    "a very long tale that never ends and never tells what the good story was about . it was bad !",
]


@pytest.fixture(scope="module", name="tokenizer")
def _tokenizer() -> Any:
    return small_tokenizer(*TEXTS)


@pytest.fixture(scope="module", name="bert")
def _bert(tokenizer: Any) -> Any:
    return small_classifier(tokenizer)


class Bag(nn.Module):
    """The score is the sum over tokens of one weight each: everything has a closed form."""

    def __init__(self, words: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.embedding = nn.Embedding(words, 1).double()
        self.embedding.weight.data = torch.randn(words, 1, generator=generator, dtype=torch.float64)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embedding

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **others: Tensor) -> Tensor:
        return (self.embedding(input_ids)[..., 0] * attention_mask).sum(1, keepdim=True)


def bag_pc(worth: np.ndarray, gain: np.ndarray, order: np.ndarray, steps: int = 20) -> float:
    """PC of an additive game: each removed feature takes its ``gain`` away, in the given order."""
    count = len(order)
    steps = min(steps, count)
    cuts = [(t * count) // steps for t in range(steps + 1)]
    total = worth.sum()
    morf = np.array([total - gain[order[:cut]].sum() for cut in cuts])
    lerf = np.array([total - gain[order[::-1][:cut]].sum() for cut in cuts])
    weights = np.array([((steps + 1 - i) / (steps + 1)) ** 3 for i in range(steps + 1)])
    return float(((lerf - morf) * weights).sum() / weights[1:].sum())


@pytest.mark.parametrize("replace", ["mask", "pad", "unk", "delete"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_a_bag_of_words_has_a_closed_form(tokenizer: Any, replace: Any, side: str) -> None:
    model = Bag(len(tokenizer))
    scorer = verax.Scorer(model, returns="values")
    tokenizer.padding_side = side
    try:
        problem = verax.text.classification(scorer, tokenizer, TEXTS, replace=replace)
        one_by_one = verax.text.classification(scorer, tokenizer, TEXTS, replace=replace, batch_size=1)
    finally:
        tokenizer.padding_side = "right"
    rows = problem.rows
    weights = model.embedding.weight.detach()[:, 0].numpy()
    instead = 0.0 if replace == "delete" else weights[getattr(tokenizer, f"{replace}_token_id")]
    rng = np.random.default_rng(0)
    attribution = rng.normal(size=problem.inputs.shape)
    result = PredictionChange()(problem, attribution).value
    order = PredictionChange()(one_by_one[[3, 1]], attribution[[3, 1]]).value
    np.testing.assert_allclose(order, result[[3, 1]], atol=1e-6)
    for row, ids in enumerate(problem.inputs.numpy()):
        own = rows.features[row].numpy() >= 0
        there = rows.present[row].numpy()
        gain = weights[ids[own]] - instead
        ranked = np.argsort(-attribution[row][own], kind="stable")
        expected = bag_pc(weights[ids[there]], gain, ranked)
        np.testing.assert_allclose(float(result[row]), expected, atol=1e-5)  # results of ids are float32


def test_words_and_sentences_are_features(tokenizer: Any) -> None:
    scorer = verax.Scorer(Bag(len(tokenizer)), returns="values")
    problem = verax.text.classification(scorer, tokenizer, TEXTS[:2], unit="sentence")
    assert problem.rows.features[0].tolist() == [-1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, -1]
    assert problem.rows.features[1].max() == 0
    words = verax.text.classification(scorer, tokenizer, TEXTS[:1], unit="word")
    assert words.rows.features[0].tolist() == [-1, *range(10), -1]
    by_word = PredictionChange()(problem, {"two": [[1.0, 2.0], [3.0]]}).value["two"]
    assert by_word.shape == (2,)


def test_limits_and_shapley_values_of_sentences_are_exact(tokenizer: Any) -> None:
    model = Bag(len(tokenizer))
    scorer = verax.Scorer(model, returns="values")
    problem = verax.text.classification(scorer, tokenizer, TEXTS[:1], unit="sentence", replace="delete")
    result = verax.limits(problem, ["pc"])["pc"]
    weights, sentences = model.embedding.weight.detach()[:, 0], problem.rows.features[0]
    worth = [weights[problem.inputs[0][sentences == group]].sum() for group in (0, 1)]
    shapley = result.shapley[0]
    for group in (0, 1):
        torch.testing.assert_close(shapley[sentences == group].sum().double(), worth[group].double())
    assert result.exact


def test_models_of_transformers_are_taken_as_they_are(tokenizer: Any, bert: Any) -> None:
    """Keyword inputs, their output object, class names, padding and any batch size; a plain loop as the oracle."""
    problem = verax.text.classification(bert, tokenizer, TEXTS, target="positive")
    attributions = {"random": np.random.default_rng(1).normal(size=problem.inputs.shape)}
    result = PredictionChange()(problem, attributions)
    small = verax.text.classification(bert, tokenizer, TEXTS, target=1, batch_size=3)
    again = PredictionChange()(small, attributions)
    np.testing.assert_allclose(result.value["random"], again.value["random"], atol=1e-6)
    for row, text in enumerate(TEXTS):
        encoded = tokenizer(text, return_tensors="pt")
        length = encoded["input_ids"].shape[1]
        own = attributions["random"][row, 1 : length - 1]
        order = np.argsort(-own, kind="stable")
        ids = encoded["input_ids"].clone()
        with torch.inference_mode():
            for count, point in zip([0, len(order)], (0, -1), strict=True):
                ids[0, 1 + order[:count]] = tokenizer.mask_token_id
                score = bert(ids, encoded["attention_mask"]).logits.softmax(1)[0, 1]
                np.testing.assert_allclose(result.morf["random"][row, point], score, atol=1e-5)


def test_a_plain_function_and_keywords_agree(tokenizer: Any, bert: Any) -> None:
    problem = verax.text.classification(bert, tokenizer, TEXTS, target=1)

    def function(input_ids: Tensor, attention_mask: Tensor, **others: Tensor) -> Tensor:
        return bert(input_ids=input_ids, attention_mask=attention_mask, **others).logits

    given = {"a": torch.rand(problem.inputs.shape, generator=torch.Generator().manual_seed(0))}
    by_keyword = PredictionChange()(problem, given).value["a"]
    plain = verax.text.classification(verax.Scorer(function, returns="logits"), tokenizer, TEXTS, target=1)
    by_function = PredictionChange()(plain, given).value["a"]
    torch.testing.assert_close(by_keyword, by_function, atol=1e-5, rtol=0)


def test_a_deleted_token_is_not_there(tokenizer: Any, bert: Any) -> None:
    """The row without a word scores as the text without it."""
    problem = verax.text.classification(bert, tokenizer, ["good film was bad"], replace="delete", target=1)
    result = PredictionChange()(problem, torch.tensor([[0.0, 4.0, 3.0, 2.0, 1.0, 0.0]]))
    for point, rest in enumerate(("good film was bad", "film was bad", "was bad", "bad")):
        with torch.inference_mode():
            score = bert(**tokenizer(rest, return_tensors="pt")).logits.softmax(1)[0, 1]
        torch.testing.assert_close(result.morf[0, point], score, atol=1e-6, rtol=0)


def test_ragged_attributions_are_padded_whatever_they_are(tokenizer: Any, bert: Any) -> None:
    problem = verax.text.classification(bert, tokenizer, TEXTS, target=0)
    full = torch.rand(problem.inputs.shape, generator=torch.Generator().manual_seed(3))
    ragged = [row[there] for row, there in zip(full, problem.rows.present, strict=True)]
    without_special = [row[numbers >= 0].tolist() for row, numbers in zip(full, problem.rows.features, strict=True)]
    expected = PredictionChange()(problem, {"it": full}).value["it"]
    for given in (ragged, without_special, [row.half().float().numpy() for row in ragged]):
        result = PredictionChange()(problem, {"it": given}).value["it"]
        torch.testing.assert_close(result, expected, atol=1e-6, rtol=0)
    with pytest.raises(ValueError, match="row 1 has 3 numbers"):
        PredictionChange()(problem, {"it": [ragged[0], [1.0, 2.0, 3.0], *ragged[2:]]})


def test_methods_on_ids_and_on_vectors(tokenizer: Any, bert: Any) -> None:
    problem = verax.text.classification(bert, tokenizer, TEXTS[:2], target=1)
    vectors = verax.text.embedded(problem)
    ids = verax.attribution.Occlusion()(problem)
    assert ids.shape == problem.inputs.shape
    assert not ids[~problem.rows.present].any()
    on_vectors = verax.attribution.IntegratedGradients()(vectors)
    by_token = {
        "occlusion": ids,
        "random": verax.attribution.Random()(problem),
        "IG": verax.text.per_token(on_vectors),
        "norm": verax.text.per_token(verax.attribution.Gradient()(vectors), "norm"),
        "kernel": verax.attribution.KernelShap(samples=64)(problem),
    }
    result = verax.evaluate(problem, by_token, ["pc", "sensitivity_n"])
    assert all(torch.isfinite(result["pc"].value[name]).all() for name in by_token)
    with torch.inference_mode():
        gap = [
            bert(**tokenizer(text, return_tensors="pt")).logits[0, 1]
            - bert(**{**tokenizer(text, return_tensors="pt"), "input_ids": _masked(tokenizer, text)}).logits[0, 1]
            for text in TEXTS[:2]
        ]
    torch.testing.assert_close(by_token["IG"].sum(1), torch.stack(gap), atol=2e-3, rtol=0)


def _masked(tokenizer: Any, text: str) -> Tensor:
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    ids[:, 1:-1] = tokenizer.mask_token_id
    return ids


def test_dpc_needs_a_direction_and_finds_it_in_vectors(tokenizer: Any, bert: Any) -> None:
    problem = verax.text.classification(bert, tokenizer, TEXTS[:2], target=1)
    with pytest.raises(ValueError, match="explain their embeddings"):
        DirectedPredictionChange()(problem, torch.rand(problem.inputs.shape))
    vectors = verax.text.embedded(problem)
    gradient = verax.attribution.Gradient()(vectors)
    for rule in ("dot", "coherent"):
        result = DirectedPredictionChange(rule=rule)(vectors, {"g": gradient})
        assert torch.isfinite(result.value["g"]).all()
    with pytest.raises(ValueError, match="deleted token has no vector"):
        verax.text.embedded(verax.text.classification(bert, tokenizer, TEXTS, replace="delete"))


def gpt(tokenizer: Any) -> Any:
    settings = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, "vocab_size": len(tokenizer)}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(**settings)).eval()


def test_continuations_equal_the_models_own_loss(tokenizer: Any) -> None:
    model = gpt(tokenizer)
    prompts, follow = ["the film was", "bad"], ["good and very long", "story"]
    problem = verax.text.generation(model, tokenizer, prompts, follow)
    result = PredictionChange()(problem, {"r": torch.rand(problem.inputs.shape)})
    each = verax.text.generation(model, tokenizer, prompts, follow, per_token=True, target=0)
    first = PredictionChange()(each, {"r": torch.rand(problem.inputs.shape)})
    for row, (prompt, text) in enumerate(zip(prompts, follow, strict=True)):
        before, after = tokenizer(prompt)["input_ids"], tokenizer(text, add_special_tokens=False)["input_ids"]
        ids = torch.tensor([before + after])
        labels = torch.tensor([[-100] * len(before) + after])
        with torch.inference_mode():
            output = model(ids, labels=labels)
        torch.testing.assert_close(result.morf["r"][row, 0], -output.loss * len(after), atol=1e-5, rtol=0)
        own = output.logits[0, len(before) - 1].log_softmax(0)[after[0]]
        torch.testing.assert_close(first.morf["r"][row, 0], own, atol=1e-5, rtol=0)


def test_generated_continuations_and_what_the_model_cannot_see(tokenizer: Any) -> None:
    """The first token of a window of one is the only one seen: tokens before it have no effect."""
    model = gpt(tokenizer)
    problem = verax.text.generation(model, tokenizer, ["the film", "bad acting and"], max_new_tokens=3)
    assert (problem.rows.model_kwargs["labels"] >= 0).sum(1).tolist() == [3, 3]
    assert PredictionChange()(problem, {"r": torch.rand(problem.inputs.shape)}).value["r"].shape == (2,)

    class Blind(nn.Module):
        """Sees nothing of the prompt but its last token."""

        def __init__(self) -> None:
            super().__init__()
            self.model, self.config = model, model.config

        def forward(self, input_ids: Tensor, attention_mask: Tensor, use_cache: bool) -> Any:
            parts = [self.model(input_ids[:, at : at + 1]).logits for at in range(input_ids.shape[1])]
            return type("Output", (), {"logits": torch.cat(parts, dim=1)})

    problem = verax.text.generation(Blind(), tokenizer, ["the film was"], ["good"], replace="unk")
    effect = verax.attribution.Occlusion()(problem)
    assert not effect[0, :-1].any()  # before [SEP], the last token of the prompt, which is never removed


def test_encoder_decoders_score_what_follows(tokenizer: Any) -> None:
    config = transformers.T5Config(
        vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.T5ForConditionalGeneration(config).eval()
    problem = verax.text.generation(model, tokenizer, ["the film was", "bad"], ["good end", "a very long"])
    result = PredictionChange()(problem, {"r": torch.rand(problem.inputs.shape)})
    for row, (prompt, text) in enumerate((("the film was", "good end"), ("bad", "a very long"))):
        labels = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            loss = model(**tokenizer(prompt, return_tensors="pt"), labels=labels).loss
        torch.testing.assert_close(result.morf["r"][row, 0], -loss * labels.shape[1], atol=1e-5, rtol=0)


def test_a_head_with_one_output_is_a_regression(tokenizer: Any) -> None:
    model = small_classifier(tokenizer, labels=("score",))
    assert verax.Scorer(model).adapter.returns == "values"
    model.classifier.bias.data.fill_(0.5)  # a value like a probability, of which the configuration says what it is
    problem = verax.text.classification(model, tokenizer, ["good"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert PredictionChange()(problem, torch.rand(problem.inputs.shape)).morf[0, 0] > 0.3
    model.config.problem_type = "single_label_classification"
    assert verax.Scorer(model).adapter.returns == "logits"


def test_what_does_not_fit_is_refused_before_the_model_runs(tokenizer: Any, bert: Any) -> None:
    for texts, message in (
        ("one text", "expected a list of texts"),
        ([], "expected at least one text"),
        (["good", "  "], "row 1 is empty"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            verax.text.classification(bert, tokenizer, texts)
    other = small_tokenizer(*TEXTS, "and many more words that nobody knows")
    unknown = verax.text.classification(bert, other, ["nobody knows"])
    with pytest.raises(ValueError, match=r"row 0 holds the token id .* and the model has embeddings for"):
        PredictionChange()(unknown, torch.rand(unknown.inputs.shape))
    long = verax.text.classification(bert, tokenizer, ["good", "bad " * 200])
    with pytest.raises(ValueError, match="row 1 has 202 tokens, and the model takes 128"):
        PredictionChange()(long, torch.rand(long.inputs.shape))
    short = verax.text.classification(bert, tokenizer, ["good", "bad " * 200], max_length=16)
    assert short.inputs.shape == (2, 16)
    with pytest.raises(ValueError, match="does not fit inputs of shape"):
        PredictionChange()(short, torch.rand(2, 9))
    with pytest.raises(ValueError, match="the tokenizer has no mask token"):
        verax.text.classification(bert, without_mask(), ["good"], replace="mask")


def without_mask() -> Any:
    tokenizer = small_tokenizer(*TEXTS)
    tokenizer.mask_token = None
    return tokenizer


def test_padding_is_not_computed(tokenizer: Any, bert: Any) -> None:
    """No batch holds a column of padding, and a row's score does not depend on the texts beside it."""
    seen: list[Tensor] = []
    hook = bert.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["attention_mask"]), with_kwargs=True
    )
    try:
        problem = verax.text.classification(bert, tokenizer, TEXTS, target=1, batch_size=4)
        attribution = torch.rand(problem.inputs.shape, generator=torch.Generator().manual_seed(0))
        together = PredictionChange()(problem, {"a": attribution}).value["a"]
    finally:
        hook.remove()
    assert all(mask.any(0).all() for mask in seen)
    for row, text in enumerate(TEXTS):
        alone = verax.text.classification(bert, tokenizer, [text], target=1)
        own = attribution[row : row + 1][:, problem.rows.present[row]]
        value = PredictionChange()(alone, {"a": own}).value["a"]
        torch.testing.assert_close(value[0], together[row], atol=1e-5, rtol=0)


def test_draws_do_not_know_the_padding(tokenizer: Any, bert: Any) -> None:
    problem = verax.text.classification(bert, tokenizer, TEXTS, target=1)
    attribution = torch.rand(problem.inputs.shape, generator=torch.Generator().manual_seed(0))
    metric = Infidelity(perturbation="baseline", samples=30)
    together = metric(problem, {"a": attribution}).value["a"]
    alone = verax.text.classification(bert, tokenizer, TEXTS[1:2], target=1)
    own = attribution[1:2][:, problem.rows.present[1]]
    torch.testing.assert_close(metric(alone, {"a": own}).value["a"][0], together[1])


def test_drawn_attributions_do_not_know_the_padding(tokenizer: Any, bert: Any) -> None:
    """Nor do they repeat: numbers of half precision would."""
    problem, alone = (verax.text.classification(bert, tokenizer, texts, target=1) for texts in (TEXTS, TEXTS[1:2]))
    result = verax.attribution.Random()(problem)
    torch.testing.assert_close(verax.attribution.Random()(alone)[0], result[1, problem.rows.present[1]])
    assert result.half().float().ne(result)[problem.rows.features >= 0].any()
    method = verax.attribution.SmoothGrad(samples=4)
    result = method(verax.text.embedded(problem))
    own = method(verax.text.embedded(alone))
    torch.testing.assert_close(own[0], result[1, problem.rows.present[1]], atol=1e-6, rtol=1e-4)


def test_trim_keeps_what_belongs_together() -> None:
    rows = torch.tensor([[0, 5, 6, 7], [3, 4, -1, 8]])
    others = {
        "attention_mask": torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]]),
        "kinds": torch.tensor([[9, 1, 2, 3], [4, 5, 6, 7]]),
        "size": torch.tensor([1.0, 2.0]),
    }
    ids, result = Trim(0, ("kinds",))(rows, others)
    assert ids.tolist() == [[5, 6, 7], [3, 4, 8]]
    assert result["kinds"].tolist() == [[1, 2, 3], [4, 5, 7]]
    assert result["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 1]]
    assert result["size"].tolist() == [1.0, 2.0]


def test_rows_of_like_length_run_together(tokenizer: Any, bert: Any) -> None:
    """Two long texts among many short ones: most batches are short, and scores keep their place."""
    texts = [TEXTS[3] if row in (1, 7) else "good film" for row in range(12)]
    problem, single = (
        verax.text.classification(bert, tokenizer, texts, replace="delete", target=1, batch_size=size)
        for size in (8, 1)
    )
    attribution = {"a": torch.rand(problem.inputs.shape, generator=torch.Generator().manual_seed(0))}
    widths: list[int] = []
    hook = bert.register_forward_pre_hook(
        lambda module, args, kwargs: widths.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    try:
        result = PredictionChange()(problem, attribution)
    finally:
        hook.remove()
    assert sum(width <= 4 for width in widths) >= 3
    one_by_one = PredictionChange()(single, attribution)
    torch.testing.assert_close(result.morf["a"], one_by_one.morf["a"], atol=1e-6, rtol=0)
    assert len(widths) > 3


def test_short_texts_beside_one_of_many_tokens_score_no_row_twice(tokenizer: Any, bert: Any) -> None:
    texts = ["good film was bad", "story " * 80]
    problem = verax.text.classification(bert, tokenizer, texts, target=1)
    random = {"r": torch.rand(problem.inputs.shape, generator=torch.Generator().manual_seed(0))}
    assert PredictionChange()(problem, random).rows == 40 + 2 * 4


def test_scores_of_single_tokens_have_one_length(tokenizer: Any) -> None:
    prompts, follow = ["the film", "bad"], ["was good and very long", "story"]
    problem = verax.text.generation(
        gpt(tokenizer), tokenizer, prompts, follow, per_token=True, target=[4, 0], batch_size=1
    )
    random = {"r": torch.rand(problem.inputs.shape, generator=torch.Generator().manual_seed(0))}
    assert (PredictionChange()(problem, random).morf["r"][:, 0] < 0).all()
    assert not PredictionChange()(problem.with_target([0, 3]), random).morf["r"][1].any()


def test_one_token_of_a_tagger_is_a_classification(tokenizer: Any) -> None:
    """A head for tokens has classes for each place; ``score`` says which place is explained."""
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        tagger = transformers.BertForTokenClassification(config).eval()
    third = verax.Scorer(tagger, score=lambda output: output.logits[:, 3], returns="logits")
    problem = verax.text.classification(third, tokenizer, TEXTS[:2], target=1)
    result = PredictionChange()(problem, {"a": torch.rand(problem.inputs.shape)})
    for row, text in enumerate(TEXTS[:2]):
        with torch.inference_mode():
            score = tagger(**tokenizer(text, return_tensors="pt")).logits[0, 3].softmax(0)[1]
        torch.testing.assert_close(result.morf["a"][row, 0], score, atol=1e-6, rtol=0)


def test_tune_takes_texts_and_leaves_out_what_needs_gradients(tokenizer: Any, bert: Any) -> None:
    problem = verax.text.classification(bert, tokenizer, TEXTS * 2)
    result = verax.tune(problem, metric="pc", trials=4)
    assert result.table.height == 4
    assert "whole numbers" in result.left_out["SmoothGrad"]
    with pytest.raises(TypeError, match="whole numbers"):
        verax.evaluate(problem, {"SmoothGrad": verax.attribution.SmoothGrad()}, ["pc"])


def without_special_tokens(tokenizer: Any) -> Any:
    """A copy that adds no special tokens to a text."""
    bare = copy.deepcopy(tokenizer)
    bare.backend_tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="$A", pair="$A $B")
    return bare


@pytest.mark.parametrize("texts", [["good film"], ["good film was bad", "good"], [("good", "film")]], ids=len)
def test_deletion_that_leaves_nothing_is_refused_before_any_work(tokenizer: Any, bert: Any, texts: Any) -> None:
    bare = without_special_tokens(tokenizer)
    with pytest.raises(ValueError, match=r'replace: "delete" leaves no token of row 0.*Say replace="mask"'):
        verax.text.classification(bert, bare, texts, replace="delete")
    assert verax.text.classification(bert, bare, texts, replace="pad").rows.baselines == bare.pad_token_id
    assert verax.text.classification(bert, tokenizer, texts, replace="delete").rows.baselines == -1


def test_a_tokenizer_without_any_token_to_put_in_place_is_refused_before_any_work(tokenizer: Any, bert: Any) -> None:
    bare = without_special_tokens(tokenizer)
    bare.mask_token = bare.pad_token = bare.unk_token = None
    with pytest.raises(ValueError, match=r"tokenizer\.pad_token = tokenizer\.eos_token"):
        verax.text.classification(bert, bare, ["good film"])


def test_a_prompt_that_can_be_deleted_as_a_whole_is_refused_before_the_model_runs(tokenizer: Any) -> None:
    """The first token of the continuation would stand alone, and its probability be left out."""
    bare = without_special_tokens(tokenizer)
    settings = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": len(bare)}
    gpt = transformers.GPT2LMHeadModel(transformers.GPT2Config(**settings)).eval()
    gpt.register_forward_pre_hook(lambda module, args: pytest.fail("the model ran"))
    for following in (["was bad"], None):
        with pytest.raises(ValueError, match='replace: "delete" leaves no token of row 0'):
            verax.text.generation(gpt, bare, ["good film"], following, replace="delete")
    for around in ({"prefix": "story "}, {"suffix": " story"}):
        assert len(verax.text.generation(gpt, bare, ["good film"], ["was bad"], replace="delete", **around)) == 1


def test_calls_that_name_no_metric_work_for_texts(tokenizer: Any, bert: Any) -> None:
    problem = verax.text.classification(bert, tokenizer, TEXTS)
    given = {"r": torch.rand(problem.inputs.shape, generator=torch.Generator().manual_seed(0))}
    decides = {"effect_correlation_baseline": EffectCorrelation(perturbation="baseline", samples=160)}
    paper = {"pc": PredictionChange(), "infidelity": Infidelity(perturbation="baseline")}
    message = verax.evaluate(problem, given, decides | paper)
    streamed = list(verax.stream(problem, [(TEXTS, given)]))
    compared = verax.compare(problem, given).evaluation
    for result, names in (
        (verax.evaluate(problem, given), [*decides, *paper]),
        (verax.evaluate(problem, given, "paper"), list(paper)),
        (compared, list(decides)),
        *((one, [*decides, *paper]) for one in streamed),
    ):
        assert list(result) == names
        for name in names:
            torch.testing.assert_close(result[name].value["r"], message[name].value["r"], rtol=0, atol=1e-6)


def test_attributions_of_embeddings_are_told_of_per_token(tokenizer: Any, bert: Any) -> None:
    problem = verax.text.classification(bert, tokenizer, TEXTS)
    layer = torch.rand(*problem.inputs.shape, 32)  # as LayerIntegratedGradients gives it
    with pytest.raises(ValueError, match=r"if embeddings of tokens, verax\.text\.per_token\(attributions\)"):
        verax.compare(problem, {"layer": layer}, ["pc"])
    assert list(verax.compare(problem, {"layer": verax.text.per_token(layer)}, ["pc"]).evaluation) == ["pc"]


def test_the_same_question_about_other_texts_and_about_some_of_them(tokenizer: Any, bert: Any) -> None:
    settings = {"replace": "delete", "unit": "word", "target": "positive"}
    problem = verax.text.classification(bert, tokenizer, TEXTS[:2], **settings)
    everything = verax.text.classification(bert, tokenizer, TEXTS, **settings)
    given = {"occlusion": verax.attribution.Occlusion()}
    expected = PredictionChange()(everything, given).value["occlusion"]
    for part, rows in ((problem.on(TEXTS[2:]), slice(2, 4)), (everything[[3, 0]], [3, 0])):
        torch.testing.assert_close(
            PredictionChange()(part, given).value["occlusion"], expected[rows], atol=1e-6, rtol=0
        )
    assert everything[[3, 0]].rows.tokens == (everything.rows.tokens[3], everything.rows.tokens[0])


def test_reports_about_some_texts_show_these_texts(tokenizer: Any, bert: Any) -> None:
    problem = verax.text.classification(bert, tokenizer, TEXTS)
    assert ["".join(words) for words in problem[2:].given.words] == [TEXTS[2], TEXTS[3]]


def test_other_texts_need_what_was_said_of_each(tokenizer: Any, bert: Any) -> None:
    model, prompts = gpt(tokenizer), ["the film", "bad acting"]
    generated = verax.text.generation(model, tokenizer, prompts[:1], max_new_tokens=3)
    both = verax.text.generation(model, tokenizer, prompts, max_new_tokens=3)
    torch.testing.assert_close(generated.on(prompts[1:]).scores(), both.scores()[1:], atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="this problem has one continuation per prompt; make another problem"):
        verax.text.generation(model, tokenizer, prompts[:1], ["was"]).on(prompts[1:])
    with pytest.raises(ValueError, match="this problem has vectors of its own texts"):
        verax.text.embedded(verax.text.classification(bert, tokenizer, TEXTS)).on(TEXTS)

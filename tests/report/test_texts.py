"""Texts in the report of a comparison: coloured tokens that stay text."""

import re
from typing import Any

import pytest
import torch

import calls
import verax
from report.html import Page
from verax.evaluation.comparison import Comparison
from verax.evaluation.ranking import REFERENCE
from verax.problem.text.example import small_classifier, small_tokenizer
from verax.problem.text.tokens import tokenized
from verax.report.comparison import comparison_page, shown_texts

pytest.importorskip("transformers")

TEXTS = ["A good  film & <script>alert(1)</script>", "bad", "</p><b>x", "good", "film", "bad film"]


@pytest.fixture(scope="module")
def inputs() -> Any:
    return tokenized(small_tokenizer(*TEXTS), TEXTS)


@pytest.fixture(scope="module")
def comparison(inputs: Any) -> Comparison:
    model = small_classifier(small_tokenizer(*TEXTS))
    given = {
        "occlusion": calls.explained(verax.attribution.Occlusion(), model, inputs, target=1),
        "<i>": torch.rand(inputs.values.shape, generator=torch.Generator().manual_seed(0)) - 0.5,
        "nothing": torch.zeros(inputs.values.shape),
    }
    return calls.compare(model, inputs, given, ["pc"], target=1)


def test_the_most_and_the_least_faithful_stand_side_by_side(comparison: Comparison, inputs: Any) -> None:
    found = shown_texts(comparison)
    assert found is not None
    ranking = [ranked for ranked in comparison.ranking("pc") if ranked.name != REFERENCE]
    assert found["left"] == 1
    for row, columns in enumerate(found["texts"]):
        assert [one["name"] for one in columns] == [ranking[0].name, ranking[-1].name]
        assert [one["role"] for one in columns] == ["most faithful", "least faithful"]
        for one in columns:
            assert "".join(word["space"] + word["text"] for word in one["words"]) == TEXTS[row]


def test_tokens_have_the_colour_of_their_attribution(inputs: Any) -> None:
    """Shares of the largest of a text; a number for each token, whatever the padding and special tokens have."""
    bag = verax.Scorer(lambda input_ids, attention_mask, **_: input_ids.sum(1) / 9.0, returns="values")
    values = [torch.tensor([9.0, -2.0, 1.0, 0.0, 0.5, 0.0004, 9.0]), *([torch.ones(1)] * 4), torch.ones(2)]
    found = shown_texts(calls.compare(bag, inputs, {"given": values}, ["pc"]))
    assert found is not None
    assert not found["several"]
    words = found["texts"][0][0]["words"]
    assert [(word["text"], word["share"], word["side"]) for word in words] == [
        ("A", "1.00", "against"),
        ("good", "0.50", "for"),
        ("film", "0.00", ""),
        ("&", "0.25", "for"),
        ("<script>alert(1)</script>", "0.00", ""),
    ]
    assert words[0]["value"] == "\N{MINUS SIGN}2"
    assert words[2]["space"] == "  "


def test_texts_and_names_stay_text(comparison: Comparison) -> None:
    text = comparison_page(comparison)
    assert "<script" not in text
    assert "<b>x" not in text
    said = [re.sub(r"<[^>]+>", "", one) for one in re.findall(r'<p class="text">(.*?)</p>', text, re.DOTALL)]
    assert said[0] == said[1] == "A good  film &amp; &lt;script&gt;alert(1)&lt;/script&gt;"
    assert said[4] == "&lt;/p&gt;&lt;b&gt;x"
    assert len(said) == 10
    assert not Page(text).scripts


def test_every_result_has_them_and_inputs_that_are_no_texts_have_none(comparison: Comparison, tmp_path: Any) -> None:
    for result in (comparison, comparison.evaluation, comparison.evaluation["pc"]):
        result.save(tmp_path / "page.html")
        assert 'class="text"' in (tmp_path / "page.html").read_text(encoding="utf-8")
    x = torch.ones(2, 3)
    plain = calls.compare(torch.nn.Linear(3, 2), x, {"x": x}, ["pc"])
    assert shown_texts(plain) is None
    assert 'class="text"' not in comparison_page(plain)


def test_attributions_of_vectors_are_summed(inputs: Any) -> None:
    tokenizer = small_tokenizer(*TEXTS)
    vectors = verax.text.embedded(verax.text.classification(small_classifier(tokenizer), tokenizer, TEXTS, target=1))
    slopes = torch.randn(vectors.inputs.shape, generator=torch.Generator().manual_seed(1))
    examples = verax.evaluate(vectors, {"slopes": slopes}, ["pc"])["pc"].context.texts
    own = inputs.features[:5] >= 0
    torch.testing.assert_close(examples.attributions[0], slopes.sum(-1)[:5] * own)

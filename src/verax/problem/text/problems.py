"""Texts as problems: classifiers, taggers and regressors of texts, and language models."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace as changed
from typing import Any, Literal

import torch
from torch import Tensor

from verax.core.arguments import checked_choice
from verax.core.arrays import as_tensor
from verax.core.shapes import Float, Int
from verax.problem.problem import Problem, problem_of
from verax.problem.text.collate import DELETED, Trim
from verax.problem.text.continuation import TokenModel, continued
from verax.problem.text.tokens import (
    Replace,
    TextInputs,
    Unit,
    check_fast,
    check_some_left,
    checked_texts,
    token_rows,
    tokenized,
    without,
)
from verax.scoring.class_scores import Output
from verax.scoring.scorer import Scorer

_MARKS = "marks"  # the argument that marks the token in question, so that it moves with its row


class TokenLabelScore(TokenModel):
    """A token-classification model that answers with the logits of one token of each row.

    Args:
        model: A model of ``transformers`` with one set of logits per token, such as ``BertForTokenClassification``.
    """

    def forward(self, marks: Int[Tensor, "n length"], **arguments: Tensor) -> Float[Tensor, "n classes"]:
        """Logits of the marked token.

        Args:
            marks: 1 at the token in question, 0 elsewhere.
            arguments: What the model takes: ids or vectors, and the attention mask.
        """
        logits: Tensor = self.model(**arguments).logits
        return logits[torch.arange(len(logits), device=logits.device), marks.argmax(1)]


def words_in_question(
    tokenizer: Any, texts: Sequence[Any], words: Sequence[str | int], unit: Unit, replace: Replace | None
) -> TextInputs:
    """Texts with one word of each marked, as ``TokenLabelScore`` takes them; arguments as in ``classification``."""
    check_fast(tokenizer, "tokenizer: words need")
    listed, entries = checked_texts("texts", texts), list(words)
    if len(entries) != len(listed):
        raise ValueError(f"words: expected one for each of {len(listed)} texts, got {len(entries)}.")
    inputs = token_rows(tokenizer, listed, unit, replace)
    encoded = tokenizer(listed, padding=True)
    places = [_place(encoded, row, listed[row], entries[row]) for row in range(len(listed))]
    rows, chosen = torch.arange(len(listed)), torch.zeros_like(inputs.values)
    chosen[rows, places] = 1
    deleted = inputs.baselines == DELETED
    features = without(inputs.features, chosen.bool()) if deleted else inputs.features
    check_some_left(features, "texts", "beside the word in question", listed)
    trim: Trim = inputs.collate  # type: ignore[assignment]  # of ``tokenized``
    along, beside = (*trim.along, _MARKS), {**inputs.model_kwargs, _MARKS: chosen}
    return changed(inputs, features=features, model_kwargs=beside, collate=changed(trim, along=along))


def _place(encoded: Any, row: int, text: str, word: str | int) -> int:
    spans = {number: encoded.word_to_chars(row, number) for number in encoded.word_ids(row) if number is not None}
    if isinstance(word, str):
        numbers = [number for number, span in spans.items() if text[span.start : span.end] == word]
        if len(numbers) != 1:
            times = "no such word" if not numbers else f"it {len(numbers)} times"
            raise ValueError(f"words: row {row}: {word!r}: found {times} in {text!r}; its number, from 0, says which.")
        word = numbers[0]
    if word not in spans:
        raise ValueError(f"words: row {row}: expected a number from 0 to {len(spans) - 1}, got {word}.")
    return int(encoded.word_to_tokens(row, word).start)


Reduction = Literal["sum", "norm"]


def classification(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str] | Sequence[tuple[str, str]],
    *,
    words: Sequence[str | int] | None = None,
    unit: Unit = "token",
    replace: Replace | None = None,
    max_length: int | None = None,
    target: Any = None,
    output: Output = "probability",
    batch_size: int | None = None,
    device: str | torch.device | None = None,
) -> Problem:
    """A model of ``transformers`` and texts as a problem: classifiers, regressors, and taggers of single words.

    Special tokens and padding are never removed. What else the tokenizer returns is given to the model as well, which
    is called by keywords. Batches are trimmed to their longest row. Attributions have one number per token, special
    ones included, or one per feature; lists of unlike length are taken as they are.

    Args:
        model: A classifier or regressor of ``transformers``, or a ``verax.Scorer`` around one; with ``words`` one that
            has a set of logits per token, such as ``BertForTokenClassification``.
        tokenizer: Its tokenizer.
        texts: The texts, or pairs of them.
        words: For taggers, the word in question of each text: its number, from 0, or itself, where it stands in the
            text once. Its class is that of its first token. Needs a fast tokenizer.
        unit: What one feature is: a ``"token"``, a ``"word"`` (needs a fast tokenizer) or a ``"sentence"``.
        replace: What a removed token becomes: the ``"mask"``, ``"pad"`` or ``"unk"`` token, or nothing: ``"delete"``
            closes the gap, so that what follows moves up; it needs a tokenizer with special tokens, which remain where
            all others are gone. By default the first of them that the tokenizer has.
        max_length: Longer texts are cut to so many tokens; by default nothing is cut, and texts that are too long for
            the model raise.
        target: Which class score to track, as in ``verax.Problem``; so are ``output``, ``batch_size`` and ``device``.

    Example:
        >>> import verax
        >>> from verax.problem.text.example import small_classifier, small_tokenizer
        >>> tokenizer = small_tokenizer("a good film")
        >>> problem = verax.text.classification(small_classifier(tokenizer), tokenizer, ["a good film", "good"])
        >>> shap = verax.explain(problem, {"SHAP": verax.attribution.KernelShap(8)})["SHAP"]
        >>> shap.shape, problem.rows.tokens[1]
        (torch.Size([2, 5]), ('[CLS]', 'good', '[SEP]'))
    """
    settings: dict[str, Any] = {"target": target, "output": output, "batch_size": batch_size, "device": device}
    if words is None:
        read = functools.partial(tokenized, tokenizer, unit=unit, replace=replace, max_length=max_length)
        return problem_of(model, read(texts), read, **settings)
    if max_length is not None:
        raise ValueError("max_length: not supported with words, which might be cut; shorten the texts.")
    rows, again = words_in_question(tokenizer, texts, words, unit, replace), _unreadable("one word per text")
    return problem_of(Scorer(TokenLabelScore(model), returns="logits"), rows, again, **settings)


def generation(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    continuations: Sequence[str] | None = None,
    *,
    per_token: bool = False,
    max_new_tokens: int = 32,
    unit: Unit = "token",
    replace: Replace | None = None,
    prefix: str = "",
    suffix: str = "",
    target: Any = None,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
) -> Problem:
    """A language model and prompts as a problem: the score is the log-probability of the continuation.

    ``s = sum_t log p(y_t | prompt, y_1 .. y_{t-1})`` in nats, the continuation given to the model as it stands (teacher
    forcing), so that one forward pass scores all of its tokens. Only tokens of the prompt are removed.

    Args:
        model: A causal or an encoder-decoder model of ``transformers``.
        tokenizer: Its tokenizer.
        prompts: The texts that are continued.
        continuations: What follows each; begin them with a space where the tokenizer needs one. By default what the
            model generates itself, greedily.
        per_token: Keep one score for each token of the continuation; ``target`` is then its number.
        max_new_tokens: Tokens that are generated at most.
        unit: What one feature is, a ``"token"``, ``"word"`` or ``"sentence"`` of the prompt.
        replace: What a removed token becomes, as in ``classification``.
        prefix: Text that is put before every prompt and never removed: instructions, examples, what a chat template
            begins with. A causal model reads it once per call and not once per row. Needs a fast tokenizer.
        suffix: Text that is put behind every prompt and never removed.
        target: With ``per_token``, the token whose score is tracked, one for all prompts or one each.
        batch_size: Rows per model call, as in ``verax.Problem``; so is ``device``.

    Example:
        >>> import torch, transformers, verax
        >>> from verax.problem.text.example import small_tokenizer
        >>> tokenizer = small_tokenizer("the cat sat on the mat")
        >>> settings = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": len(tokenizer)}
        >>> gpt = transformers.GPT2LMHeadModel(transformers.GPT2Config(**settings)).eval()
        >>> problem = verax.text.generation(gpt, tokenizer, ["the cat"], ["sat on"])
        >>> verax.metrics.PredictionChange()(problem, {"random": torch.rand(1, 6)}).value["random"].shape
        torch.Size([1])
    """
    how: dict[str, Any] = {"per_token": per_token, "max_new_tokens": max_new_tokens, "prefix": prefix, "suffix": suffix}

    def made(texts: Sequence[str], following: Sequence[str] | None) -> tuple[Scorer, TextInputs]:
        return continued(model, tokenizer, texts, following, unit=unit, replace=replace, **how)

    scorer, rows = made(prompts, continuations)
    fixed = continuations is not None or per_token
    again = _unreadable("one continuation per prompt") if fixed else lambda other: made(other, None)[1]
    return problem_of(scorer, rows, again, target=target, batch_size=batch_size, device=device)


def embedded(problem: Problem) -> Problem:
    """The same texts as vectors, ``(N, L, D)``, which the same model takes as ``inputs_embeds``.

    A feature is a token (or word, or sentence) as before, with all its numbers. Here gradients exist and ``x - b`` has
    a direction: Integrated Gradients, SmoothGrad and DPC (rules ``"dot"`` and ``"coherent"``) work.

    Args:
        problem: Of texts. A removed token becomes the vector of its replacement, so deletion is not supported.

    Example:
        >>> import verax
        >>> from verax.problem.text.example import small_classifier, small_tokenizer
        >>> tokenizer = small_tokenizer("a good film")
        >>> problem = verax.text.classification(small_classifier(tokenizer), tokenizer, ["a good film"])
        >>> gradient = verax.attribution.Gradient()(verax.text.embedded(problem))
        >>> gradient.shape, verax.text.per_token(gradient, "norm").shape
        (torch.Size([1, 5, 32]), torch.Size([1, 5]))
    """
    rows = problem.rows
    if not isinstance(rows, TextInputs):
        raise TypeError("problem: expected one of texts, as verax.text.classification or generation gives it.")
    if rows.baselines == DELETED:
        raise ValueError('problem: a deleted token has no vector; tokenize with replace="mask", "pad" or "unk".')
    module: Any = problem.scorer.adapter.module
    embedding = module.get_input_embeddings()
    device = embedding.weight.device
    with torch.no_grad():
        values = embedding(rows.values.to(device)).to(rows.values.device)
        instead = embedding(torch.tensor(rows.baselines, device=device)).to(rows.values.device)
    along = rows.collate.along if isinstance(rows.collate, Trim) else ()
    vectors = changed(
        rows, values=values, baselines=instead, codes=False, key="inputs_embeds", collate=Trim(0, along, ids=False)
    )
    settings: dict[str, Any] = {name: getattr(problem, name) for name in ("target", "output", "batch_size", "device")}
    return problem_of(problem.scorer, vectors, _unreadable("vectors of its own texts"), **settings)


def per_token(attribution: Any, how: Reduction = "sum") -> Any:
    """One number per token from attributions of vectors.

    Args:
        attribution: ``(N, L, D)``, of a method on an ``embedded`` problem.
        how: ``"sum"``, what the numbers of a vector contribute together (of gradient times input: the dot product), or
            ``"norm"``, their Euclidean length, which has no sign.
    """
    checked_choice("how", how, ("sum", "norm"))
    values = as_tensor("attribution", attribution)
    reduced = values.sum(-1) if how == "sum" else values.norm(dim=-1)
    return reduced if isinstance(attribution, torch.Tensor) else reduced.numpy()


def _unreadable(held: str) -> Callable[[Any], TextInputs]:
    """What ``Problem.on`` does where texts alone are not enough."""

    def read(other: Any) -> TextInputs:
        raise ValueError(f"inputs: this problem has {held}; make another problem for other texts.")

    return read

"""Texts from files: a folder of ``transformers``, texts, and attributions of their tokens."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from verax.problem.files.said import ProblemFiles, check_returns, check_word
from verax.problem.problem import Problem, problem_of
from verax.problem.text.files import read_texts, read_token_attributions
from verax.problem.text.model_folder import check_folder, open_classifier, open_tokenizer
from verax.problem.text.token_labels import TokenLabelScore, words_in_question
from verax.problem.text.tokens import TextInputs, tokenized
from verax.scoring.scorer import Scorer, checked_device

UNITS = ("token", "word", "sentence")
REPLACEMENTS = ("mask", "pad", "unk", "delete")
_COLUMN = "text"
_ABOUT_TEXTS = ("text_column", "word_column", "unit", "replace")


def check_no_texts(files: ProblemFiles) -> None:
    """Raise for arguments about texts beside a model that takes none."""
    for name in _ABOUT_TEXTS:
        if getattr(files, name) is not None:
            raise ValueError(f"{name}: is about texts, and their model is a folder of transformers; got {files.model}.")


def open_texts(
    files: ProblemFiles, attributions: Sequence[Path], asked: Mapping[str, Any]
) -> tuple[Problem, dict[str, Any]]:
    """Check the folder, read and tokenize the texts, read attributions; the model itself is opened last."""
    _check(files)
    tagger = check_folder(files.model)
    if tagger != (files.word_column is not None):
        got = "there are none for each word in" if files.word_column else "say the word whose class counts, for"
        raise ValueError(f"word_column: it is about classes of words; {got} {files.model}.")
    texts = read_texts(files.inputs, files.text_column or _COLUMN)
    words = None if files.word_column is None else read_texts(files.inputs, files.word_column, "--word-column")
    tokenizer = open_tokenizer(files.model)

    def read(other: Any) -> TextInputs:
        unit: Any = files.unit or "token"
        how: Any = files.replace
        if words is None:
            return tokenized(tokenizer, other, unit=unit, replace=how)
        return words_in_question(tokenizer, other, words, unit, how)

    try:
        rows = read(texts)
    except ValueError as error:
        raise ValueError(f"{files.inputs}: {error}") from None
    given = read_token_attributions(attributions, rows)
    model = open_classifier(files.model, words=tagger)
    scorer = Scorer(TokenLabelScore(model) if tagger else model, returns=files.returns, device=files.device)
    return problem_of(scorer, rows, None if tagger else read, **asked), given


def _check(files: ProblemFiles) -> None:
    """Raise for what is wrong before anything is opened."""
    others = {
        "background": files.background,
        "features": files.features,
        "baselines": files.baselines,
        "missing": files.missing,
        "trust": files.trust or None,
    }
    hints = {"features": "; unit= says what a feature is", "baselines": "; replace= says what tokens become"}
    for argument, value in others.items():
        if value is not None:
            raise ValueError(
                f"{argument}: texts and a folder of transformers have no use for it{hints.get(argument, '')}."
            )
    check_word("unit", files.unit, UNITS)
    check_word("replace", files.replace, REPLACEMENTS)
    check_returns(files.returns)
    checked_device(files.device)

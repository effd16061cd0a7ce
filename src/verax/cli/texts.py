"""Texts on the command line: a folder of ``transformers``, texts, and attributions of their tokens."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verax.cli import complete, model_options
from verax.cli.common import checked_device_name
from verax.cli.model_inputs import Files, Subject, check_returns, open_subject

if TYPE_CHECKING:
    from verax import Scorer
    from verax.text import TextInputs

UNITS = ("token", "word", "sentence")
REPLACEMENTS = ("mask", "pad", "unk", "delete")
_COLUMN = "text"
_LEFT_OUT = (
    "DPC is left out: ids of tokens have no direction. It rates attributions of embeddings, in Python: "
    "verax.text.embedded."
)

TextColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="Texts: the column, or the key of a .jsonl line; text by default.")
]
WordColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Texts of a tagger: the column, or the key, of the word whose class counts."),
]
UnitWord = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(UNITS), help="Texts: what one feature is; token by default.", autocompletion=complete.units
    ),
]
ReplaceWord = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(REPLACEMENTS),
        help="Texts: what a removed token becomes; by default the first of these that the tokenizer has.",
        autocompletion=complete.replacements,
    ),
]


@dataclass(frozen=True)
class TextOptions:
    """What a command is given about texts, as the options say it."""

    text_column: str | None
    word_column: str | None
    unit: str | None
    replace: str | None

    def refuse(self, model: Path) -> None:
        """Refuse them all beside a model that takes no texts."""
        for name, value in vars(self).items():
            if value is not None:
                option = f"--{name.replace('_', '-')}"
                raise ValueError(
                    f"{option}: is about texts, and their model is a folder of transformers; found {model}."
                )


@dataclass(frozen=True)
class TextSubject:
    """What is explained: the same as a ``Subject``, of texts.

    Attributes:
        files: Where everything comes from.
        inputs: The texts, tokenized.
        removed: What removed tokens become, in words.
        tagger: Whether the model has classes for each token.
        background: There is none.
        metrics: What is measured where nothing is said.
        left_out: What is not, and why.
        perturbation: Infidelity's, where nothing is said.
    """

    files: Files
    inputs: "TextInputs"
    removed: str
    tagger: bool
    background: Any = None
    metrics: tuple[str, ...] = ("pc", "infidelity")
    left_out: str = _LEFT_OUT
    perturbation: str = "baseline"  # noise means nothing for ids

    @cached_property
    def scorer(self) -> "Scorer":
        """The model, opened when it is asked for: after everything else was read and found to fit."""
        from verax import Scorer
        from verax.text import TokenLabelScore
        from verax.text.model_folder import open_classifier

        model = open_classifier(self.files.model, words=self.tagger)
        whole = TokenLabelScore(model) if self.tagger else model
        return Scorer(whole, returns=self.files.returns, device=self.files.device)

    @property
    def explained(self) -> str:
        """What is explained where no target is said."""
        return "the value" if self.scorer.adapter.returns == "values" else "the predicted class"

    def attributions(self, paths: Iterable[Path]) -> dict[str, Any]:
        """Attributions of the texts from files, by name."""
        from verax.text.files import read_token_attributions

        return read_token_attributions(paths, self.inputs)


def open_explained(files: Files, options: TextOptions) -> Subject | TextSubject:
    """What is explained: texts where the model is a folder, otherwise rows.

    Args:
        files: Model and inputs.
        options: How texts are read; refused for other inputs.
    """
    if files.model.is_dir():
        return open_texts(files, options)
    options.refuse(files.model)
    return open_subject(files)


def open_texts(files: Files, options: TextOptions) -> TextSubject:
    """Check the folder, read and tokenize the texts; the model itself is opened last.

    Args:
        files: The folder of the model and the file of texts; what belongs to other kinds of models is refused.
        options: How the texts are read.
    """
    from verax.text.files import read_texts
    from verax.text.model_folder import check_folder, open_tokenizer

    _check(files, options)
    tagger = check_folder(files.model)
    if tagger != (options.word_column is not None):
        found = "there are none for each word in" if options.word_column else "say the word whose class counts, for"
        raise ValueError(f"--word-column: it is about classes of words; {found} {files.model}.")
    texts = read_texts(files.inputs, options.text_column or _COLUMN)
    words = None if options.word_column is None else read_texts(files.inputs, options.word_column, "--word-column")
    tokenizer = open_tokenizer(files.model)
    try:
        inputs = _tokenized(tokenizer, texts, words, options)
    except ValueError as error:
        raise ValueError(f"{files.inputs}: {error}") from None
    gone = inputs.baselines < 0
    removed = "nothing: they are deleted" if gone else str(tokenizer.convert_ids_to_tokens(int(inputs.baselines)))
    return TextSubject(files, inputs, removed, tagger)


def _tokenized(tokenizer: Any, texts: list[str], words: list[str] | None, options: TextOptions) -> "TextInputs":
    from verax.text import tokenized
    from verax.text.token_labels import words_in_question

    unit: Any = options.unit or "token"
    replace: Any = options.replace
    if words is None:
        return tokenized(tokenizer, texts, unit=unit, replace=replace)
    return words_in_question(tokenizer, texts, words, unit, replace)


def _check(files: Files, options: TextOptions) -> None:
    """What can be refused before anything is opened."""
    others = {
        "--background": files.background,
        "--features": files.features,
        "--baselines": files.baselines,
        "--missing": files.missing,
        "--trust-model": files.trust or None,
    }
    hints = {"--features": "; --unit says what a feature is", "--baselines": "; --replace says what tokens become"}
    for option, value in others.items():
        if value is not None:
            raise ValueError(f"{option}: texts and a folder of transformers have no use for it{hints.get(option, '')}.")
    model_options.check_word("--unit", options.unit, UNITS)
    model_options.check_word("--replace", options.replace, REPLACEMENTS)
    check_returns(files.returns)
    if files.device is not None:
        checked_device_name(files.device)

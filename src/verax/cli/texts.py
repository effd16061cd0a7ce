"""Texts on the command line: a folder of ``transformers``, texts, and attributions of their tokens."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verax.cli import complete, model_options
from verax.cli.common import checked_device_name
from verax.cli.model_inputs import Files, check_returns

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
        background: There is none.
        metrics: What is measured where nothing is said.
        left_out: What is not, and why.
        perturbation: Infidelity's, where nothing is said.
    """

    files: Files
    inputs: "TextInputs"
    removed: str
    background: Any = None
    metrics: tuple[str, ...] = ("pc", "infidelity")
    left_out: str = _LEFT_OUT
    perturbation: str = "baseline"  # noise means nothing for ids

    @cached_property
    def scorer(self) -> "Scorer":
        """The model, opened when it is asked for: after everything else was read and found to fit."""
        from verax import Scorer
        from verax.text.model_folder import open_classifier

        return Scorer(open_classifier(self.files.model), returns=self.files.returns, device=self.files.device)

    @property
    def explained(self) -> str:
        """What is explained where no target is said."""
        return "the value" if self.scorer.adapter.returns == "values" else "the predicted class"

    def attributions(self, paths: Iterable[Path]) -> dict[str, Any]:
        """Attributions of the texts from files, by name."""
        from verax.text.files import read_token_attributions

        return read_token_attributions(paths, self.inputs)


def open_texts(files: Files, options: TextOptions) -> TextSubject:
    """Check the folder, read and tokenize the texts; the model itself is opened last.

    Args:
        files: The folder of the model and the file of texts; what belongs to other kinds of models is refused.
        options: How the texts are read.
    """
    from verax.text import tokenized
    from verax.text.files import read_texts
    from verax.text.model_folder import check_folder, open_tokenizer

    _check(files, options)
    check_folder(files.model)
    texts = read_texts(files.inputs, options.text_column or _COLUMN)
    tokenizer = open_tokenizer(files.model)
    try:
        inputs = tokenized(tokenizer, texts, unit=options.unit or "token", replace=options.replace)  # type: ignore[arg-type]  # checked above
    except ValueError as error:
        raise ValueError(f"{files.inputs}: {error}") from None
    gone = inputs.baselines < 0
    removed = "nothing: they are deleted" if gone else str(tokenizer.convert_ids_to_tokens(int(inputs.baselines)))
    return TextSubject(files, inputs, removed)


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

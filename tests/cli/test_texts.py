"""Texts on the command line: the numbers are those of Python, and what cannot be opened safely is refused by name."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

import verax
from verax.cli import app
from verax.metrics import Infidelity
from verax.problem.text.example import small_classifier, small_tokenizer

transformers = pytest.importorskip("transformers")

RUN = CliRunner()
TEXTS = ["a good film , none of it bad", "null", "the <script>alert(1)</script> end was good"]
FEW = ["--metric", "pc", "--metric", "infidelity(perturbation=baseline, samples=30)"]
RNG = np.random.default_rng(0)
LENGTHS = [len(text.split()) + 2 for text in TEXTS]
GIVEN = {name: [RNG.normal(size=length).tolist() for length in LENGTHS] for name in ("ig", "lime")}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return small_tokenizer(*TEXTS)


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    found = small_classifier(tokenizer)
    for weight in found.parameters():
        weight.data *= 8 if weight.ndim > 1 else 1  # so that it is not the same to it what it reads
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tokenizer: Any, model: Any) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    model.save_pretrained(folder / "m")
    tokenizer.save_pretrained(folder / "m")
    pl.DataFrame({"text": TEXTS, "about": ["films"] * 3}).write_csv(folder / "texts.csv")
    lines(folder / "texts.jsonl", [{"review": text} for text in TEXTS])
    for name, rows in GIVEN.items():
        lines(folder / f"{name}.jsonl", rows)
        pl.DataFrame({"text": TEXTS, "attributions": rows}).write_parquet(folder / f"{name}.parquet")
    return folder


def lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(folder: Path, *options: object, model: str = "m", inputs: str = "texts.csv", given: Any = None) -> Result:
    attributions = given or [folder / f"{name}.jsonl" for name in GIVEN]
    files = ["--model", folder / model, "--inputs", folder / inputs, "--attributions", *attributions]
    return RUN.invoke(app, ["evaluate", *map(str, [*files, *options])])


def told(folder: Path, *options: object, **files: Any) -> dict[str, dict[str, float]]:
    """Means by metric and attribution."""
    few = [] if "--metric" in options else FEW
    found = run(folder, *options, *few, "--json", **files)
    assert found.exit_code == 0, found.output
    metrics = json.loads(found.stdout)["metrics"]
    return {name: {one["name"]: one["mean"] for one in metric["ranking"]} for name, metric in metrics.items()}


def wanted(problem: verax.Problem) -> dict[str, dict[str, float]]:
    """The same in Python."""
    found = verax.compare(problem, GIVEN, ["pc", Infidelity(perturbation="baseline", samples=30)])
    return {name: {one.name: one.mean for one in found.ranking(name)} for name in found.metrics}


def same(found: dict[str, dict[str, float]], other: dict[str, dict[str, float]]) -> None:
    assert found.keys() == other.keys()
    for name, ranking in found.items():
        assert ranking == pytest.approx(other[name], rel=1e-6)


def test_the_command_prints_what_python_gives(folder: Path, tokenizer: Any, model: Any) -> None:
    """From CSV, where null is a word, and JSONL; attributions as JSONL and Parquet; a class by its name."""
    by_lines = told(folder, "--target", "positive")
    same(by_lines, wanted(verax.text.classification(model, tokenizer, TEXTS, target=1)))
    assert abs(by_lines["pc"]["ig"]) > 1e-3
    tables = [folder / f"{name}.parquet" for name in GIVEN]
    again = told(folder, "--target", "1", "--text-column", "review", inputs="texts.jsonl", given=tables)
    assert again == by_lines


def test_what_a_feature_is_and_what_it_becomes(folder: Path, tokenizer: Any, model: Any) -> None:
    problem = verax.text.classification(model, tokenizer, TEXTS, unit="sentence", replace="delete")
    found = told(folder, "--unit", "sentence", "--replace", "delete", "--metric", "pc")
    same(found, {"pc": wanted(problem)["pc"]})


def test_a_line_says_why_small_changes_have_no_answer(folder: Path) -> None:
    found = run(folder)
    assert found.exit_code == 0, found.output
    assert "there is no answer: all values are categories, such as ids of tokens" in found.stdout.splitlines()[0]
    assert "Loading weights" not in found.stderr
    asked = run(folder, "--metric", "dpc")
    assert asked.exit_code == 2
    assert "explain their embeddings" in asked.stderr


def test_scores_and_a_report_are_written(folder: Path, tmp_path: Path) -> None:
    found = run(folder, "--metric", "pc", "--out", tmp_path / "r.parquet", "--report", tmp_path / "r.html")
    assert found.exit_code == 0, found.output
    assert pl.read_parquet(tmp_path / "r.parquet").shape == (9, 4)  # two attributions and a random one
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "[MASK]" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script" not in page


def test_tokens_that_are_named_must_be_the_tokenizers(folder: Path, tokenizer: Any, tmp_path: Path) -> None:
    """With special ones or without; attributions for features alone count as if special tokens had 0."""
    tokens = [tokenizer.convert_ids_to_tokens(ids) for ids in tokenizer(TEXTS)["input_ids"]]
    full = [[0.0, *row[1:-1], 0.0] for row in GIVEN["ig"]]
    short = lines(
        tmp_path / "short.jsonl",
        [{"tokens": t[1:-1], "attributions": row[1:-1]} for t, row in zip(tokens, full, strict=True)],
    )
    named = lines(
        tmp_path / "named.jsonl", [{"tokens": t, "attributions": row} for t, row in zip(tokens, full, strict=True)]
    )
    found = told(folder, "--metric", "pc", given=[short, named])["pc"]
    assert found["short"] == found["named"]
    tokens[2][1] = "The"
    other = lines(
        tmp_path / "other.jsonl", [{"tokens": t, "attributions": row} for t, row in zip(tokens, full, strict=True)]
    )
    said = run(folder, given=[other])
    assert (said.exit_code, said.stdout) == (2, "")
    assert "row 2 is about other tokens: 'The' where the model's tokenizer has 'the' (place 1)" in said.stderr


UNUSABLE: dict[str, tuple[dict[str, Any], str]] = {
    "another column": ({"text_column": "review"}, "expected a column 'review' with texts, got text, about"),
    "an unknown unit": ({"unit": "letter"}, "--unit: expected one of 'token', 'word', 'sentence', got 'letter'"),
    "an unknown replacement": (
        {"replace": "zero"},
        "--replace: expected one of 'mask', 'pad', 'unk', 'delete', got 'zero'",
    ),
    "baselines": (
        {"baselines": "mean"},
        "--baselines: texts and a folder of transformers have no use for it; --replace",
    ),
    "code": ({"trust_model": None}, "--trust-model: texts and a folder"),
}


@pytest.mark.parametrize(("options", "message"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_options_that_do_not_fit_are_refused(folder: Path, options: dict[str, Any], message: str) -> None:
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value) if word]
    found = run(folder, *words)
    assert (found.exit_code, found.stdout, found.stderr.count("\n")) == (2, "", 1)
    assert message in found.stderr


def test_options_about_texts_need_a_folder(folder: Path) -> None:
    found = run(folder, "--unit", "word", model="m.onnx")
    assert "--unit: is about texts, and their model is a folder of transformers" in found.stderr


WRONG_ROWS: dict[str, tuple[Any, str]] = {
    "too few texts": ([[1.0]], "expected one row for each of 3 texts, got 1"),
    "another length": ([GIVEN["ig"][0], [1.0, 2.0], GIVEN["ig"][2]], "wrong.jsonl: attributions: row 1 has 2 numbers"),
    "words": ([["a"], [1.0], [1.0]], "line 1: expected a list of numbers"),
    "no finite number": ([[float("nan")]], "line 1: expected finite numbers, got nan"),
    "no attributions": ([{"scores": [1.0]}], "or an object with one as 'attributions'"),
    "no JSON": ("[1.0,\n", "line 1 is no JSON"),
    "nothing": ("\n", "expected a line for each text, got none"),
}


@pytest.mark.parametrize(("rows", "message"), WRONG_ROWS.values(), ids=WRONG_ROWS.keys())
def test_attributions_that_do_not_fit_are_refused_before_the_model_is_opened(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Any, message: str
) -> None:
    monkeypatch.setattr(transformers.AutoModelForSequenceClassification, "from_pretrained", None)
    wrong = tmp_path / "wrong.jsonl"
    if isinstance(rows, str):
        wrong.write_text(rows, encoding="utf-8")
    else:
        lines(wrong, rows)
    found = run(folder, given=[wrong])
    assert (found.exit_code, found.stdout) == (2, "")
    assert message in found.stderr


def config(folder: Path, name: str = "config.json", **entries: Any) -> None:
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


CODE = {"auto_map": {"AutoModelForSequenceClassification": "modeling.Model"}, "model_type": "own"}
INDEX = json.dumps({"weight_map": {"a": "../model.safetensors"}})

KERNELS = (
    ("attn_implementation", "org/repo"), ("_attn_implementation", "org/repo:attention"),
    ("_attn_implementation_internal", "org/repo"), ("attn_implementation", "paged|org/repo"),
    ("attn_implementation", {"": "sdpa", "text_config": "org/repo"}), ("attn_implementation", ["org/repo"]),
    ("experts_implementation", "org/repo"), ("text_config", {"attn_implementation": "org/repo"}),
)  # fmt: skip
ELSEWHERE = (
    ("quantization_config", {"quant_method": "bitsandbytes", "load_in_4bit": True}), ("use_kernels", True),
    ("backbone", "org/repo"), ("use_timm_backbone", True), ("transformers_weights", "../w.safetensors"),
    ("base_model_name_or_path", "org/repo"),
)  # fmt: skip
ABSURD = (
    ("num_attention_heads", 0), ("num_attention_heads", 3), ("num_attention_heads", "many"), ("hidden_size", 0),
    ("hidden_size", -1), ("vocab_size", -5), ("hidden_act", "none of them"), ("model_type", "none of them"),
    ("max_position_embeddings", -1), ("layer_norm_eps", "small"),
)  # fmt: skip

# What is done to a folder, and what is then said of it.
SPOILT: dict[str, tuple[Callable[[Path], Any], str]] = {
    "pickled weights": (
        lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
        "its weights are pickled (pytorch_model.bin), which can run code and is not opened",
    ),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "there is no model.safetensors in it"),
    "damaged weights": (
        lambda folder: (folder / "model.safetensors").write_bytes(b"junk"),
        "its model cannot be opened",
    ),
    "weights elsewhere": (
        lambda folder: (folder / "model.safetensors.index.json").write_text(INDEX),
        "expected weights in .safetensors files beside config.json, got ../model.safetensors",
    ),
    "weights of another shape": (
        lambda folder: config(folder, hidden_size=16),
        "its weights do not fit config.json: bert.embeddings.LayerNorm.bias is missing or has another shape",
    ),
    "an adapter": (
        lambda folder: (folder / "adapter_config.json").write_text("{}"),
        "it holds an adapter of a model; merge it",
    ),
    "no config": (lambda folder: (folder / "config.json").unlink(), "there is no config.json in it"),
    "code": (
        lambda folder: config(folder, **CODE),
        "config.json asks for code of its own (auto_map), which is never run",
    ),
    "code of a tokenizer": (
        lambda folder: config(folder, "tokenizer_config.json", auto_map={"AutoTokenizer": ["tokens.Own", None]}),
        "tokenizer_config.json asks for code of its own",
    ),
    **{
        f"{key}={value}": (functools.partial(config, **{key: value}), message)
        for entries, message in (
            (KERNELS, "config.json asks for a kernel ("),
            (ELSEWHERE, "which asks for weights or code that are not in the folder or not plain"),
            (ABSURD, " cannot be opened ("),
        )
        for key, value in entries
    },
    "code in a part": (
        lambda folder: config(folder, text_config={"auto_map": {"AutoModel": "org/repo--modeling.Model"}}),
        "config.json asks for code of its own (auto_map)",
    ),
    "too many layers": (lambda folder: config(folder, num_hidden_layers=10**12), "expected at most 10,000 in num_hid"),
    "another head": (
        lambda folder: config(folder, architectures=["GPT2LMHeadModel"]),
        "got GPT2LMHeadModel. Language models are scored in Python: verax.text.generation",
    ),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "its tokenizer cannot be opened"),
}


@pytest.mark.parametrize(("spoil", "message"), SPOILT.values(), ids=SPOILT.keys())
def test_folders_that_are_not_opened(
    folder: Path, tmp_path: Path, tokenizer: Any, model: Any, spoil: Callable[[Path], Any], message: str
) -> None:
    model.save_pretrained(tmp_path / "m")
    tokenizer.save_pretrained(tmp_path / "m")
    spoil(tmp_path / "m")
    found = run(folder, model=str(tmp_path / "m"))
    assert (found.exit_code, found.stdout) == (2, "")
    assert message in found.stderr, found.stderr
    assert found.stderr.count("\n") == 1


def test_a_head_that_was_never_trained_is_refused(folder: Path, tmp_path: Path, tokenizer: Any, model: Any) -> None:
    """A body saved alone would get a head of random weights."""
    model.bert.save_pretrained(tmp_path / "m")
    tokenizer.save_pretrained(tmp_path / "m")
    config(tmp_path / "m", architectures=["BertForSequenceClassification"])
    found = run(folder, model=str(tmp_path / "m"))
    assert found.exit_code == 2
    assert "classifier.bias is missing or has another shape" in found.stderr


def test_a_regression_head_gives_its_value(folder: Path, tmp_path: Path, tokenizer: Any) -> None:
    small_classifier(tokenizer, labels=("stars",)).save_pretrained(tmp_path / "m")
    tokenizer.save_pretrained(tmp_path / "m")
    found = run(folder, "--metric", "pc", "--report", tmp_path / "r.html", model=str(tmp_path / "m"))
    assert found.exit_code == 0, found.output
    assert "the value" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_tune_takes_a_folder(folder: Path) -> None:
    options = ["--model", folder / "m", "--inputs", folder / "texts.csv", "--methods", "occlusion,random", "--json"]
    found = RUN.invoke(app, ["tune", *map(str, options)])
    assert found.exit_code == 0, found.output
    assert list(json.loads(found.stdout)["scores"]) == ["effect_correlation_baseline"]  # tokens have no small change


def test_a_tagger_follows_the_word_of_a_column(folder: Path, tokenizer: Any, tmp_path: Path) -> None:
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    tagger = transformers.BertForTokenClassification(transformers.BertConfig(vocab_size=len(tokenizer), **small)).eval()
    tagger.save_pretrained(tmp_path / "tagger")
    tokenizer.save_pretrained(tmp_path / "tagger")
    words = ["film", "null", "good"]
    pl.DataFrame({"text": TEXTS, "word": words}).write_csv(tmp_path / "words.csv")
    given = [folder / f"{name}.jsonl" for name in GIVEN]
    files = {"model": "tagger", "inputs": "words.csv", "given": given}
    found = told(tmp_path, "--word-column", "word", "--target", "1", **files)
    same(found, wanted(verax.text.classification(tagger, tokenizer, TEXTS, words=words, target=1)))
    for option, message in ((), "say the word whose class counts"), (("--word-column", "words"), "--word-column says"):
        refused = run(tmp_path, *option, **files)
        assert (refused.exit_code, message in refused.stderr) == (2, True), refused.stderr
    refused = run(folder, "--word-column", "about")
    assert (refused.exit_code, "there are none for each word" in refused.stderr) == (2, True)


def test_an_audit_of_texts_is_that_of_python(tmp_path: Path, folder: Path, tokenizer: Any, model: Any) -> None:
    """Infidelity takes the perturbation that ids can have, and metrics that need a direction are left out."""
    texts = [f"a good film {'bad ' * count}" for count in range(8)]
    pl.DataFrame({"text": texts}).write_csv(tmp_path / "texts.csv")
    files = ["--model", folder / "m", "--inputs", tmp_path / "texts.csv", "--unit", "word", "--json"]
    asked = ["--metric", "pc", "--metric", "dpc", "--metric", "infidelity(perturbation=baseline)"]
    found = RUN.invoke(app, ["audit", *map(str, [*files, *asked, "--trial", "tells_apart"])])
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    metrics = ["pc", "dpc", Infidelity(perturbation="baseline")]
    problem = verax.text.classification(model, tokenizer, texts, unit="word")
    own = verax.audit(problem, metrics=metrics, trials=["tells_apart"])
    assert told["sentences"] == list(own.sentences)
    assert {one["metric"] for one in told["findings"]} == {"pc", "infidelity"}
    assert [one["value"] for one in told["findings"]] == pytest.approx(own.to_frame()["value"].to_list(), nan_ok=True)
    assert any(line.startswith("Left out: dpc") for line in told["left_out"])


def test_an_audit_refuses_what_is_about_texts_without_any() -> None:
    found = RUN.invoke(app, ["audit", "--text-column", "review"])
    assert found.exit_code == 2
    assert "--text-column: it belongs to a model; pass --model FILE as well." in found.stderr


def test_the_hub_is_never_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline mode is on for the load of both, and as before afterwards."""
    hub = pytest.importorskip("huggingface_hub")
    seen = []
    for kind in ("AutoTokenizer", "AutoModelForSequenceClassification"):
        opener = getattr(transformers, kind).from_pretrained

        def watched(*given: Any, opener: Any = opener, **options: Any) -> Any:
            seen.append(hub.is_offline_mode())
            return opener(*given, **options)

        monkeypatch.setattr(getattr(transformers, kind), "from_pretrained", watched)
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)
    assert run(folder).exit_code == 0
    assert seen
    assert all(seen)
    assert not hub.is_offline_mode()

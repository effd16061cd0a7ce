"""``verax check``: freeze and run files, outcomes as exit codes, a page that ``verax verify`` computes again."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

import verax
from verax.checking.files import CheckFile, CheckFileError, changes, hashes
from verax.checking.record import read_record
from verax.cli import app
from verax.models import save
from verax.paper.models import Linear

CHECK = """\
[problem]
model = "model.safetensors"
inputs = "rows.csv"
background = "train.npy"
target = 1

[explanation]
file = "shap.csv"

[compared_with]
random = "Random(seed=4)"

[[requirements]]
metric = "effect_correlation(perturbation=baseline, samples=40)"
threshold = "better than random"
justification = "An explanation that chance can match explains nothing."

[[requirements]]
metric = "false_reasons(k=2)"
threshold = 0.1
justification = "One letter in ten."
segments = { column = "region" }
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A linear model, 700 rows with a column that is no feature, and their exact contributions."""
    draws = np.random.default_rng(0)
    rows = draws.normal(size=(700, 4)).astype(np.float32)
    model = Linear(4).build(seed=0)
    save(tmp_path / "model.safetensors", model, Linear(4), dataset=None, hyperparameters={}, metrics={}, seed=0)
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "train.npy", rows[:50])
    problem = verax.open_problem(tmp_path / "model.safetensors", tmp_path / "rows.npy", target=1)
    (weights,) = (entry.detach().numpy() for entry in model.parameters() if entry.ndim == 2)
    exact = rows * (weights[1] - weights[0] if len(weights) > 1 else weights[0])
    assert len(problem) == 700
    _write(tmp_path / "shap.csv", exact)
    np.savetxt(tmp_path / "region.csv", draws.integers(0, 2, 700), header="region", comments="", fmt="%d")
    _write(tmp_path / "rows.csv", rows)
    text = CHECK.replace('{ column = "region" }', '{ column = "region", file = "region.csv" }')
    (tmp_path / "check.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _write(path, values):
    np.savetxt(path, values, delimiter=",", header="a,b,c,d", comments="")


def run(*args):
    return CliRunner().invoke(app, ["check", *map(str, args)])


def test_a_frozen_check_passes_with_a_line_per_requirement_a_page_and_junit(folder):
    frozen = run("freeze", "check.toml")
    assert frozen.exit_code == 0, frozen.output
    result = run("run", "check.toml")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[:4]] == ["passed"] * 4
    assert "(region: 0)" in lines[1]
    page = (folder / "check.html").read_text()
    assert "Nothing has changed since" in page
    assert "One letter in ten." in page
    assert "0, of the draw of inputs and of a random explanation" in page
    assert "Annex IV, 2(g)" in page
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="http', page)
    suite = ElementTree.parse(folder / "check.xml").getroot()[0]  # noqa: S314  # our own
    assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["3", "0", "0"]


@pytest.mark.parametrize(
    ("threshold", "code", "outcome"), [("0.2", 0, "passed"), ("1.0", 4, "failed"), ("0.99", 5, "undecided")]
)
def test_exit_codes(folder, threshold, code, outcome):
    text = f"""{CHECK.split("[[", maxsplit=1)[0]}
[[requirements]]
metric = "effect_correlation(perturbation=baseline, samples=40)"
direction = "{"at most" if code == 4 else "at least"}"
threshold = {"0.5" if code == 4 else threshold}
justification = "why"
inputs = 60
"""
    (folder / "check.toml").write_text(text)
    result = run("run", "check.toml", "--json")
    assert result.exit_code == code, result.output
    facts = json.loads(result.stdout)
    assert facts["outcome"] == outcome
    assert facts["requirements"][0]["inputs"] == 60
    assert facts["frozen"] is None
    assert "Not frozen" in (folder / "check.html").read_text()


def test_the_word_run_may_be_left_out(folder):
    assert run("check.toml").exit_code == 0


CHANGES = {
    "check": lambda folder: (folder / "check.toml").write_text((folder / "check.toml").read_text() + "# more\n"),
    "model": lambda folder: _flip(folder / "model.safetensors"),
    "model/model.json": lambda folder: _flip(folder / "model.json"),
    "inputs": lambda folder: _flip(folder / "rows.csv"),
    "background": lambda folder: _flip(folder / "train.npy"),
    "explanation": lambda folder: _flip(folder / "shap.csv"),
    "requirements[1].segments": lambda folder: _flip(folder / "region.csv"),
}


def _flip(path: Path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_byte_of_anything_shows(folder, name):
    assert run("freeze", "check.toml").exit_code == 0
    CHANGES[name](folder)
    result = run("run", "check.toml")
    assert result.exit_code == 2
    assert f"changed since it was frozen on 20\\d\\d-.*: {name}"[:20] in result.stderr
    assert name in result.stderr
    assert not (folder / "check.html").exists()


def test_changed_weights_of_an_onnx_model_show(folder):
    """They lie in files of their own, which the graph names: an entry of a key and a value, each with its length."""
    (folder / "model.onnx").write_bytes(b"\x0a\x08location\x12\x09below/w.w")
    (folder / "below").mkdir()
    (folder / "below" / "w.w").write_bytes(b"weights")
    (folder / "check.toml").write_text(CHECK.replace("model.safetensors", "model.onnx"))
    check = CheckFile.read("check.toml")
    before = hashes(check)
    _flip(folder / "below" / "w.w")
    assert changes(before, hashes(check)) == ["model/below/w.w"]


def test_attributions_of_texts_in_lines_of_json_are_frozen(folder):
    for old, name in (('file = "shap.csv"', "explanation"), ('random = "Random(seed=4)"', "compared_with.random")):
        (folder / "check.toml").write_text(CHECK.replace(old, f'{old.split(" = ")[0]} = "words.jsonl"'))
        (folder / "words.jsonl").write_text("[0.5, 1]\n")
        check = CheckFile.read("check.toml")
        before = hashes(check)
        (folder / "words.jsonl").write_text("[0.5, 2]\n")
        assert changes(before, hashes(check)) == [name]


OWN = """\
from dataclasses import dataclass
from verax.attribution import Attribution
from {package} import sign

@dataclass(frozen=True)
class Own{number}(Attribution):
    local = False
    modalities = ("tabular",)

    def explain(self, problem):
        return sign.SIGN * problem.inputs
"""


@pytest.fixture
def own_package(folder, request):
    """A package with a method of one's own, which takes a number from the module beside it; and a check of it."""
    number = abs(hash(request.node.name))
    name = f"own_{number}"
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("")
    (folder / name / "sign.py").write_text("SIGN = 1\n")
    (folder / name / "methods.py").write_text(OWN.format(package=name, number=number))
    text = CHECK.replace('file = "shap.csv"', f'method = "Own{number}"')
    (folder / "check.toml").write_text(text.split('[[requirements]]\nmetric = "false')[0])
    return name


def test_a_changed_byte_of_code_of_ones_own_shows_wherever_its_package_has_it(folder, own_package):
    assert run("freeze", "check.toml", "--import", f"{own_package}.methods").exit_code == 0
    assert run("run", "check.toml", "--import", f"{own_package}.methods").exit_code in (0, 4, 5)
    (folder / own_package / "sign.py").write_text("SIGN = 2\n")
    result = run("run", "check.toml", "--import", f"{own_package}.methods")
    assert result.exit_code == 2
    assert f": import {own_package}.methods. Freeze" in result.stderr
    assert run("run", "check.toml").exit_code == 2  # the lock names code that is not imported now


def test_a_changed_check_runs_if_it_must_and_the_page_says_so(folder):
    run("freeze", "check.toml")
    CHANGES["check"](folder)
    result = run("run", "check.toml", "--changed", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["changed"] == ["check"]
    assert "Changed since: check." in (folder / "check.html").read_text()


def test_a_damaged_lock_is_an_error(folder):
    run("freeze", "check.toml")
    _flip(folder / "check.toml.lock")
    (folder / "check.toml.lock").write_text((folder / "check.toml.lock").read_text()[:-40])
    result = run("run", "check.toml")
    assert result.exit_code == 2
    assert "freeze the check again" in result.stderr


def test_one_worker_or_two_give_the_same_bits(folder):
    """700 inputs are measured in two blocks."""
    more = '\n[[requirements]]\nmetric = "reason_stability(over=neighbours)"\nthreshold = 0.3\njustification = "why"\n'
    (folder / "check.toml").write_text((folder / "check.toml").read_text() + more)
    run("freeze", "check.toml")
    result = [run("run", "check.toml", "--json", "--workers", count) for count in (1, 2)]
    assert [entry.exit_code for entry in result] == [0, 0], [entry.output for entry in result]
    first, second = (json.loads(entry.stdout) for entry in result)
    assert first["requirements"] == second["requirements"]
    assert first["rows"] == second["rows"]
    assert len({line["digest"] for line in first["requirements"]}) == 4


def test_verify_computes_a_page_again(folder):
    run("freeze", "check.toml")
    run("run", "check.toml", "--report", folder / "filed" / "page.html")
    result = CliRunner().invoke(app, ["verify", str(folder / "filed" / "page.html")])
    assert result.exit_code == 0, result.output
    assert "agrees: 3 lines of page.html, compared bit for bit" in result.stdout
    _flip(folder / "shap.csv")
    changed = CliRunner().invoke(app, ["verify", str(folder / "filed" / "page.html")])
    assert changed.exit_code == 1
    assert "explanation: its content differs from that of the page" in changed.stdout
    assert "digest" in changed.stdout


def test_a_page_that_was_changed_is_not_verified(folder):
    run("run", "check.toml")
    page = folder / "check.html"
    page.write_text(page.read_text().replace("Passed", "Perfect"))
    result = CliRunner().invoke(app, ["verify", str(page)])
    assert result.exit_code == 2
    assert "changed since it was written" in result.stderr
    (folder / "other.html").write_text("<html></html>")
    result = CliRunner().invoke(app, ["verify", str(folder / "other.html")])
    assert result.exit_code == 2
    assert "expected the page of a check" in result.stderr


def test_text_of_the_check_file_is_shown_and_not_run(folder):
    text = (folder / "check.toml").read_text().replace("One letter", "</pre><script>alert(1)</script> One letter")
    (folder / "check.toml").write_text(text)
    assert run("run", "check.toml").exit_code == 0
    assert "<script" not in (folder / "check.html").read_text()
    assert "<script>alert(1)</script>" in read_record(folder / "check.html")["text"]


MISTAKES = {
    "problme": ("[problem]", "[problme]", "problme: no such key; .* did you mean 'problem'"),
    "no file": ('"shap.csv"', '"shape.csv"', "shape.csv: there is no such file"),
    "no method": ('file = "shap.csv"', 'method = "Shap"', r"explanation\.method: Shap: method: expected"),
    "both": ('file = "shap.csv"', 'file = "shap.csv"\nmethod = "KernelShap"', "expected either file or method"),
    "a setting": ("target = 1", "targett = 1", r"problem\.targett: no such key; .* did you mean 'target'"),
    "no reason": ('"One letter in ten."', '""', r"requirements\[1\]\.justification: say in words why"),
    "a metric": ("false_reasons", "false_reason", r"requirements\[1\]\.metric: .*did you mean 'false_reasons'"),
    "a column": ('column = "region"', 'column = "town"', "segments.column: expected region, got 'town'"),
    "a model by number": ('"model.safetensors"', "3", r"problem\.model: expected text, got 3"),
    "a replacement": ("target = 1", "replacement = 3", r"problem\.replacement: expected text, got 3"),
    "trust in words": ("target = 1", 'trust = "no"', r"problem\.trust: expected true or false, got 'no'"),
    "a file of segments": ('"region.csv"', "3", r"segments\.file: expected a file, got int"),
    "no toml": ("[problem]", "[problem", "cannot be read as TOML"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_is_wrong_in_a_file_is_said_in_one_line_and_nothing_is_written(folder, name):
    old, new, message = MISTAKES[name]
    path = folder / "check.toml"
    path.write_text(path.read_text().replace(old, new))
    result = run("run", "check.toml")
    assert result.exit_code == 2
    assert re.search(message, result.stderr), result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (folder / "check.html").exists()


def test_the_column_of_a_segment_may_be_one_of_the_inputs(folder):
    text = CHECK.replace('{ column = "region" }', '{ column = "a", edges = [0.0] }')
    (folder / "check.toml").write_text(text)
    result = run("run", "check.toml", "--json")
    segments = [line["segment"] for line in json.loads(result.stdout)["requirements"]]
    assert segments == ["all", "a: below 0", "a: 0 or more"]


def test_a_check_of_a_method_needs_no_attributions(folder):
    text = CHECK.replace('file = "shap.csv"', 'method = "KernelShap(samples=16)"\nname = "exact"')
    (folder / "check.toml").write_text(text.split('[[requirements]]\nmetric = "false')[0])
    result = run("run", "check.toml", "--json")
    assert json.loads(result.stdout)["requirements"][0]["explanation"] == "exact"


def test_settings_of_all_requirements_are_said_once(folder):
    (folder / "check.toml").write_text(
        f"level = 0.9\ninputs = 50\n{CHECK.split('[[requirements]]', maxsplit=1)[0]}"
        + '[[requirements]]\nmetric = "pc"\nthreshold = 0.0\njustification = "why"\n'
        + '[[requirements]]\nmetric = "pc"\nthreshold = 0.0\njustification = "why"\ninputs = 70\n'
    )
    check = CheckFile.read("check.toml")
    assert [(entry.level, entry.inputs) for entry in check.requirements] == [(0.9, 50), (0.9, 70)]
    (folder / "check.toml").write_text(CHECK.split("[[requirements]]", maxsplit=1)[0])
    with pytest.raises(CheckFileError, match=r"check\.toml: requirements: expected at least one table"):
        CheckFile.read("check.toml")

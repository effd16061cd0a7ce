"""Searches on disk: a search that was killed goes on as if it had not been, and foreign files are refused."""

import functools
import random
import signal
import subprocess
import sys
import time

import polars as pl
import pytest
import torch

import verax
from calls import tune
from tuning.conftest import LIME, SIX, small_model, some_inputs
from verax.tuning import measure, store

TRIALS = 36  # three batches
METHODS = (*LIME, "vargrad")
METRICS = {"dpc": "dpc", "three": ("dpc", "pc", "cost")}


def told(found):
    return found.table.drop("rows", "seconds")


def stopped_after(batches):
    """A function to be called after each batch, which stops a search as a kill would."""
    lines = []

    def tell(line):
        lines.append(line)
        if len(lines) == batches:
            raise SystemExit("killed")

    return tell


@pytest.fixture
def inputs():
    """Enough for two rounds."""
    return some_inputs(40)


@pytest.fixture(scope="module")
def undisturbed():
    """Whole searches by the name of their metric, each made once."""
    return functools.cache(
        lambda name: tune(small_model(), some_inputs(40), METHODS, metric=METRICS[name], trials=TRIALS)
    )


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("name", METRICS)
def test_a_killed_search_goes_on_as_if_it_had_not_been(model, inputs, tmp_path, undisturbed, batches, name):
    metric, whole = METRICS[name], undisturbed(name)
    path = tmp_path / "trials.parquet"
    with pytest.raises(SystemExit):
        tune(
            model,
            inputs,
            METHODS,
            metric=metric,
            trials=TRIALS,
            store=path,
            progress=stopped_after(batches),
        )
    resumed = tune(model, inputs, METHODS, metric=metric, trials=TRIALS, store=path)
    assert told(resumed).equals(told(whole))
    assert resumed.best == whole.best
    assert resumed.stopped == whole.stopped == "trials"


def test_a_kill_in_the_middle_of_a_batch_loses_that_batch_only(model, inputs, tmp_path, monkeypatch, undisturbed):
    path, calls = tmp_path / "trials.parquet", []
    whole = measure.Bench._measure

    def broken(self, candidates, rows):
        calls.append(rows)
        if any(one.number >= 20 for one in candidates) and rows.start > 0:
            raise SystemExit("killed")
        whole(self, candidates, rows)

    with monkeypatch.context() as patch:
        patch.setattr(measure.Bench, "_measure", broken)
        with pytest.raises(SystemExit):
            tune(model, inputs, METHODS, trials=TRIALS, store=path)
    assert pl.read_parquet(path).height == 16
    assert told(tune(model, inputs, METHODS, trials=TRIALS, store=path)).equals(told(undisturbed("dpc")))


def test_a_process_that_is_killed_leaves_a_file_that_can_be_read(tmp_path):
    path = tmp_path / "trials.parquet"
    program = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from tuning.conftest import LIME, small_model, some_inputs\n"
        "import verax\n"
        "problem = verax.Problem(small_model(), some_inputs(), explained='logit')\n"
        "verax.tune(problem, LIME, metric='dpc', trials=54, store=sys.argv[1])\n"
    )
    tests = str(__file__).rsplit("/tuning/", 1)[0]
    process = subprocess.Popen([sys.executable, "-c", program, str(path), tests])
    try:
        while not path.exists() and process.poll() is None:
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    finally:
        process.wait()
    done = pl.read_parquet(path).height
    found = tune(small_model(), some_inputs(), LIME, trials=done, store=path)
    assert found.table.height == done
    assert found.stopped == "trials"


def test_going_on_measures_nothing_again(model, inputs, tmp_path):
    path = tmp_path / "trials.parquet"
    first = tune(model, inputs, LIME, trials=16, store=path)
    scorer = verax.Scorer(model)
    again = tune(scorer, inputs, LIME, trials=16, store=path)
    assert scorer.rows == len(inputs)  # to see that it is the same model
    assert again.table.equals(first.table)
    more = tune(model, inputs, LIME, trials=24, store=path)
    assert more.table.head(16)["configuration"].equals(first.table["configuration"])
    assert more.table.height == 24
    assert more.rows > first.rows


def test_ctrl_c_keeps_what_was_done(model, inputs, tmp_path, monkeypatch):
    whole, calls = measure.Bench._measure, []

    def interrupted(self, candidates, rows):
        calls.append(rows)
        if max(one.number for one in candidates) >= 16 and rows.start > 0:
            raise KeyboardInterrupt
        whole(self, candidates, rows)

    one_batch = tune(model, inputs, LIME, trials=16)
    monkeypatch.setattr(measure.Bench, "_measure", interrupted)
    found = tune(model, inputs, LIME, trials=TRIALS, store=tmp_path / "trials.parquet")
    assert found.stopped == "interrupted"
    assert told(found).equals(told(one_batch))
    assert "interrupted" in str(found)


def test_ctrl_c_before_anything_was_done_is_passed_on(model, inputs, monkeypatch):
    def interrupted(self, candidates, rows):
        raise KeyboardInterrupt

    monkeypatch.setattr(measure.Bench, "_measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune(model, inputs, LIME, trials=TRIALS)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"model": small_model(seed=7)}, "model"),
        ({"inputs": some_inputs(40, seed=7)}, "inputs"),
        ({"inputs": some_inputs(count=39)}, "inputs"),
        ({"methods": SIX[:3]}, "methods"),
        ({"metric": "pc"}, "metric"),
        ({"seed": 1}, "seed"),
        ({"tolerance": 0.5}, "tolerance"),
        ({"level": 0.5}, "level"),
        ({"baselines": 1.0}, "baselines"),
        ({"target": 0}, "target"),
        ({"background": some_inputs(3)}, "background"),
    ],
)
def test_a_file_of_another_search_is_refused_and_kept(model, inputs, tmp_path, change, word):
    path = tmp_path / "trials.parquet"
    settings = {"model": model, "inputs": inputs, "methods": SIX[:2]}
    tune(**settings, store=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"store: .*trials.parquet holds a search with another {word};"):
        tune(**(settings | change), store=path)
    assert path.read_bytes() == before


def test_the_same_model_with_other_rounding_is_the_same_model(model, inputs, tmp_path):
    path = tmp_path / "trials.parquet"
    tune(model, inputs, SIX[:2], store=path)
    with torch.no_grad():
        model[0].weight.mul_(1 + 1e-6)
    assert tune(model, inputs, SIX[:2], store=path).table.height == 2


@pytest.mark.parametrize("content", [b"", b"PAR1 nothing PAR1", b"hello"])
def test_a_damaged_file_is_refused_and_kept(model, inputs, tmp_path, content):
    path = tmp_path / "trials.parquet"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"no file of verax.tune, or it is damaged"):
        tune(model, inputs, SIX[:2], store=path)
    assert path.read_bytes() == content


def test_no_damage_goes_unseen(model, inputs, tmp_path):
    """Bits that flip, bytes that change and files that end early; Polars reads many of these without a word."""
    path, draw = tmp_path / "trials.parquet", random.Random(0)  # noqa: S311  # no secret
    tune(model, inputs, SIX[:2], store=path)
    whole = path.read_bytes()
    for number in range(300):
        damaged, at = bytearray(whole), draw.randrange(len(whole))
        if number % 3 == 0:
            damaged = damaged[:at]
        elif number % 3 == 1:
            damaged[at] ^= 1 << draw.randrange(8)
        else:
            damaged[at : at + 8] = draw.randbytes(8)
        path.write_bytes(bytes(damaged))
        with pytest.raises(ValueError, match=r"no file of verax.tune, or it is damaged"):
            store.TrialsFile(path, {}, torch.zeros(1), ["dpc"]).read(SIX[:2])
    path.write_bytes(whole)
    assert tune(model, inputs, SIX[:2], store=path).table.height == 2


def test_another_parquet_file_is_refused(model, inputs, tmp_path):
    path = tmp_path / "table.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(path)
    with pytest.raises(ValueError, match=r"no file of verax.tune"):
        tune(model, inputs, SIX[:2], store=path)


def test_a_folder_is_made_and_a_file_in_its_way_is_told(model, inputs, tmp_path):
    tune(model, inputs, SIX[:2], store=tmp_path / "new" / "folder" / "trials.parquet")
    assert (tmp_path / "new" / "folder" / "trials.parquet").is_file()
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"store: .* cannot be written"):
        tune(model, inputs, SIX[:2], store=tmp_path / "file" / "trials.parquet")

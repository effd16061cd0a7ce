"""Names are names: no path, nothing that a terminal obeys."""

from pathlib import Path

import pytest

from study.studies import LINEAR, content, ran, table, whole
from verax.core.display import escape
from verax.study.run import Watcher, watching
from verax.study.spec import SpecError, parse_spec

PATHS = [
    "../up",
    "/absolute",
    "a/b",
    "a\\b",
    "..",
    ".",
    ".hidden",
    "",
    "-x",
    "a\x1b[2J",
    "a\nb",
    "a ",
    "a.",
    "C:x",
    "ä",
]


@pytest.mark.parametrize("name", PATHS)
def test_a_study_and_its_models_and_columns_have_names(name: str) -> None:
    wrong = {
        "name": content() | {"name": name},
        "data.0.models.0.name": content(table({**LINEAR, "name": name})),
        "as": content(metrics={"list": [{"metric": "pc", "as": name}]}),
    }
    for place, own in wrong.items():
        with pytest.raises(SpecError, match=r"expected (a|the) name") as refused:
            parse_spec(own, "own.toml")
        message = str(refused.value)
        assert place in message
        assert repr(name) in message
        assert "\n" not in message
        assert "\x1b" not in message


@pytest.mark.parametrize("name", ["demo", "My study 2", "a.b-c_d", "7"])
def test_ordinary_names_stay(name: str) -> None:
    assert parse_spec(content() | {"name": name}, "own.toml").name == name


def test_no_file_name_moves_the_cursor(copied: Path) -> None:
    (copied / "scores" / "a\x1b[2Jb").write_text("x")
    _, lines = ran(whole(), copied)
    assert any("scores/a\\x1b[2Jb: not a file of a study" in line for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_progress_prints_nothing_that_a_terminal_obeys(capfd: pytest.CaptureFixture[str]) -> None:
    with watching(1) as watcher:
        say(watcher)
    said = capfd.readouterr().err
    assert not set(said) & set("\x1b\x07\x9b\r\u202e")
    assert "LIME\\x1b]0;title\\x07" in said


def say(watcher: Watcher) -> None:
    watcher("LIME\x1b]0;title\x07")
    watcher.log("x\x9b31m\r\u202e")
    watcher(3)


def test_what_is_harmless_stays() -> None:
    text = "Größe 体重 ±\n\tx"
    assert escape(text) == text
    assert escape("a\x00b\x7f\u2028") == "a\\x00b\\x7f\\u2028"

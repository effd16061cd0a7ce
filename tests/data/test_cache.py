"""The cache folder."""

from pathlib import Path

import pytest

from verax.paper.downloads import cache_folder


@pytest.mark.parametrize(
    ("value", "expected"), [("/somewhere", "/somewhere"), ("relative", "~/.cache"), ("", "~/.cache")]
)
def test_the_cache_folder_is_the_users(monkeypatch, value, expected):
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert cache_folder() == Path(expected).expanduser() / "verax"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "verax"

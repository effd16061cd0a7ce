"""Folders of this machine and of a store: the same files under the same patterns."""

import sys
from pathlib import Path

import pytest

from verax.lakes.storage import folder_of

NAMES = ["a.parquet", "b.csv", "day=1/a.parquet", "day=1/deep/c.parquet", "day=2/a.parquet", "_tmp/x.parquet"]
PATTERNS = {
    "*.parquet": ["a.parquet"],
    "day=*/*.parquet": ["day=1/a.parquet", "day=2/a.parquet"],
    "day=[2-9]/*": ["day=2/a.parquet"],
    "**/*.parquet": ["a.parquet", "day=1/a.parquet", "day=1/deep/c.parquet", "day=2/a.parquet"],
    "day=1/**/*.parquet": ["day=1/a.parquet", "day=1/deep/c.parquet"],
    "none/*.parquet": [],
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in [*NAMES, ".hidden.parquet"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize("scheme", ["", "file://", "local://"])
@pytest.mark.parametrize(("pattern", "wanted"), PATTERNS.items())
def test_patterns_find_the_same_everywhere(tree: Path, scheme: str, pattern: str, wanted: list[str]) -> None:
    if scheme == "local://":
        pytest.importorskip("fsspec")
    folder = folder_of(f"{scheme}{tree}")
    found = folder.files(pattern)
    assert [file.name for file in found] == wanted
    assert all(file.size == len(file.name) and file.modified > 0 for file in found)
    assert all(folder.read(file.name) == file.name.encode() for file in found)


@pytest.mark.parametrize("scheme", ["", "local://"])
def test_a_file_is_written_whole_and_removed(tree: Path, scheme: str) -> None:
    folder = folder_of(f"{scheme}{tree}")
    folder.write("new/folder/x.parquet", b"content")
    assert [path.name for path in (tree / "new/folder").iterdir()] == ["x.parquet"]
    assert folder.read("new/folder/x.parquet") == b"content"
    folder.remove("new/folder/x.parquet")
    assert not list((tree / "new/folder").iterdir())


def test_a_store_without_its_packages_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.fs", None)
    with pytest.raises(ImportError, match=r"s3://bucket/rows needs pyarrow: pip install 'verax\[ray\]'"):
        folder_of("s3://bucket/rows").files()

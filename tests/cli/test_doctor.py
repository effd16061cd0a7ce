"""``verax doctor``: it finds what is missing, old or broken, and says what to do."""

import json
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from packaging.requirements import Requirement
from typer.testing import CliRunner

import verax
from verax.cli import app, doctor

RUN = CliRunner()
PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
GOOD = ["torch>=2.6", "numpy>=1.26", "nobodys-package>=3; extra == 'ray'", "numpy>=1; extra == 'onnx'"]


@pytest.fixture
def requires(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the installed package says that it needs."""
    lines = list(GOOD)
    monkeypatch.setattr("importlib.metadata.requires", lambda name: lines)
    return lines


def test_a_place_where_all_is_well(requires: list[str]) -> None:
    found = RUN.invoke(app, ["doctor"])
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    assert lines[0].startswith(f"verax {verax.__version__}, Python 3.")
    assert f"  torch  {metadata.version('torch')}" in found.stdout  # torch.__version__ adds +cu130 in a build for CUDA
    assert "  onnx: installed (numpy " in found.stdout
    place = lines.index("  ray: nobodys-package missing")
    assert lines[place + 1 : place + 3] == [
        "    would add studies and lakes on a Ray cluster: verax study run --engine ray",
        "    pip install 'verax[ray]'",
    ]
    assert any(line.startswith("  cpu: ") and line.endswith(": ok") for line in lines)
    built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
    assert f"  no GPU that torch can use; this torch is built {built}" in lines or torch.cuda.is_available()
    assert lines[-1] == "Verax can be used."
    assert found.stderr == ""


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("nobodys-package>=1", "nobodys-package: missing"),
        ("numpy>=1000", "numpy: too old or too new: "),
        ("pytest<1", "pytest: too old or too new: "),
    ],
)
def test_something_required_is_not_there(line: str, problem: str, requires: list[str]) -> None:
    requires.append(line)
    found = RUN.invoke(app, ["doctor"])
    assert found.exit_code == 1
    (last,) = (line for line in found.stdout.splitlines() if line.startswith("To mend: "))
    assert problem in last
    assert "can be used" not in found.stdout


def test_a_package_that_is_there_but_broken(requires: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise OSError("libtorch.so: cannot open shared object file\nmore")

    monkeypatch.setattr("importlib.import_module", broken)
    assert doctor.package(Requirement("numpy"), load=True)["problem"] == (
        "cannot be imported: libtorch.so: cannot open shared object file"
    )
    assert not doctor.package(Requirement("numpy"))["problem"]


def test_a_marker_of_another_system_is_no_extra() -> None:
    found = doctor.examine(["nobodys-package; sys_platform == 'abacus'", "numpy; python_version >= '3'"])
    assert [package["name"] for package in found["packages"]] == ["numpy"]
    assert found["extras"] == []


def test_json(requires: list[str]) -> None:
    requires.append("numpy>=1000")
    found = RUN.invoke(app, ["doctor", "--json"])
    assert found.exit_code == 1
    facts = json.loads(found.stdout)
    assert not facts["usable"]
    assert facts["problems"][0].startswith("numpy: ")
    assert [(one["name"], one["installed"]) for one in facts["extras"]] == [("onnx", True), ("ray", False)]
    assert facts["packages"][0]["version"] == metadata.version("torch")
    assert facts["devices"][0]["name"] == "cpu"
    assert facts["devices"][0]["problem"] == ""


def test_every_extra_of_the_project_is_explained() -> None:
    assert set(doctor.ADDS) == set(PROJECT["optional-dependencies"]) - {"all"}


def test_all_is_the_union_of_what_users_can_add() -> None:
    (line,) = PROJECT["optional-dependencies"]["all"]
    assert Requirement(line).extras == set(doctor.ADDS) - set(doctor.DEVELOPMENT)


def test_what_work_on_verax_needs_is_no_missing_extra(requires: list[str]) -> None:
    requires += ["nobodys-linter; extra == 'dev'", "nobodys-package; extra == 'all'"]
    facts = json.loads(RUN.invoke(app, ["doctor", "--json"]).stdout)
    assert [extra["name"] for extra in facts["extras"]] == ["onnx", "ray"]
    assert [(extra["name"], extra["installed"]) for extra in facts["development"]] == [("dev", False)]
    lines = RUN.invoke(app, ["doctor"]).stdout.splitlines()
    place = lines.index("For work on Verax itself:")
    assert lines[place + 1 : place + 3] == [f"  dev: not installed; {doctor.ADDS['dev']}", ""]


def test_a_missing_extra_is_named_before_any_work(requires: list[str]) -> None:
    requires += ["nobodys-charts; extra == 'study'", "nobodys-charts; extra == 'tune'", "numpy; extra == 'tune'"]
    files = ["--model", "m.onnx", "--inputs", "x.npy"]
    for command in (["study", "run", "demo"], ["study", "status", "."], ["verify", "."], ["tune", *files]):
        found = RUN.invoke(app, command)
        extra = "tune" if command[0] == "tune" else "study"
        assert found.stderr == f"verax: verax {extra} needs nobodys-charts: pip install 'verax[{extra}]'\n"
        assert found.exit_code == 2


def test_every_requirement_of_the_project_can_be_imported() -> None:
    """The names of modules differ from those of packages; a new one must be known."""
    assert doctor.examine(PROJECT["dependencies"])["problems"] == []


def test_from_source_without_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.requires", missing)
    found = RUN.invoke(app, ["doctor"])
    assert found.exit_code == 0
    assert "not known, because Verax runs from its source" in found.stdout


# Devices.


def test_the_test_is_not_passed_by_wrong_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*arguments: Any, **settings: Any) -> dict[str, Any]:
        return {"pc": SimpleNamespace(value=[5 * 35 / 36]), "dpc": SimpleNamespace(value=[1.0])}

    monkeypatch.setattr(verax, "evaluate", wrong)
    assert doctor.self_test("cpu") == "the test gave 1.00000 for dpc, right is 1.94444"


def test_a_device_that_fails(requires: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **settings: Any) -> None:
        raise RuntimeError("CUDA error: no kernel image is available\nCompile with ...")

    monkeypatch.setattr(verax, "evaluate", fail)
    found = RUN.invoke(app, ["doctor"])
    assert found.exit_code == 1
    assert "To mend: cpu: the test failed: CUDA error: no kernel image is available" in found.stdout


def test_graphics_processors_are_listed_with_their_memory(requires: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda number: (2**30 * (3 + number), 2**30 * 16))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: f"Abacus {number}")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    tried: list[str] = []
    monkeypatch.setattr(doctor, "self_test", lambda device: tried.append(device) or "")  # type: ignore[func-returns-value]
    found = RUN.invoke(app, ["doctor"]).stdout
    assert tried == ["cpu", "cuda:0", "cuda:1", "mps"]
    assert "  cuda:1: Abacus 1, 16 GiB, 4 GiB free: ok" in found
    assert "no GPU" not in found


def test_a_cache_that_cannot_be_written_is_told_and_does_not_matter(
    requires: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    found = RUN.invoke(app, ["doctor"])
    assert found.exit_code == 0
    assert f"Cache for downloads: {tmp_path}/file/verax: {tmp_path}/file is no folder" in found.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]

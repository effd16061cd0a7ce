"""What is published: wheel and source distribution hold what they should, and the wheel works where it is installed."""

import email
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import verax

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DATA = (".npy", ".npz", ".csv", ".parquet", ".safetensors", ".pt", ".pt2", ".onnx", ".pkl", ".jpg", ".png")
BUILD = "import sys, hatchling.build as b; b.build_wheel(sys.argv[1]); b.build_sdist(sys.argv[1])"
TINY = """
name = "tiny"
examples = 1
metrics = { samples = 8 }
uncertainty = { inputs = 0 }

[[data]]
name = "breast-cancer"
limit = 2
attributions = { grid = false, others = [{ method = "Gradient" }, { method = "Random" }] }
models = [{ name = "Linear", architecture = "linear" }]
"""
SHIPPED = """
import verax
from verax.cli import app
from verax.study.spec import load_spec

print(load_spec("demo").name, verax.__version__, verax.__file__, flush=True)
app(["doctor", "--json"])
"""
USER = """
import torch
import verax

problem = verax.Problem(torch.nn.Linear(4, 2), torch.randn(3, 4))
reveal_type(verax.evaluate(problem, problem.inputs))
reveal_type(verax.attribution.grid("tabular"))
verax.metrics.PredictionChange(steps="many")
"""

CHECKER = """
[mypy]
strict = true
follow_imports = skip

[mypy-verax,verax.*]
follow_imports = normal
"""  # the types of other packages take half a minute to read, and are not what is asked


def ran(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program elsewhere, without anything that leads back to the source."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def built(source: Path, to: Path) -> tuple[Path, Path]:
    found = ran(sys.executable, "-c", BUILD, to, cwd=source)
    assert found.returncode == 0, found.stderr
    (wheel,), (sdist,) = to.glob("*.whl"), to.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source distribution of this source."""
    return built(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of a fresh environment with the wheel; other packages are those of this one."""
    fresh = tmp_path_factory.mktemp("fresh")
    python = fresh / "bin" / "python"
    assert ran(sys.executable, "-m", "venv", "--without-pip", fresh, cwd=fresh).returncode == 0
    site = ran(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=fresh).stdout.strip()
    Path(site, "running.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    install = ["install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
    found = ran(sys.executable, "-m", "pip", "--python", python, *install, distributions[0], cwd=fresh)
    assert found.returncode == 0, found.stderr
    return fresh / "bin"


def files(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_holds_the_package_and_nothing_else(distributions: tuple[Path, Path]) -> None:
    names = set(files(distributions[0]))
    about = f"verax-{verax.__version__}.dist-info"
    assert {name.split("/")[0] for name in names} == {"verax", about}
    source = ROOT / "src"
    wanted = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    assert {name for name in names if name.startswith("verax/")} == {
        name for name in wanted if "__pycache__" not in name and not name.startswith(".")
    }
    for name in ("py.typed", "study/specs/demo.toml", "paper/specs/paper-heloc.toml", "report/templates/page.html"):
        assert f"verax/{name}" in names
    assert f"{about}/licenses/LICENSE" in names
    assert not [name for name in names if name.endswith(DATA)]


def test_the_metadata_are_those_of_the_project(distributions: tuple[Path, Path]) -> None:
    about = email.message_from_bytes(files(distributions[0])[f"verax-{verax.__version__}.dist-info/METADATA"])
    assert (about["Name"], about["Version"]) == ("verax", verax.__version__)
    assert about["License-Expression"] == "Apache-2.0"
    assert "Typing :: Typed" in about.get_all("Classifier", [])
    assert about["Author"] == "The Verax maintainers"
    assert about["Description-Content-Type"] == "text/markdown"
    assert "pip install verax" in str(about.get_payload())
    assert "](docs/" not in str(about.get_payload())  # relative links lead nowhere on a package index
    assert set(about.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    needed = {str(one) for one in map(Requirement, about.get_all("Requires-Dist", [])) if one.marker is None}
    assert needed == {str(Requirement(one)) for one in PROJECT["dependencies"]}


def test_the_recipe_of_conda_needs_what_the_project_needs() -> None:
    other_names = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    run = recipe.split("  run:\n")[1].split("tests:\n")[0]
    needed = [Requirement(one) for one in PROJECT["dependencies"]]
    wanted = {f"{other_names.get(one.name, one.name)} {one.specifier}" for one in needed}
    assert set(re.findall(r"^ +- (.+)$", run, re.MULTILINE)) == wanted | {"python >=${{ python_min }}"}
    (lowest,) = re.findall(r'python_min: "(.+)"', recipe)
    assert f">={lowest}" == PROJECT["requires-python"]


def test_every_file_with_a_placeholder_is_named_where_the_release_fills_them_in() -> None:
    """And no file pretends to know an address."""
    steps = (ROOT / "docs" / "releases.md").read_text(encoding="utf-8")
    for name in ("pyproject.toml", "packaging/conda/recipe.yaml", "CITATION.cff"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "placeholder" in text.lower()
        assert f"`{name}`" in steps
        assert "https://" not in text


def test_the_source_distribution_makes_the_same_wheel(distributions: tuple[Path, Path], tmp_path: Path) -> None:
    wheel, sdist = distributions
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    for name in ("LICENSE", "README.md", "CHANGELOG.md", "Makefile", "tests/test_packaging.py", "docs/how-to"):
        assert (source / name).exists()
    again, _ = built(source, tmp_path)
    assert files(again) == files(wheel)


def test_the_wheel_runs_where_it_is_installed(installed: Path, tmp_path: Path) -> None:
    found = ran(installed / "python", "-c", SHIPPED, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    shipped, doctor = found.stdout.split("\n", 1)
    name, version, place = shipped.split()
    assert (name, version) == ("demo", verax.__version__)
    assert place.startswith(str(installed.parent))
    assert json.loads(doctor)["usable"]


def test_the_wheel_runs_a_study_to_its_report(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    found = ran(installed / "verax", "study", "run", "tiny.toml", "--json", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    report = tmp_path / json.loads(found.stdout)["report"]
    page = report.read_text()
    templates = ROOT / "src" / "verax" / "report" / "templates"
    for name in ("page.css", "page.js"):
        assert (templates / name).read_text().strip()[:40] in page


def test_a_type_checker_sees_the_types_of_the_wheel(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(USER)
    (tmp_path / "mypy.ini").write_text(CHECKER)
    check = ["-m", "mypy", "--python-executable", installed / "python", "--cache-dir", tmp_path / "cache"]
    found = ran(sys.executable, *check, "user.py", cwd=tmp_path)
    notes, wrong, last = found.stdout.splitlines()[:2], found.stdout.splitlines()[2], found.stdout.splitlines()[-1]
    assert 'Revealed type is "verax.evaluation.result.Evaluation"' in notes[0], found.stdout
    assert "list[verax.attribution.base.Attribution]" in notes[1]
    assert 'Argument "steps" to "PredictionChange" has incompatible type' in wrong
    assert last == "Found 1 error in 1 file (checked 1 source file)"

"""From a finished study to its report."""

from pathlib import Path

from verax.analysis.claims import as_markdown, claims, of_the_paper
from verax.core.files import write_atomically
from verax.core.packages import optional_package
from verax.study.model_quality import weak_models
from verax.study.results import Results, read_results
from verax.study.store import StoreError
from verax.study.study import Study


def need_study_extra() -> None:
    """Say what is not installed of what a study needs, before any work."""
    for module in ("altair", "vl_convert", "skimage", "PIL", "tomli_w", "filelock"):
        optional_package(module, "verax[study]", "a study")


def write_study_report(study: Study, results: Results | None = None) -> Path:
    """Write ``report.html``, ``figures/*.svg`` and, for the paper's models, ``claims.md`` into a study's directory."""
    need_study_extra()
    from verax.report import write_figures, write_report  # noqa: PLC0415  # needs packages of an extra

    results = results or read_results(study)
    if results.tables.scores.is_empty():
        raise StoreError(f"{study.store.folder}: no finished unit yet, so there is nothing to report.")
    folder = study.store.folder
    write_figures(folder / "figures", results.tables, results.examples)
    if of_the_paper(results.tables):
        write_atomically(folder / "claims.md", as_markdown(claims(results.tables)).encode())
    path = folder / "report.html"
    write_report(path, results.tables, results.examples, provenance(study, results))
    return path


def provenance(study: Study, results: Results) -> dict[str, str]:
    """Where everything came from, in words."""
    facts = study.store.frozen().facts
    lines = {"study": study.spec.name}
    lines |= {f"version of {name}": str(value) for name, value in facts["versions"].items()}
    lines |= {f"data {data['name']}": f"fingerprint {data['fingerprint']}" for data in facts["data"]}
    lines |= {f"model {model['name']}": f"weights {model['weights']}" for model in facts["models"]}
    lines["units"] = str(len(study.units))
    if results.missing:
        lines["incomplete"] = f"{len(results.missing)} of {len(study.units)} units are missing"
    if weak := weak_models(study.models.values()):
        lines["warning"] = " ".join(weak)
    imports = [f"--import {module}" for module in facts.get("imports", [])]
    lines["check it"] = " ".join(("verax verify", study.store.folder.name, *imports))
    return lines

"""From a finished study to its report."""

from pathlib import Path

from verax.analysis.claims import as_markdown, claims
from verax.datasets.download import write_atomically
from verax.report import write_figures, write_report
from verax.study.results import Results, read_results
from verax.study.store import StoreError
from verax.study.study import Study


def write_study_report(study: Study, results: Results | None = None) -> Path:
    """Write ``report.html``, ``figures/*.svg`` and ``claims.md`` into the directory of a study."""
    found = results or read_results(study)
    if found.tables.scores.is_empty():
        raise StoreError(f"{study.store.folder}: no finished unit yet, so there is nothing to report.")
    folder = study.store.folder
    write_figures(folder / "figures", found.tables, found.examples)
    write_atomically(folder / "claims.md", as_markdown(claims(found.tables)).encode())
    path = folder / "report.html"
    write_report(path, found.tables, found.examples, provenance(study, found))
    return path


def provenance(study: Study, found: Results) -> dict[str, str]:
    """Where everything came from, in words."""
    facts = study.store.frozen().facts
    lines = {"study": study.spec.name}
    lines |= {f"version of {name}": str(value) for name, value in facts["versions"].items()}
    lines |= {f"data {one['name']}": f"fingerprint {one['fingerprint']}" for one in facts["data"]}
    lines |= {f"model {one['name']}": f"weights {one['weights']}" for one in facts["models"]}
    lines["units"] = str(len(study.units))
    if found.missing:
        lines["incomplete"] = f"{len(found.missing)} of {len(study.units)} units are missing"
    lines["check it"] = f"verax verify {study.store.folder.name}"
    return lines

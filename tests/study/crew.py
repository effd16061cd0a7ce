"""A process that runs a study with two worker processes, for tests that end it: ``python crew.py SPEC.json FOLDER``."""

import json
import sys
from pathlib import Path

import verax.study.run
import verax.study.summary
from verax.study.spec import parse_spec


def main(spec_file: str, folder: str) -> None:
    setattr(verax.study.run, "_QUICK", 0.0)  # noqa: B010
    setattr(verax.study.run, "write_study_report", lambda study: study.store.folder / "report.html")  # noqa: B010
    setattr(verax.study.summary, "_seconds_per_input", lambda *arguments: 0.0)  # noqa: B010
    spec = parse_spec(json.loads(Path(spec_file).read_text()), "crew")
    try:
        verax.study.run.run_study(spec, folder, workers=2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main(*sys.argv[1:])

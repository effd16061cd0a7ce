"""The command ``verax``, which does not go on after the first unit of a study, for tests that end it."""

import verax.study.plan
import verax.study.run
from study.crew import watching
from verax.cli import app

if __name__ == "__main__":
    setattr(verax.study.run, "watching", watching)  # noqa: B010
    setattr(verax.study.plan, "_seconds_per_input", lambda *arguments: 0.0)  # noqa: B010
    app(prog_name="verax")

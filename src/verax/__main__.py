"""``python -m verax`` is the command ``verax``."""

from verax.cli import app

app(prog_name="verax")

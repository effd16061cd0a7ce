"""``python -m verax`` is the command ``verax``."""

from verax.cli import app

if __name__ == "__main__":  # worker processes import this module again
    app(prog_name="verax")

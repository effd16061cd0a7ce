"""Pages from the templates of this package: one frame, ``base.html``, which all of them share."""

from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from verax.core.packages import __version__

_STILL = "default-src 'none'; style-src 'unsafe-inline'"  # nothing runs, and nothing is fetched


def own_file(name: str) -> str:
    """The text of a file beside the templates."""
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def rendered(template: str, policy: str = _STILL, **values: Any) -> str:
    """A page that shows these values as text, whatever they contain; a value that the template lacks is an error.

    Args:
        template: A file beside the templates.
        policy: What the page may run and fetch.
        values: What it shows.
    """
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(own_file), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    css = Markup(own_file("page.css"))  # noqa: S704 - a file of this package
    return environment.get_template(template).render(css=css, policy=policy, version=__version__, **values)

"""The README's example runs as it stands."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_example_runs_and_is_short(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(example.splitlines()) <= 15
    exec(compile(example, str(README), "exec"), {})  # noqa: S102  # that is what a reader would do
    assert "tensor" in capsys.readouterr().out

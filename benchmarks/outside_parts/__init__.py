"""One module per source of outside material: data, published numbers, test fixtures of others.

A part is a module of this folder with two functions; ``outside.py`` needs to be told of it nowhere else:

    def measure(data: Path) -> dict[str, Any]      # everything measured, fit for JSON
    def tables(measured: dict[str, Any]) -> dict[str, str]      # tables of docs/outside.md in Markdown, by name

``FOLDERS`` names the folders of ``data`` that it needs, if any. A table ``scores`` of part ``naopc`` is written on the
page between ``<!-- naopc/scores -->`` and ``<!-- end -->``.
"""

"""How results show themselves: tables as text and HTML, and figures. Metrics delegate to this package."""

"""Any model becomes rows in, class scores out: adapters, sessions, precision, and the count of rows."""

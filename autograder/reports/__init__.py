"""How a class did: the report, and what it finds in answers."""

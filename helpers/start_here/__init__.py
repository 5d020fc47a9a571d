"""Unit 00, start here: shapes."""

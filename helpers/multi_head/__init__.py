"""Unit 04: heads, grouped queries and the induction head."""

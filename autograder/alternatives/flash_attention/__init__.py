"""Right answers of unit 09 in other styles."""

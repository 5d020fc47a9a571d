"""Right answers of unit 08 in other styles: loops, einsum, other layouts of the cache, other orders of work."""

"""Right answers of unit 10 in other styles: loops over slices, blocks, gathers, einsum, float64, other patterns."""

"""Unit 05: positions and the decoder-only Transformer."""

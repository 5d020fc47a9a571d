"""Unit 08: the KV cache in all its forms, and decoding with it."""

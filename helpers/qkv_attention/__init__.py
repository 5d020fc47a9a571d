"""Unit 02: softmax, scores, and attention from queries, keys and values."""

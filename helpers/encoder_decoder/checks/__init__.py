"""Unit 06: layers, the model, teacher forcing, decoding and costs."""

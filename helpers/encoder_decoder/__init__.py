"""Unit 06: the encoder-decoder Transformer of 2017, trained to reverse and to translate, and how it writes."""

"""Right answers of unit 06 in other styles: those of the Annotated Transformer, fairseq, Hugging Face, users of `nn.Transformer`, x-transformers."""

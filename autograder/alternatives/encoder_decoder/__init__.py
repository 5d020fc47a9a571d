"""Right answers of unit 06 in other styles: Annotated Transformer, fairseq, Hugging Face, `nn.Transformer`,
x-transformers."""

"""Right answers of unit 05 in other styles: loops, NumPy, Annotated Transformer, minGPT, nanoGPT, Hugging Face,
x-transformers."""

"""Right answers of unit 05 in other styles: loops and NumPy, the Annotated Transformer, minGPT and nanoGPT, Hugging Face, x-transformers."""

"""Unit 09: the online softmax, tiles, and attention kernels in Triton."""

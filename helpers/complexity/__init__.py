"""Unit 07: FLOPs, traffic, memory and the roofline."""

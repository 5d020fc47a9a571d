"""Unit 06: who reads whom, what training does, alignments and beams."""

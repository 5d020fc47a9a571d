"""Unit 03: masks, masked attention, and models that peek."""

"""Hostile and broken notebooks, each made from the small course by a few edits: what an instructor may be handed.

Every file of this folder holds one kind as a list `NOTEBOOKS`; `autograder/proofs/hostile.py` runs them.
"""

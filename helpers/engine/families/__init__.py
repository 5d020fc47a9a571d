"""Slips by what they get wrong, a family a module: `Scale.none` is the same slip wherever answers are made of steps.
Names and hints stand in the Markdown beside it; an exercise that needs other words has them beside its check."""

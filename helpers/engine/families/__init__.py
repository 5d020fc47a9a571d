"""Slips by what they get wrong, a family a module: `Scale.none` is the same slip in every exercise whose answer is made of steps.
Names and hints stand in the Markdown file beside the module; an exercise that needs other words has them beside its check."""

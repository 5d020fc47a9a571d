"""What answers are made of, right and wrong: steps, and families of slips that change one. `Scale.none` is the same
slip wherever answers are made of steps. Names and hints stand in the Markdown beside a family; an exercise that needs
other words has them beside its check. Students see none of it while a unit is graded (course/visibility.py).
"""

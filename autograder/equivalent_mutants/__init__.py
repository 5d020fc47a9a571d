"""What `attn prove --mutants` invents and is as right as what it was made of, with the reason: a module a unit, under
its room's name, a table for each exercise: the changed line as it then stands (or a pattern of "before → after") → why
none can tell."""

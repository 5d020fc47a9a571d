"""Cases that students don't see: a module a unit, in it a list of cases by exercise id (a group: by part)."""

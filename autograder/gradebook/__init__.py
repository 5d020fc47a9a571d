"""What stands in the gradebook beside scores of code: the roster, deadlines, points by hand; and all of it as rows."""

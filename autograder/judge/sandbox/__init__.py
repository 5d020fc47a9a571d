"""Two ways to build the walls around a kernel."""

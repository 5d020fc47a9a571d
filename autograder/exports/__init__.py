"""What leaves the gradebook: grades for learning management systems, feedback pages sent back, a Gradescope
autograder."""

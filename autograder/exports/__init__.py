"""What leaves the gradebook: grades for learning management systems, feedback pages, a Gradescope autograder."""

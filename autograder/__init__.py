"""What instructors run: building, grading and reporting. Students never install this package."""

"""A term between the learning management system and the gradebook: the roster, downloads collected, grades exported."""

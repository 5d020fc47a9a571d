"""From the downloads of a learning management system (LMS) to `submitted/`: whose a hand-in is, and which attempt
counts."""

"""From a learning management system's (LMS) downloads to `submitted/`: whose a hand-in is, which attempt counts."""

"""From what is handed in to the gradebook: triage, mending, judging in parallel, recording, feedback."""

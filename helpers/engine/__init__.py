"""What every check is made of: cases, observation, comparison, diagnosis, score and card. It knows no unit."""

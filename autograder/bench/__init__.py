"""What things cost, each by one command."""

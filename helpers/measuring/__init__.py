"""What notebooks and pictures measure with: clocks, counters, devices, memory, growth."""

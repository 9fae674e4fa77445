"""What the benchmarks make of what they measured. The measuring itself is nobody's test."""

"""Measures each promise of docs/benchmarks.md and its floor, on a separate instance."""

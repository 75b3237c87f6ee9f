"""How fast sm is: each promise of docs/benchmarks.md measured beside its floor, on an instance of its own."""

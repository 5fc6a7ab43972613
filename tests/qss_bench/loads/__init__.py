"""Tools of the benchmarks: rows, a load of GETs, and a bare server for comparison."""

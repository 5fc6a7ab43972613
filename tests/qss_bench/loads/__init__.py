"""What the benches measure with: rows, a load of GETs, and a bare server to compare with."""

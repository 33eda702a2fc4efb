"""The paper's benchmark: protocol, orders, runs, records and their report."""

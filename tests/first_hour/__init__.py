"""The first hour on AWS: what no local engine can tell is asked there, and written to a report."""

"""The stack in virtual time: the shipped files, with simulated services."""

"""What an execution and a policy are, for all that reads or shows them."""

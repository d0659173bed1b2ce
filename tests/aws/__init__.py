"""What only AWS can tell: a stack is deployed there, tried and deleted. `make test-aws`."""

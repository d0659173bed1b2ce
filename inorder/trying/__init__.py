"""`inorder try`: a function of one's own on a local AWS, with all that the contract speaks of."""

"""Black-box checks of a deployment against the contract."""

"""What every page of the back office shares: its site, its login, its care with input, its look."""

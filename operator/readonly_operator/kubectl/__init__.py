"""`kubectl readonly`: pools as their users see them, by the user's own kubectl and with his rights. Standard library only."""

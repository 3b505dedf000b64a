"""Options of a broker, each declared once, and the values that they share with the operator and the storage readers."""

"""What users write, as typed values."""

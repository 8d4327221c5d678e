"""Running one attempt on one phone."""

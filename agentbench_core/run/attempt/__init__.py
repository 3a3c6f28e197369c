"""One attempt, in six phases; what attempts share."""

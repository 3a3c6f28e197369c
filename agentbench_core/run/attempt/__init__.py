"""One attempt, in six phases, and the state that attempts share."""

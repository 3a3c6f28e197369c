"""What happens when you press the button."""

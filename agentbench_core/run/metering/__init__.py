"""What an agent is handed, counted: tools, model, money and the machine."""

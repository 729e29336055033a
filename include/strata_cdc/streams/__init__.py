"""Update streams: changes with their tokens, from any landed position on to the live server, without a handover that a
reader notices.
Not here: what tokens mean (`position/token.py`), tokens with queries (`tokens/`), the command (`cli/stream.py`)."""

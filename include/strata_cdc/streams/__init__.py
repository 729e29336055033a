"""Update streams: changes with their tokens, from any position of what has landed into the live server without a seam.
Not here: what tokens mean (`position/token.py`), tokens with queries (`tokens/`), the command (`cli/stream.py`)."""

"""Dead letters: the records that cannot land, and the places for them."""

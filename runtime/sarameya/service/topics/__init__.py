"""`sarameya topics`: what a cluster's topics are like, and making, growing and deleting them.

command.py   the command line             answers.py   what each command asks for and answers
showing.py   as text and as documents (pure)
"""

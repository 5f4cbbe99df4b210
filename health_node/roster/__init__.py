"""The roster: everybody's pseudonyms, in the order of their places, sent to the census node once a load.

sending  numbers, seals and sends them         book  which of them are sent, and are there
"""

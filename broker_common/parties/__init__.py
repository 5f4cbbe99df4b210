"""Who is known here, by which card and with which keys.

make a key, use it, forget it        keyring         what a card says             crypto.cards
register, renew or revoke a card     registration    who is known, by the log     tlog.parties
ask who is known now                 peers           exchange cards with a peer   exchange

The commands for people are in `commands.keys`; `agency.home` puts these parts together for an agency.
"""

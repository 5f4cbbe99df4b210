"""The hand-in, with its parts compared with each other.

receipts     what researchers show                    reconciling  query by query: do all three agree?
quoted       what a quote may say                     implied      which notes have to be there
openings     opened noise and criteria, on site
"""

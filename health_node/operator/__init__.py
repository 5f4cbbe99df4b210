"""What the health agency's operator sees.

dashboard       pages and metrics; picture: what the log shows at one instant
cohort_figures  how large cohorts were, in bands
"""

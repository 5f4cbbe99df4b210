"""What the health agency's operator sees.

dashboard       pages and metrics, from what the log shows at one instant
cohort_figures  how large cohorts were, in bands
"""

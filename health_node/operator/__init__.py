"""Views of the health agency's operator.

dashboard       pages and metrics, from what the log shows at one instant
cohort_figures  how large cohorts were, in bands
"""

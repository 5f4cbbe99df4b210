"""Decisions and views of the census agency's operator. Orders are signed, and stand in the log before they hold.

operating   adopt, shut down, reopen: what an order does to the log     proposals        signed policies not yet in force
policy_commands  the commands about rules
belief_report  what `census status` says (belief_plot: its picture)      staff_figures    the figures of fixed times
dashboard   pages, orders, metrics: public_face (from the log alone), staff_pages; picture: what the log shows at one instant
"""

"""Durable things, and what is read into them.

durable     a file is replaced whole, or not at all        journal   log and state in one SQLite file
home        how the files of a home are read               writing   steps that come together, in one transaction
creation    a folder becomes a home, or is left alone      follower  a journal as others follow it
loads       whole stores that replace each other           witnessing  what is cosigned, and what was
open_loads  those that a serving node holds in memory      load_figures  what a load tells its operator
source/     where a load's rows come from                  dictionary/   dictionaries on an agency's disk
lined_text  TOML and YAML whose errors name a line         clock     the one place that reads the machine's clocks
"""

"""A run file and a data file to begin with; PROVENANCE.md says where they come from."""

"""Sensitivities estimated from synthetic data, as a published listing proposes: not differentially private, and measured so."""

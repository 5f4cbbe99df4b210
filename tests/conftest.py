"""What all tests have in common."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Both are measured with the machine's clock: a busy machine would fail a test that is right.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

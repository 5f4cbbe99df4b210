"""The dashboard's own certificate and its operators', as [dashboard] in config.toml names them: what ends, and when."""

from __future__ import annotations

from dataclasses import dataclass

from broker_common.crypto.certificates import certificate_ends
from broker_common.dashboard.config import DashboardConfig
from broker_common.dashboard.log_picture import WARN_CERTIFICATE_MS, Certificate, Problem
from broker_common.language import phrase
from broker_common.storage.home import Home

__all__ = ["OwnCertificates", "certificate_problems", "own_certificates"]


@dataclass(frozen=True, slots=True)
class OwnCertificates:
    """What the files hold now, the one that ends first first; nothing where the dashboard speaks no TLS."""

    listed: tuple[Certificate, ...] = ()
    is_readable: bool = True


def own_certificates(home: Home, config: DashboardConfig) -> OwnCertificates:
    """The newest certificate of each name: one that was renewed may stay in the operators' file until its end."""
    newest: dict[tuple[str, str], int] = {}
    for role, file in (("dashboard", config.certificate), ("operator", config.operator_certificates)):
        if not file:
            continue
        try:
            ends = certificate_ends((home.path / file).read_bytes())
        except (OSError, ValueError):
            return OwnCertificates(is_readable=False)
        for name, end_ms in ends:
            newest[role, name] = max(end_ms, newest.get((role, name), end_ms))
    found = [Certificate(role, name, is_own=False, end_ms=end_ms) for (role, name), end_ms in newest.items()]
    return OwnCertificates(tuple(sorted(found, key=lambda each: (each.end_ms, each.role, each.name))))


def certificate_problems(own: OwnCertificates, now_ms: int) -> list[Problem]:
    """What ends within 60 days or has ended. The node can be asked all the same."""
    if not own.is_readable:
        return [
            Problem(
                phrase("A certificate file of the dashboard cannot be used: it goes on with what it had."), stops=False
            )
        ]
    ending = {each.role for each in own.listed if each.end_ms - now_ms < WARN_CERTIFICATE_MS}
    texts = {
        "dashboard": phrase(
            "The dashboard's certificate ends within 60 days or has ended: make it again as the handbook says."
        ),
        "operator": phrase("An operator's certificate ends within 60 days or has ended: see whose, under Activity."),
    }
    return [Problem(text, stops=False) for role, text in texts.items() if role in ending]

"""Who may have signed a note, agency by agency."""

from __future__ import annotations

import pytest
from fakes import logs

from broker_common.audit.logs.signers import NoteChecker, NoteError
from broker_common.crypto.signing import Purpose
from broker_common.tlog.cosignature import Cosigner

NOTE = logs.SIGNER.sign_checkpoint(42, bytes(range(32)))
# Both cosign under one name: a card says whatever its owner writes on it.
PUPPET = Cosigner(logs.HEALTH_ORIGIN, logs.NEIGHBOUR.signing(Purpose.WITNESS))
WITNESSES = {"health-on": logs.WITNESS.verifier, "health-x": PUPPET.verifier}


def test_an_agency_that_took_anothers_name_does_not_cosign_for_it() -> None:
    """The registered owner of the key counts, not the name in the signature line."""
    checker, note = NoteChecker(), PUPPET.cosign(NOTE, 1_800_000_000)
    with pytest.raises(NoteError, match="NOT_COSIGNED: by health-on"):
        checker.check(note, logs.SIGNER.verifier, WITNESSES, cosigned_by=["health-on"])
    checked = checker.check(note, logs.SIGNER.verifier, WITNESSES, cosigned_by=["health-x"])
    assert checked.times == {"health-x": 1_800_000_000}


def test_the_times_of_agencies_of_one_name_are_told_apart() -> None:
    """Each agency's cosignature has its own time."""
    note = logs.WITNESS.cosign(PUPPET.cosign(NOTE, 1_800_000_000), 1_800_000_009)
    checked = NoteChecker().check(note, logs.SIGNER.verifier, WITNESSES, cosigned_by=["health-on"])
    assert checked.times == {"health-on": 1_800_000_009, "health-x": 1_800_000_000}

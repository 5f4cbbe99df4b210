"""The last sections: residual risks and who attends to them, how far the log had come, and who signs."""

from __future__ import annotations

from broker_common.language import phrase
from policy_lab.assessment import cited
from policy_lab.assessment.cited import Cited
from policy_lab.assessment.facts import Facts
from policy_lab.document.model import Block, Caution, Cell, Claim, Paragraph, Section, Table


def risks(facts: Facts) -> Section:
    """Sentences of SECURITY.md, each with what is to be done about it."""
    claims = [
        Claim(
            phrase(
                "Anyone who holds both the operator's key and the policy key can raise the limit, though not unseen: each order is in the log, signed, with a reason. "
                "Keep the two keys apart, and both off the serving machine."
            ),
            cited.security("**The operator's key can raise the limit.**"),
        ),
        Claim(
            phrase("The first card of a party is as good as the comparison of its fingerprint, which two people make."),
            cited.security("**A first card is as good as the comparison of its fingerprint**"),
        ),
        Claim(
            phrase(
                "The linkage keys tell who stands behind a pseudonym. They are needed for loading and for changing the key only: take them off the serving machine."
            ),
            cited.security("take them off the serving machine"),
        ),
        Claim(
            phrase(
                "Only a party that remembers more notices an older copy of the home: put the witness store where other people decide than those who run the node."
            ),
            cited.security("put the store where other people decide"),
        ),
        Claim(
            phrase(
                "That the noise was drawn as promised is proved to the holder of the oversight key, and to nobody else. This holder learns exact counts and must be trusted with them."
            ),
            cited.security("**The noise is proved to the holder of the oversight key, to nobody else.**"),
        ),
        Claim(
            phrase(
                "Instants tell nothing while the machine keeps up with its ticks. The operator is told when it does not, and has to see to it."
            ),
            cited.security("**Fixed instants hold while the machine keeps up.**"),
        ),
        Claim(
            phrase(
                "Erasing ends at the file system: one that keeps a journal or copies, and flash memory, may keep what was there."
            ),
            cited.security("**Wiping ends at the file system.**"),
        ),
        Claim(
            phrase(
                "Exact counts and keys live in the memory of a process for a while: anyone who can read that memory has them."
            ),
            cited.security("Exact counts and keys live in a garbage-collected process"),
        ),
        Claim(
            phrase(
                "Changing the linkage key protects what comes after: an old key and an old store together identify everybody of that store for ever."
            ),
            cited.security("together identify everybody of that store for ever"),
        ),
    ]
    if facts.policy.accounting == "per_person":
        claims += [
            Claim(
                phrase(
                    "What single persons were charged is proved to an auditor on site alone, and for as long as samples are kept."
                ),
                cited.security(
                    "**What single persons were charged is proved on site, for as long as membership is kept, and to nobody else.**"
                ),
            ),
            Claim(
                phrase(
                    "Figures about people, such as how many have nothing left, are for the census agency's staff. This assessment holds none."
                ),
                cited.security("**Figures about people are for the census agency's staff.**"),
            ),
        ]
    return Section("risks", phrase("Residual risks"), claims)


def checkpoint(facts: Facts, commands: Cited) -> Section:
    """The log at the instant of the assessment."""
    title = phrase("Checkpoint of the log")
    if facts.log is None:
        return Section(
            "checkpoint", title, [Caution(phrase("No census home was named, so that there is no log to refer to."))]
        )
    found = facts.log.checkpoint
    rows: list[list[Cell]] = [
        [phrase("name of the log"), found.origin],
        [phrase("entries"), str(found.size)],
        [phrase("hash of all of them"), found.root],
        [phrase("signature"), found.signature],
        [phrase("public key that checks it"), found.key],
    ]
    return Section(
        "checkpoint",
        title,
        [
            Claim(
                phrase(
                    "This checkpoint names the log up to here, entry by entry: nobody can change an entry later, or leave one out, and still have a log that begins so."
                ),
                commands.past(found.size, found.signature, found.key),
                (f'"origin": "{found.origin}", "size": {found.size}, "root": "{found.root}"', '"signed": true'),
            ),
            Table(
                "checkpoint",
                phrase("The checkpoint, as the census agency signs it"),
                (phrase("Part"), phrase("Value")),
                rows,
            ),
            Paragraph(
                phrase(
                    "A log that has grown since has another checkpoint, with another hash and another signature. The command above still holds then: it exports the log, computes the hash of its first "
                    "entries, and checks the signature of this table with the key of this table. Readers without access to the home are given the export, and begin at the second half of the command. "
                    "Whether everything that was added since keeps the rules is for an auditor to say: 'tripartite audit replay'."
                )
            ),
        ],
    )


def signatures() -> Section:
    """Who answers for the assessment."""
    rows: list[list[Cell]] = [
        [role, None, None, None]
        for role in (
            phrase("Made by"),
            phrase("For the census agency"),
            phrase("For the health agency"),
            phrase("Legal review"),
        )
    ]
    blocks: list[Block] = [
        Paragraph(phrase("The signatories have read the sections on what is not promised and on residual risks.")),
        Table(
            "signatures",
            phrase("Signatures"),
            (phrase("Party"), phrase("Name and role"), phrase("Date"), phrase("Signature")),
            rows,
        ),
    ]
    return Section("signatures", phrase("Signatures"), blocks)

//! The rules that the reference target can break on request.

use iwarp_conform::wire::{AtomicRequest, Code, Segment, opcode};

macro_rules! rules {
    ($($list:ident { $($name:ident = $check:literal,)* })*) => {
        /// One rule that is broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Break {
            Nothing,
            $($($name,)*)*
        }

        $(
            /// Rules, each with the one check that has to fail.
            pub(crate) const $list: &[(Break, &str)] = &[$((Break::$name, $check),)*];
        )*
    };
}

rules! {
    LISTENING {
        // ---- start-up, as Responder
        ReplyKey = "MPA-004.reply-key",
        EchoesReserved = "MPA-007.request",
        EchoesReject = "MPA-008.request",
        Data512 = "MPA-013.512",
        SilentReject = "MPA-019.reject",
        TalksAfterReject = "MPA-020.reject",
        SpeaksThroughFence = "MPA-031.fence",
        FirstKeyOctet = "MPA-003.first",
        LastKeyOctet = "MPA-003.last",
        Revision3 = "MPA-010.revision-3",
        Revision255 = "MPA-010.revision-255",
        Data513 = "MPA-012.513",
        EarlyFpdu = "MPA-015.fpdu",
        AnswersGarbage = "MPA-021.garbage",
        NoMarkers = "MPA-033.wanted",
        Rev1AnsweredAs2 = "MPA2-036.revision-1",
        PlainAnsweredEnhanced = "MPA2-007.revision-2",
        ShortEnhanced = "MPA2-003.none",
        OrdAboveOne = "MPA2-012.one",
        OrdAboveZero = "MPA2-012.zero",
        IrdNotNegotiated = "MPA2-017.ird",
        OrdNotNegotiated = "MPA2-018.ord",
        AlwaysPeerToPeer = "MPA2-022.zero",
        TypesWithoutA = "MPA2-023.reply",
        NoTypeForSend = "MPA2-025.send",
        NoTypeForNone = "MPA2-025.none",
        ReadySinkZeroed = "MPA2-032.read",
        // ---- FPDUs
        SendsPad = "MPA-053.sent",
        WriteCrc = "MPA-055.sent",
        TinySegments = "MPA-081.sent",
        ChecksPad = "MPA-054.pad",
        PlacesBadCrc = "MPA-060.placed",
        GoesOnAfterBadCrc = "MPA-061.after",
        // ---- DDP
        WriteDdpReserved = "DDP-023.sent",
        WriteDdpVersion = "DDP-024.sent",
        MsnFromZero = "DDP-031.sent",
        SkipsMsn = "DDP-032.sent",
        MsnInMessage = "DDP-034.sent",
        OffsetInMessage = "DDP-035.sent",
        EmptyInTwo = "DDP-043.sent",
        ChecksDdpReserved = "DDP-023.ignored",
        TaggedVersion0 = "DDP-024.tagged-0",
        TaggedVersion2 = "DDP-024.tagged-2",
        UntaggedVersion0 = "DDP-024.untagged-0",
        UntaggedVersion3 = "DDP-024.untagged-3",
        CodeOfQueue = "DDP-060.queue",
        CodeOfEmptyQueue = "DDP-076.queue",
        FarMsn = "DDP-064.far",
        EmptyMsn = "DDP-076.number",
        CodeOfOffset = "DDP-062.beyond",
        TakesEmptyEndAnywhere = "DDP-077.empty",
        DropsWithoutReceive = "DDP-061.none",
        TakesBehindError = "DDP-071.dropped",
        RefusesStag0 = "DDP-044.stag-0",
        PlacesUpToTheEnd = "DDP-070.across",
        CodeOfWrap = "DDP-069.wrap",
        PlacesWithoutRight = "RDMAP-025.unchanged",
        WritesOtherOctets = "DDP-020.sent",
        // ---- RDMAP
        SinkOfOnes = "RDMAP-035.sink",
        SinkOfNothing = "RDMAP-040.zero",
        ShortResponse = "RDMAP-036.size",
        SwapsResponses = "RDMAP-034.order",
        CodeOfWriteOnly = "RDMAP-043.write-only",
        IgnoresUnaskedResponse = "RDMAP-050.unasked",
        TakesAnySinkStag = "RDMAP-051.stag",
        TakesAnySinkTo = "RDMAP-051.to",
        TakesLongResponse = "RDMAP-036.long",
        TakesShortResponse = "RDMAP-036.short",
        LosesEmptySend = "RDMAP-060.zero",
        NeverSolicited = "RDMAP-064.sent",
        SolicitedDoesNotInvalidate = "RDMAP-066.solicited",
        IgnoresUnknownInvalidate = "RDMAP-010.unknown",
        IgnoresSharedInvalidate = "RDMAP-067.shared",
        WriteRdmapVersion = "RDMAP-001.sent",
        WriteRdmapReserved = "RDMAP-002.sent",
        RequestOnSendQueue = "RDMAP-006.sent",
        InvalidateOfSend = "RDMAP-008.sent",
        ChecksRdmapReserved = "RDMAP-002.ignored",
        RdmapVersion0 = "RDMAP-001.zero",
        RdmapVersion2 = "RDMAP-001.two",
        TakesOpcodeC = "RDMAP-003.c",
        TakesOpcodeF = "RDMAP-003.f",
        AnswersTerminateOnSendQueue = "RDMAP-007.queue",
        TakesLongReadRequest = "RDMAP-011.payload",
        TerminateMsn = "RDMAP-070.sent",
        SendsAfterTerminate = "RDMAP-071.sent",
        TerminateBitOrder = "RDMAP-075.layout",
        NoHeaderOfWrite = "RDMAP-076.tagged",
        NoHeaderOfSend = "RDMAP-076.untagged",
        NoReadHeader = "RDMAP-078.read",
        ClosesWithoutTerminate = "RDMAP-083.sent",
        TerminateReserved = "RDMAP-080.sent",
        HeaderOfCrcError = "RDMAP-081.crc",
        TellsSecondError = "RDMAP-082.first",
        AnswersTerminate = "RDMAP-072.taken",
        AnswersBadTerminate = "RDMAP-086.number",
        AnswersEmptyTerminate = "RDMAP-086.empty",
        TerminatesAtFin = "RDMAP-112.peer",
        TerminatesAtClose = "RDMAP-112.target",
        LosesTheEnd = "MPA-090.queued",
        SequentialStags = "SEC-008.spread",
        // ---- RFC 7306
        IgnoresAddMask = "RDMAPX-019.fields",
        IgnoresCompareMask = "RDMAPX-020.masks",
        SwapsAnyway = "RDMAPX-020.other",
        LosesIdentifier = "RDMAPX-012.identifier",
        AtomicQueue = "RDMAPX-005.form",
        ChecksAtomicReserved = "RDMAPX-028.ignored",
        CodeOfUnaligned = "RDMAPX-010.aligned",
        ChangesUnaligned = "RDMAPX-010.unchanged",
        IgnoresUnknownAtomic = "RDMAPX-009.operation",
        TakesShortImmediate = "RDMAPX-023.short",
    }
    MARKED {
        MarkerReserved = "MPA-067.sent",
        MarkerPointer = "MPA-064.sent",
        MarkerBetween = "MPA-065.sent",
        ChecksMarkerReserved = "MPA-067.ignored",
        ChecksMarkerLowBits = "MPA-066.ignored",
    }
    CONNECTING {
        RequestReserved = "MPA-006.request",
        RequestReject = "MPA-008.sent",
        RequestKey = "MPA-001.request",
        Collision = "MPA-005.collision",
        TakesReject = "MPA-020.rejected",
        OrdAboveTwo = "RDMAP-047.limit",
        ReadyAlwaysWrite = "MPA2-027.read",
        NoReadyCode = "MPA2-029.none",
        TakesAnyOrd = "MPA2-016.ord",
    }
}

/// Rules of [`LISTENING`] that an Initiator can break too, in the other frame.
pub(crate) const CONNECTING_TOO: &[(Break, &str)] = &[
    (Break::FirstKeyOctet, "MPA-004.first"),
    (Break::LastKeyOctet, "MPA-004.last"),
    (Break::Revision255, "MPA-010.reply"),
    (Break::Data513, "MPA-012.reply"),
    (Break::OrdAboveOne, "MPA2-015.one"),
];

impl Break {
    /// The code that a target with this rule broken sends in place of the right one.
    pub(crate) fn instead_of(self, code: Code, segment: &Segment) -> Option<Code> {
        let empty = segment.payload.is_empty();
        let wrong = match self {
            Self::TaggedVersion0 => segment.tagged && segment.ddp_version == 0,
            Self::TaggedVersion2 => segment.tagged && segment.ddp_version == 2,
            Self::UntaggedVersion3 => !segment.tagged && segment.ddp_version == 3,
            Self::CodeOfQueue => segment.qn == 5 && !empty,
            Self::CodeOfEmptyQueue => segment.qn == 5 && empty,
            Self::CodeOfOffset => segment.mo == 0x4000_0000,
            Self::CodeOfWrap => segment.to == u64::MAX - 1 && !empty,
            Self::RdmapVersion0 => segment.rdmap_version == 0,
            Self::RdmapVersion2 => segment.rdmap_version == 2,
            Self::CodeOfUnaligned => code == Code(0, 2, 7),
            Self::CodeOfWriteOnly => {
                // The region without rights has 4 KiB; the one for Writes lies elsewhere.
                code == Code(0, 1, 2)
                    && segment.opcode == opcode::READ_REQUEST
                    && segment.payload[24..28] == WRITE_ONLY
            }
            _ => false,
        };
        wrong.then_some(Code(0, 2, 8))
    }

    /// Returns true if the target accepts a segment that should be refused.
    pub(crate) fn lets(self, segment: &Segment) -> bool {
        match self {
            Self::UntaggedVersion0 => {
                !segment.tagged && segment.ddp_version == 0 && segment.msn > 1
            }
            Self::FarMsn => segment.msn > 0x7000_0000,
            Self::EmptyMsn => segment.payload.is_empty(),
            Self::TakesOpcodeC => segment.opcode == 0xC,
            Self::TakesOpcodeF => segment.opcode == 0xF,
            _ => false,
        }
    }

    /// The new value of the target of an Atomic.
    pub(crate) fn atomic(self, request: &AtomicRequest, operation: u32, old: u64) -> u64 {
        if operation == AtomicRequest::COMPARE_SWAP {
            let mask = if self == Self::IgnoresCompareMask {
                u64::MAX
            } else {
                request.compare_mask
            };
            if (request.compare ^ old) & mask != 0 && self != Self::SwapsAnyway {
                return old;
            }
            return old & !request.mask | request.data & request.mask;
        }
        if self == Self::IgnoresAddMask {
            return old.wrapping_add(request.data);
        }
        // Bit by bit, the carry cut where the mask says that a field ends.
        let (mut sum, mut carry) = (0, 0);
        for bit in 0..64 {
            let (a, b) = (old >> bit & 1, request.data >> bit & 1);
            sum |= (a ^ b ^ carry) << bit;
            carry = a & b | a & carry | b & carry;
            if request.mask >> bit & 1 == 1 {
                carry = 0;
            }
        }
        sum
    }
}

/// The end of the TO of the region that may be written only: it is the first one made.
const WRITE_ONLY: [u8; 4] = [0, 0x10, 0, 0];

//! The numbers of `ndstatus.mc`, `nddef.h` and `ndspi.h`.

use std::collections::HashSet;
use std::mem::offset_of;

use netdirect::{
    AdapterFlags, AdapterInfo, Buffer, CompletionResult, Error, Immediate, LocalToken, MrFlags,
    NotifyType, OpFlags, QueryFlags, QueuePairOptions, RemoteAddress, RemoteToken, RequestType,
    Severity, Sge, SharedReceiveQueueOptions, Status, VERSION_1, VERSION_2,
};

/// Section 14.3 of the catalogue, line by line.
const STATUSES: &[(&str, u32)] = &[
    ("ND_SUCCESS", 0x0000_0000),
    ("ND_TIMEOUT", 0x0000_0102),
    ("ND_PENDING", 0x0000_0103),
    ("ND_BUFFER_OVERFLOW", 0x8000_0005),
    ("ND_DEVICE_BUSY", 0x8000_0011),
    ("ND_NO_MORE_ENTRIES", 0x8000_001A),
    ("ND_UNSUCCESSFUL", 0xC000_0001),
    ("ND_ACCESS_VIOLATION", 0xC000_0005),
    ("ND_INVALID_HANDLE", 0xC000_0008),
    ("ND_INVALID_DEVICE_REQUEST", 0xC000_0010),
    ("ND_INVALID_PARAMETER", 0xC000_000D),
    ("ND_NO_MEMORY", 0xC000_0017),
    ("ND_INVALID_PARAMETER_MIX", 0xC000_0030),
    ("ND_DATA_OVERRUN", 0xC000_003C),
    ("ND_SHARING_VIOLATION", 0xC000_0043),
    ("ND_INSUFFICIENT_RESOURCES", 0xC000_009A),
    ("ND_DEVICE_NOT_READY", 0xC000_00A3),
    ("ND_IO_TIMEOUT", 0xC000_00B5),
    ("ND_NOT_SUPPORTED", 0xC000_00BB),
    ("ND_INTERNAL_ERROR", 0xC000_00E5),
    ("ND_INVALID_PARAMETER_1", 0xC000_00EF),
    ("ND_INVALID_PARAMETER_2", 0xC000_00F0),
    ("ND_INVALID_PARAMETER_3", 0xC000_00F1),
    ("ND_INVALID_PARAMETER_4", 0xC000_00F2),
    ("ND_INVALID_PARAMETER_5", 0xC000_00F3),
    ("ND_INVALID_PARAMETER_6", 0xC000_00F4),
    ("ND_INVALID_PARAMETER_7", 0xC000_00F5),
    ("ND_INVALID_PARAMETER_8", 0xC000_00F6),
    ("ND_INVALID_PARAMETER_9", 0xC000_00F7),
    ("ND_INVALID_PARAMETER_10", 0xC000_00F8),
    ("ND_CANCELED", 0xC000_0120),
    ("ND_REMOTE_ERROR", 0xC000_013D),
    ("ND_INVALID_ADDRESS", 0xC000_0141),
    ("ND_INVALID_DEVICE_STATE", 0xC000_0184),
    ("ND_INVALID_BUFFER_SIZE", 0xC000_0206),
    ("ND_TOO_MANY_ADDRESSES", 0xC000_0209),
    ("ND_ADDRESS_ALREADY_EXISTS", 0xC000_020A),
    ("ND_CONNECTION_REFUSED", 0xC000_0236),
    ("ND_CONNECTION_INVALID", 0xC000_023A),
    ("ND_CONNECTION_ACTIVE", 0xC000_023B),
    ("ND_NETWORK_UNREACHABLE", 0xC000_023C),
    ("ND_HOST_UNREACHABLE", 0xC000_023D),
    ("ND_CONNECTION_ABORTED", 0xC000_0241),
    ("ND_DEVICE_REMOVED", 0xC000_02B6),
    ("STATUS_ADDRESS_ALREADY_ASSOCIATED", 0xC000_0238),
    ("STATUS_BAD_NETWORK_NAME", 0xC000_00CC),
    ("STATUS_CONNECTION_DISCONNECTED", 0xC000_020C),
    ("STATUS_POSSIBLE_DEADLOCK", 0xC000_0194),
    ("STATUS_DATA_ERROR", 0xC000_003E),
    ("E_NOINTERFACE", 0x8000_4002),
    ("S_FALSE", 1),
];

#[test]
fn statuses_have_their_values_and_names() {
    // GEN-012
    assert_eq!(Status::ALL.len(), STATUSES.len());
    for (status, (name, bits)) in Status::ALL.iter().zip(STATUSES) {
        assert_eq!((status.bits(), status.name()), (*bits, Some(*name)));
        assert_eq!(status.to_string(), *name);
        assert_eq!(Status::from_bits(*bits), *status);
    }
    assert_eq!(
        Status::ALL.iter().collect::<HashSet<_>>().len(),
        STATUSES.len()
    );
    assert_eq!(Status::LOCAL_LENGTH, Status::DATA_OVERRUN);
    assert_eq!(Status::INVALIDATION_ERROR, Status::INVALID_DEVICE_REQUEST);
    assert_eq!(Status::default(), Status::SUCCESS);
}

#[test]
fn severity_is_that_of_the_sign() {
    // GEN-017
    for status in Status::ALL {
        assert_eq!(status.is_success(), status.bits().cast_signed() >= 0);
        assert_eq!(status.ok().is_ok(), *status == Status::SUCCESS);
    }
    assert_eq!(Status::TIMEOUT.severity(), Severity::Success);
    assert_eq!(Status::DEVICE_BUSY.severity(), Severity::Warning);
    assert_eq!(Status::CANCELED.severity(), Severity::Error);
    assert_eq!(
        Status::from_bits(0x4000_0000).severity(),
        Severity::Informational
    );
}

#[test]
fn unknown_statuses_pass_unchanged_and_show_their_bits() {
    let status = Status::from_bits(0xC000_0001 + 1);
    assert_eq!((status.bits(), status.name()), (0xC000_0002, None));
    assert_eq!(status.to_string(), "status 0xc0000002");
    assert_eq!(format!("{:?}", Status::CANCELED), "ND_CANCELED(0xc0000120)");
    assert_eq!(format!("[{:<12}]", Status::PENDING), "[ND_PENDING  ]");
}

#[test]
fn parameter_statuses_by_position() {
    for n in 1..=10 {
        assert_eq!(
            Status::invalid_parameter(n).to_string(),
            format!("ND_INVALID_PARAMETER_{n}")
        );
    }
    assert_eq!(Status::invalid_parameter(0), Status::INVALID_PARAMETER);
    assert_eq!(Status::invalid_parameter(11), Status::INVALID_PARAMETER);
}

#[test]
fn errors_carry_status_and_reason() {
    let error = Error::new(
        Status::INVALID_ADDRESS,
        format!("{} is not served", "10.0.0.1"),
    );
    assert_eq!(error.status(), Status::INVALID_ADDRESS);
    assert_eq!(
        error.to_string(),
        "ND_INVALID_ADDRESS: 10.0.0.1 is not served"
    );
    assert_eq!(error.what(), "10.0.0.1 is not served");
    assert_eq!(Error::from(Status::NO_MEMORY).to_string(), "ND_NO_MEMORY");
}

#[test]
fn flags_have_the_values_of_nddef() {
    assert_eq!((VERSION_1, VERSION_2), (1, 0x20000));
    assert_eq!(AdapterFlags::IN_ORDER_DMA_SUPPORTED.bits(), 0x1);
    assert_eq!(AdapterFlags::CQ_INTERRUPT_MODERATION_SUPPORTED.bits(), 0x4);
    assert_eq!(AdapterFlags::MULTI_ENGINE_SUPPORTED.bits(), 0x8);
    assert_eq!(AdapterFlags::CQ_RESIZE_SUPPORTED.bits(), 0x100);
    assert_eq!(AdapterFlags::LOOPBACK_CONNECTIONS_SUPPORTED.bits(), 0x10000);
    assert_eq!(MrFlags::ALLOW_LOCAL_WRITE.bits(), 1);
    assert_eq!(MrFlags::ALLOW_REMOTE_READ.bits(), 2);
    assert_eq!(MrFlags::ALLOW_REMOTE_WRITE.bits(), 5);
    assert_eq!(MrFlags::RDMA_READ_SINK.bits(), 8);
    assert_eq!(MrFlags::DO_NOT_SECURE_VM.bits(), 0x8000_0000);
    assert!(MrFlags::ALLOW_REMOTE_WRITE.contains(MrFlags::ALLOW_LOCAL_WRITE)); // AMB-014
    assert!(!MrFlags::ALLOW_REMOTE_READ.contains(MrFlags::ALLOW_LOCAL_WRITE));
    assert_eq!(OpFlags::SILENT_SUCCESS.bits(), 0x1);
    assert_eq!(OpFlags::READ_FENCE.bits(), 0x2);
    assert_eq!(OpFlags::SEND_AND_SOLICIT_EVENT.bits(), 0x4);
    assert_eq!(OpFlags::ALLOW_READ.bits(), 0x8);
    assert_eq!(OpFlags::ALLOW_WRITE.bits(), 0x10);
    assert_eq!(OpFlags::INLINE.bits(), 0x20);
    assert_eq!(QueryFlags::EXCLUDE_EMULATOR_ADDRESSES.bits(), 1);
    assert_eq!(QueryFlags::EXCLUDE_ND_V1_ADDRESSES.bits(), 2);
    assert_eq!(QueryFlags::EXCLUDE_ND_V2_ADDRESSES.bits(), 4);
    // AMB-062: unknown bits must reach the provider, which refuses them
    assert_eq!(OpFlags::from_bits_retain(0x40).bits(), 0x40);
    assert_eq!(MrFlags::from_bits_retain(0x10).bits(), 0x10);
}

#[test]
fn enumerations_have_the_values_of_ndspi() {
    for (value, kind) in (0..).zip([NotifyType::Errors, NotifyType::Any, NotifyType::Solicited]) {
        assert_eq!(
            (kind as u32, NotifyType::try_from(value)),
            (value, Ok(kind))
        );
    }
    assert_eq!(
        NotifyType::try_from(3).unwrap_err().status(),
        Status::INVALID_PARAMETER_1
    ); // AMB-054
    let names = ["Receive", "Send", "Bind", "Invalidate", "Read", "Write"];
    for ((value, kind), name) in (0..).zip(RequestType::ALL).zip(names) {
        assert_eq!(
            (kind.value(), RequestType::from_value(value)),
            (value, kind)
        );
        assert_eq!(kind.to_string(), name);
    }
    for (value, kind) in (0x1000..).zip(RequestType::EXTENSIONS) {
        assert_eq!(
            (kind.value(), RequestType::from_value(value)),
            (value, kind)
        );
    }
}

#[test]
fn request_types_of_vendors_keep_their_values() {
    for value in [6, 0xFFF, 0x1002, 0x8000_0000, u32::MAX] {
        let kind = RequestType::from_value(value);
        assert_eq!((kind.value(), kind.name()), (value, None));
        assert!(kind.allows(Status::REMOTE_ERROR) && !kind.allows(Status::PENDING));
        assert!(!RequestType::ALL.contains(&kind) && !RequestType::EXTENSIONS.contains(&kind));
    }
    let foreign = RequestType::from_value(0x1F);
    assert_eq!(foreign.to_string(), "request type 0x1f");
    assert_eq!(
        format!("{foreign:?} {:?}", RequestType::Read),
        "RequestType(0x1f) Read"
    );
}

#[test]
fn immediate_data_of_both_lengths() {
    let (four, eight) = (Immediate::from([1, 2, 3, 4]), Immediate::from([5; 8]));
    assert_eq!(
        (four.as_bytes(), eight.as_bytes()),
        (&[1, 2, 3, 4][..], &[5; 8][..])
    );
    assert_eq!((four.four(), four.eight()), (Some([1, 2, 3, 4]), None));
    assert_eq!((eight.four(), eight.eight()), (None, Some([5; 8])));
    assert_ne!(Immediate::from([0; 4]), Immediate::from([0; 8]));
    assert_eq!(format!("{four:?}"), "Immediate([1, 2, 3, 4])");
    let result = CompletionResult::new(RequestType::Receive, 1).immediate(Some(four));
    assert_eq!(result.immediate, Some(four));
}

#[test]
fn a_list_of_sges_is_a_list_of_nd2_sge() {
    // ND2_SGE on a 64-bit system: PVOID Buffer, ULONG BufferLength, UINT32 MemoryRegionToken
    let sges = [
        Sge {
            address: 0x0102_0304_0506_0708,
            length: 0x1112_1314,
            token: LocalToken(0x2122_2324),
        },
        Sge {
            address: 1,
            length: 2,
            token: LocalToken(3),
        },
    ];
    assert_eq!(
        (size_of_val(&sges), align_of::<Sge>()),
        (32, align_of::<u64>())
    );
    assert_eq!(
        (
            offset_of!(Sge, address),
            offset_of!(Sge, length),
            offset_of!(Sge, token)
        ),
        (0, 8, 12)
    );
    assert_eq!(
        (
            size_of::<LocalToken>(),
            size_of::<RemoteToken>(),
            size_of::<Status>()
        ),
        (4, 4, 4)
    );
}

#[test]
fn statuses_of_results_by_kind() {
    // The matrix of section 7.1: Send, Receive, Bind, Invalidate, Read, Write
    let matrix = [
        (Status::SUCCESS, "xxxxxx"),
        (Status::DATA_OVERRUN, "x...xx"),
        (Status::BUFFER_OVERFLOW, ".x...."),
        (Status::ACCESS_VIOLATION, "xx..xx"),
        (Status::CANCELED, "xxxxxx"),
        (Status::INVALID_DEVICE_REQUEST, "xxxxxx"),
        (Status::INTERNAL_ERROR, "xxxxxx"),
        (Status::IO_TIMEOUT, "xx..xx"),
        (Status::REMOTE_ERROR, "xx..xx"),
        (Status::PENDING, "......"),
        (Status::CONNECTION_INVALID, "......"),
    ];
    let columns = [
        RequestType::Send,
        RequestType::Receive,
        RequestType::Bind,
        RequestType::Invalidate,
        RequestType::Read,
        RequestType::Write,
    ];
    for (status, row) in matrix {
        let allowed = columns.map(|kind| kind.allows(status));
        let expected: Vec<_> = row.chars().map(|mark| mark == 'x').collect();
        assert_eq!(allowed, *expected, "{status}");
    }
}

#[test]
fn remote_tokens_travel_as_octets() {
    // MR-032
    let token = RemoteToken::from_host(0xA1B2_C3D4);
    assert_eq!(token.to_bytes(), [0xA1, 0xB2, 0xC3, 0xD4]);
    assert_eq!(token.to_host(), 0xA1B2_C3D4);
    assert_eq!(RemoteToken::from_bytes(token.to_bytes()), token);
    assert_eq!(
        token.0.to_ne_bytes(),
        token.to_bytes(),
        "what a COM client copies from memory is the same"
    );
    let remote = RemoteAddress {
        address: 0x0102_0304_0506_0708,
        token,
    };
    let octets = [1, 2, 3, 4, 5, 6, 7, 8, 0xA1, 0xB2, 0xC3, 0xD4];
    assert_eq!(remote.to_bytes(), octets);
    assert_eq!(RemoteAddress::from_bytes(octets), remote);
    assert_eq!(remote.offset(0x10).address, 0x0102_0304_0506_0718);
    assert_eq!(remote.offset(0x10).token, token);
}

#[test]
fn options_and_results_have_their_defaults() {
    let options = QueuePairOptions::default();
    assert_eq!(
        (
            options.context,
            options.receive_queue_depth,
            options.initiator_queue_depth
        ),
        (0, 16, 16)
    );
    assert_eq!(
        (
            options.max_receive_request_sge,
            options.max_initiator_request_sge
        ),
        (1, 1)
    );
    assert_eq!(options.inline_data_size, 0);
    let options = options
        .context(1)
        .receive_queue_depth(2)
        .initiator_queue_depth(3)
        .max_receive_request_sge(4);
    let options = options.max_initiator_request_sge(5).inline_data_size(6);
    assert_eq!(
        (
            options.context,
            options.receive_queue_depth,
            options.initiator_queue_depth
        ),
        (1, 2, 3)
    );
    assert_eq!(
        (
            options.max_receive_request_sge,
            options.max_initiator_request_sge
        ),
        (4, 5)
    );
    assert_eq!(options.inline_data_size, 6);
    let options = SharedReceiveQueueOptions::default()
        .queue_depth(7)
        .max_request_sge(8)
        .notify_threshold(9);
    assert_eq!(
        (
            options.queue_depth,
            options.max_request_sge,
            options.notify_threshold
        ),
        (7, 8, 9)
    );
    assert_eq!(AdapterInfo::default().flags, AdapterFlags::empty());
    assert_eq!(
        CompletionResult::default(),
        CompletionResult::new(RequestType::Receive, 0)
    );
    let result = CompletionResult::new(RequestType::Read, 1)
        .status(Status::REMOTE_ERROR)
        .bytes_transferred(2)
        .queue_pair_context(3);
    assert_eq!(
        (result.request_type, result.request_context),
        (RequestType::Read, 1)
    );
    assert_eq!(
        (result.status, result.bytes_transferred),
        (Status::REMOTE_ERROR, 2)
    );
    assert_eq!((result.queue_pair_context, result.immediate), (3, None));
}

#[test]
fn scatter_gather_entries_name_ranges() {
    let buffer = Buffer::new(100).slice(20..);
    let sge = Sge::new(&buffer, 5.., LocalToken(9));
    assert_eq!(
        sge,
        Sge {
            address: buffer.address() + 5,
            length: 75,
            token: LocalToken(9)
        }
    );
    assert_eq!(Sge::new(&buffer, .., LocalToken(9)).length, 80);
}

#[test]
fn a_buffer_that_cannot_be_had_is_no_memory() {
    let error = Error::from(Buffer::try_new(usize::MAX).unwrap_err());
    assert_eq!(error.status(), Status::NO_MEMORY);
    assert!(error.what().contains(&usize::MAX.to_string()), "{error}");
}

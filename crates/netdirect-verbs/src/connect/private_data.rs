//! Private data on InfiniBand and RoCE, whose messages have a field of fixed size for it: shorter data arrives with zeros behind it.
//!
//! So that two of these providers also exchange the length, the last four octets of the field hold a mark with the length, if the data
//! leaves room for it. A peer of another kind gets the data, then zeros, then the mark, instead of zeros to the end. Data without a mark is
//! passed on as it arrives.

/// The messages of connection set-up that carry private data, and the sizes of their fields (`ib_cm_data_size` of Linux). The
/// connection manager itself uses 36 of the 92 octets of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CmMessage {
    Request,
    Reply,
    Rejection,
}

impl CmMessage {
    fn field(self) -> usize {
        match self {
            Self::Request => 56,
            Self::Reply => 196,
            Self::Rejection => 148,
        }
    }
}

/// A mark: two octets that identify it, the length, and its complement.
const MARK: usize = 4;
const FIRST: [u8; 2] = [0xD2, 0x4E];

/// The field for private data of a message.
pub(super) fn with_length(data: &[u8], message: CmMessage) -> Vec<u8> {
    let mut field = data.to_vec();
    let start = message.field() - MARK;
    if let Ok(length) = u8::try_from(data.len())
        && data.len() <= start
    {
        field.resize(start, 0);
        field.extend(FIRST);
        field.extend([length, !length]);
    }
    field
}

/// The private data in the field of a message, cut to its length if there is a mark.
pub(super) fn cut(mut field: Vec<u8>) -> Vec<u8> {
    let Some((data, [first, second, length, check])) = field.split_last_chunk::<MARK>() else {
        return field;
    };
    let has_mark = [*first, *second] == FIRST && *check == !*length;
    let length = usize::from(*length);
    let padding = data.get(length..);
    if has_mark && padding.is_some_and(|padding| padding.iter().all(|octet| *octet == 0)) {
        field.truncate(length);
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The field as it arrives, with zeros to its end.
    fn arrived(data: &[u8], message: CmMessage) -> Vec<u8> {
        let mut field = with_length(data, message);
        assert!(field.starts_with(data));
        assert!(field.len() <= message.field());
        field.resize(message.field(), 0);
        field
    }

    #[test]
    fn the_length_arrives_wherever_the_field_has_room_for_it() {
        for message in [CmMessage::Request, CmMessage::Reply, CmMessage::Rejection] {
            for length in 0..=message.field().min(148) {
                let data = vec![0; length];
                let found = cut(arrived(&data, message));
                let has_room = length + MARK <= message.field();
                let wanted = if has_room { length } else { message.field() };
                assert_eq!(found, vec![0; wanted], "{message:?}, {length} octets");
            }
        }
    }

    #[test]
    fn data_of_peers_without_the_mark_is_not_cut() {
        let mut field = vec![7; 56];
        assert_eq!(cut(field.clone()), field);
        // A mark behind octets that are not padding does not count.
        field[52..].copy_from_slice(&[FIRST[0], FIRST[1], 3, !3]);
        assert_eq!(cut(field.clone()), field);
        // A length that the field does not have, and a wrong complement.
        for mark in [[FIRST[0], FIRST[1], 53, !53], [FIRST[0], FIRST[1], 0, 0]] {
            let mut field = vec![0; 56];
            field[52..].copy_from_slice(&mark);
            assert_eq!(cut(field.clone()), field);
        }
        assert_eq!(cut(vec![1, 2]), [1, 2]);
        assert_eq!(cut(Vec::new()), []);
    }
}

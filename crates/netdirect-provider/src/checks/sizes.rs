//! Sizes, numbers and statuses that a client passes to calls. The sizes of queue pairs and shared receive queues are checked by
//! [`AdapterInfo`].

use netdirect::{AdapterInfo, Buffer, Error, MrFlags, Result, SharedReceiveQueueOptions, Status};

use crate::error::fail;

/// Checks the depth of a new completion queue.
///
/// # Errors
///
/// [`INVALID_PARAMETER_3`](Status::INVALID_PARAMETER_3) (ADPT-023).
pub fn completion_queue(depth: u32, most: u32) -> Result<()> {
    completion_queue_depth(depth, most, Status::INVALID_PARAMETER_3)
}

/// Checks the depth that Resize gives a completion queue.
///
/// # Errors
///
/// [`INVALID_PARAMETER`](Status::INVALID_PARAMETER) (CQ-012, CQ-013).
pub fn resized_completion_queue(depth: u32, most: u32) -> Result<()> {
    completion_queue_depth(depth, most, Status::INVALID_PARAMETER)
}

fn completion_queue_depth(depth: u32, most: u32, status: Status) -> Result<()> {
    if depth == 0 || depth > most {
        return fail(status, "the depth is 0 or above MaxCompletionQueueDepth");
    }
    Ok(())
}

/// Checks that the adapter has shared receive queues.
///
/// # Errors
///
/// [`NOT_SUPPORTED`](Status::NOT_SUPPORTED) (SRQ-001, ADPT-066).
pub fn has_shared_receive_queues(info: &AdapterInfo) -> Result<()> {
    if info.max_shared_receive_queue_depth == 0 {
        return fail(
            Status::NOT_SUPPORTED,
            "this adapter has no shared receive queues (MaxSharedReceiveQueueDepth is 0)",
        );
    }
    Ok(())
}

/// Checks the sizes of a new shared receive queue.
///
/// # Errors
///
/// - [`NOT_SUPPORTED`](Status::NOT_SUPPORTED): the adapter has none (SRQ-001).
/// - [`INVALID_PARAMETER_3`](Status::INVALID_PARAMETER_3): the depth is 0, or above its limit (ADPT-044).
/// - [`INVALID_PARAMETER_4`](Status::INVALID_PARAMETER_4): the number of SGEs is above its limit (ADPT-045).
pub fn shared_receive_queue(info: &AdapterInfo, options: &SharedReceiveQueueOptions) -> Result<()> {
    has_shared_receive_queues(info)?;
    if options.queue_depth == 0 {
        return fail(
            Status::INVALID_PARAMETER_3,
            "the depth of a shared receive queue is at least 1",
        );
    }
    info.check_shared_receive_queue(options)
}

/// Checks the depth that Modify gives a shared receive queue; 0 leaves the depth unchanged.
///
/// # Errors
///
/// [`INVALID_PARAMETER`](Status::INVALID_PARAMETER) (SRQ-013).
pub fn modified_shared_receive_queue(depth: u32, most: u32) -> Result<()> {
    if depth > most {
        let what = format!("the queue depth is {depth}, but the adapter's limit is {most}");
        return Err(Error::new(Status::INVALID_PARAMETER, what));
    }
    Ok(())
}

/// Checks the buffer and the flags of Register.
///
/// # Errors
///
/// - [`INVALID_PARAMETER_3`](Status::INVALID_PARAMETER_3): the flags have unknown bits (MR-020).
/// - [`INVALID_BUFFER_SIZE`](Status::INVALID_BUFFER_SIZE): the buffer is empty (AMB-012).
/// - [`INVALID_PARAMETER`](Status::INVALID_PARAMETER): the buffer is too large (MR-011).
pub fn registration(buffer: &Buffer, flags: MrFlags, most: u64) -> Result<()> {
    if flags.bits() & !MrFlags::all().bits() != 0 {
        return fail(
            Status::INVALID_PARAMETER_3,
            "the flags have bits that ND2 does not define",
        ); // MR-020
    }
    if buffer.is_empty() {
        return fail(
            Status::INVALID_BUFFER_SIZE,
            "the buffer is empty; register at least 1 octet",
        ); // AMB-012
    }
    if buffer.len() as u64 > most {
        return fail(
            Status::INVALID_PARAMETER,
            "the buffer is larger than MaxRegistrationSize",
        ); // MR-011
    }
    Ok(())
}

/// Checks the length of private data. `limit` is the name of the limit, `MaxCallerData` or `MaxCalleeData`.
///
/// # Errors
///
/// [`INVALID_BUFFER_SIZE`](Status::INVALID_BUFFER_SIZE) (CONN-017, CONN-058, CONN-073).
pub fn private_data(data: &[u8], most: u32, limit: &str) -> Result<()> {
    if data.len() <= most as usize {
        return Ok(());
    }
    let what = format!("{} octets of private data, {limit} is {most}", data.len());
    Err(Error::new(Status::INVALID_BUFFER_SIZE, what))
}

/// Checks a fault that makes the `nth` call from now on fail with `status`.
///
/// # Errors
///
/// [`INVALID_PARAMETER`](Status::INVALID_PARAMETER): the fault could never happen.
pub fn failing_call(nth: u32, status: Status) -> Result<()> {
    if nth == 0 {
        return fail(
            Status::INVALID_PARAMETER,
            "calls are counted from 1: give 1 for the next call",
        );
    }
    if status.is_success() {
        return fail(
            Status::INVALID_PARAMETER,
            "a call fails with an error: give a status that is an error",
        );
    }
    Ok(())
}

/// Checks the status of a fault by which a queue breaks down.
///
/// # Errors
///
/// [`INVALID_PARAMETER`](Status::INVALID_PARAMETER): the status is not an error.
pub fn breakdown(status: Status) -> Result<()> {
    if status.is_success() {
        return fail(
            Status::INVALID_PARAMETER,
            "a queue breaks down with an error: give a status that is an error",
        );
    }
    Ok(())
}

/// Checks that a completion queue of a call has not broken down.
///
/// # Errors
///
/// `status` (ADPT-051, ADPT-052, CQ-022).
pub fn working_completion_queue(is_broken: bool, status: Status) -> Result<()> {
    if is_broken {
        return fail(
            status,
            "the completion queue has broken down; create a new completion queue",
        );
    }
    Ok(())
}

/// Checks that a shared receive queue of a call has not broken down.
///
/// # Errors
///
/// `status`.
pub fn working_shared_receive_queue(is_broken: bool, status: Status) -> Result<()> {
    if is_broken {
        return fail(
            status,
            "the shared receive queue has broken down; create a new shared receive queue",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(result: Result<()>) -> Status {
        result.map_or_else(|error| error.status(), |()| Status::SUCCESS)
    }

    #[test]
    fn adpt_023_cq_012_cq_013_depths_of_completion_queues_have_two_ends() {
        for (depth, is_good) in [(0, false), (1, true), (8, true), (9, false)] {
            let wanted = |bad| if is_good { Status::SUCCESS } else { bad };
            let made = status(completion_queue(depth, 8));
            assert_eq!(made, wanted(Status::INVALID_PARAMETER_3));
            let resized = status(resized_completion_queue(depth, 8));
            assert_eq!(resized, wanted(Status::INVALID_PARAMETER));
        }
    }

    #[test]
    fn srq_001_adpt_044_srq_013_depths_of_shared_receive_queues() {
        let mut info = AdapterInfo::default();
        let options = |depth| SharedReceiveQueueOptions::default().queue_depth(depth);
        info.max_shared_receive_queue_depth = 0;
        let none = status(shared_receive_queue(&info, &options(1)));
        assert_eq!(none, Status::NOT_SUPPORTED);
        info.max_shared_receive_queue_depth = 4;
        info.max_receive_sge = 64;
        for (depth, made, modified) in [
            (0, Status::INVALID_PARAMETER_3, Status::SUCCESS),
            (4, Status::SUCCESS, Status::SUCCESS),
            (5, Status::INVALID_PARAMETER_3, Status::INVALID_PARAMETER),
        ] {
            assert_eq!(status(shared_receive_queue(&info, &options(depth))), made);
            assert_eq!(status(modified_shared_receive_queue(depth, 4)), modified);
        }
    }

    #[test]
    fn mr_020_amb_012_mr_011_what_can_be_registered() {
        let good = MrFlags::ALLOW_LOCAL_WRITE;
        let bad = MrFlags::from_bits_retain(1 << 30);
        for (octets, flags, wanted) in [
            (8, good, Status::SUCCESS),
            (8, bad, Status::INVALID_PARAMETER_3),
            (0, bad, Status::INVALID_PARAMETER_3),
            (0, good, Status::INVALID_BUFFER_SIZE),
            (9, good, Status::INVALID_PARAMETER),
        ] {
            let checked = registration(&Buffer::new(octets), flags, 8);
            assert_eq!(status(checked), wanted, "{octets} octets, {flags:?}");
        }
    }

    #[test]
    fn conn_017_private_data_is_measured_by_the_limit_that_is_named() {
        assert_eq!(private_data(&[0; 4], 4, "MaxCallerData"), Ok(()));
        let error = private_data(&[0; 5], 4, "MaxCallerData").unwrap_err();
        assert_eq!(error.status(), Status::INVALID_BUFFER_SIZE);
        assert_eq!(error.what(), "5 octets of private data, MaxCallerData is 4");
    }

    #[test]
    fn faults_that_could_never_happen_are_refused() {
        for (nth, with, wanted) in [
            (1, Status::NO_MEMORY, Status::SUCCESS),
            (0, Status::NO_MEMORY, Status::INVALID_PARAMETER),
            (1, Status::SUCCESS, Status::INVALID_PARAMETER),
            (1, Status::PENDING, Status::INVALID_PARAMETER),
        ] {
            assert_eq!(status(failing_call(nth, with)), wanted);
        }
        assert_eq!(status(breakdown(Status::INTERNAL_ERROR)), Status::SUCCESS);
        let success = status(breakdown(Status::SUCCESS));
        assert_eq!(success, Status::INVALID_PARAMETER);
    }

    #[test]
    fn cq_022_a_queue_that_has_broken_down_is_refused() {
        let bad = Status::INVALID_PARAMETER_2;
        for check in [working_completion_queue, working_shared_receive_queue] {
            assert_eq!(status(check(false, bad)), Status::SUCCESS);
            assert_eq!(status(check(true, bad)), bad);
        }
    }
}

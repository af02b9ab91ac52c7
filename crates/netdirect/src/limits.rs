//! The limits of an adapter, for providers.

use crate::{AdapterInfo, Error, QueuePairOptions, Result, SharedReceiveQueueOptions, Status};

/// Checks of providers before they make an object. The statuses are those of the methods of [`Adapter`](crate::Adapter).
impl AdapterInfo {
    /// Checks the sizes of a queue pair with its own Receives.
    ///
    /// # Errors
    ///
    /// [`INVALID_PARAMETER_5`](Status::INVALID_PARAMETER_5) to [`INVALID_PARAMETER_9`](Status::INVALID_PARAMETER_9), for the first
    /// size that is above its limit.
    pub fn check_queue_pair(&self, options: &QueuePairOptions) -> Result<()> {
        check(
            options.receive_queue_depth,
            self.max_receive_queue_depth,
            Status::INVALID_PARAMETER_5,
            "the receive queue depth",
        )?;
        check(
            options.initiator_queue_depth,
            self.max_initiator_queue_depth,
            Status::INVALID_PARAMETER_6,
            "the initiator queue depth",
        )?;
        check(
            options.max_receive_request_sge,
            self.max_receive_sge,
            Status::INVALID_PARAMETER_7,
            "the number of SGEs of a Receive",
        )?;
        check(
            options.max_initiator_request_sge,
            self.max_initiator_sge,
            Status::INVALID_PARAMETER_8,
            "the number of SGEs of a request",
        )?;
        check(
            options.inline_data_size,
            self.max_inline_data_size,
            Status::INVALID_PARAMETER_9,
            "the inline data size",
        )
    }

    /// Checks the sizes of a queue pair with a shared receive queue.
    ///
    /// # Errors
    ///
    /// [`INVALID_PARAMETER_6`](Status::INVALID_PARAMETER_6) (ADPT-070) to
    /// [`INVALID_PARAMETER_8`](Status::INVALID_PARAMETER_8) (ADPT-072), for the first size that is above its limit.
    pub fn check_queue_pair_with_srq(&self, options: &QueuePairOptions) -> Result<()> {
        check(
            options.initiator_queue_depth,
            self.max_initiator_queue_depth,
            Status::INVALID_PARAMETER_6,
            "the initiator queue depth",
        )?;
        check(
            options.max_initiator_request_sge,
            self.max_initiator_sge,
            Status::INVALID_PARAMETER_7, // ADPT-071
            "the number of SGEs of a request",
        )?;
        check(
            options.inline_data_size,
            self.max_inline_data_size,
            Status::INVALID_PARAMETER_8,
            "the inline data size",
        )
    }

    /// Checks the sizes of a shared receive queue.
    ///
    /// # Errors
    ///
    /// - [`INVALID_PARAMETER_3`](Status::INVALID_PARAMETER_3): the depth is above its limit (ADPT-044).
    /// - [`INVALID_PARAMETER_4`](Status::INVALID_PARAMETER_4): so is the number of entries (ADPT-045).
    pub fn check_shared_receive_queue(&self, options: &SharedReceiveQueueOptions) -> Result<()> {
        check(
            options.queue_depth,
            self.max_shared_receive_queue_depth,
            Status::INVALID_PARAMETER_3,
            "the queue depth",
        )?;
        check(
            options.max_request_sge,
            self.max_receive_sge,
            Status::INVALID_PARAMETER_4,
            "the number of SGEs of a Receive",
        )
    }
}

fn check(asked: u32, limit: u32, status: Status, what: &str) -> Result<()> {
    if asked <= limit {
        return Ok(());
    }
    Err(Error::new(
        status,
        format!("{what} is {asked}, but the adapter's limit is {limit}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter() -> AdapterInfo {
        AdapterInfo {
            max_receive_queue_depth: 1,
            max_initiator_queue_depth: 2,
            max_receive_sge: 3,
            max_initiator_sge: 4,
            max_inline_data_size: 5,
            max_shared_receive_queue_depth: 6,
            ..AdapterInfo::default()
        }
    }

    #[test]
    fn adpt_070_adpt_071_adpt_072_each_size_has_the_number_of_its_parameter() {
        let most = QueuePairOptions::default()
            .receive_queue_depth(1)
            .initiator_queue_depth(2)
            .max_receive_request_sge(3)
            .max_initiator_request_sge(4)
            .inline_data_size(5);
        let status = |result: Result<()>| result.map_err(|error| error.status());
        let alone = |options| status(adapter().check_queue_pair(&options));
        let shared = |options| status(adapter().check_queue_pair_with_srq(&options));
        assert_eq!((alone(most), shared(most)), (Ok(()), Ok(())));
        let own = most.receive_queue_depth(2);
        assert_eq!(alone(own), Err(Status::INVALID_PARAMETER_5));
        assert_eq!(shared(own.max_receive_request_sge(4)), Ok(()));
        for (options, of_alone, of_shared) in [
            (
                most.initiator_queue_depth(3),
                Status::INVALID_PARAMETER_6,
                Status::INVALID_PARAMETER_6,
            ),
            (
                most.max_initiator_request_sge(5),
                Status::INVALID_PARAMETER_8,
                Status::INVALID_PARAMETER_7,
            ),
            (
                most.inline_data_size(6),
                Status::INVALID_PARAMETER_9,
                Status::INVALID_PARAMETER_8,
            ),
        ] {
            assert_eq!(alone(options), Err(of_alone));
            assert_eq!(shared(options), Err(of_shared));
        }
        let entries = most.max_receive_request_sge(4);
        assert_eq!(alone(entries), Err(Status::INVALID_PARAMETER_7));
    }

    #[test]
    fn adpt_044_adpt_045_the_sizes_of_a_shared_receive_queue() {
        let mut options = SharedReceiveQueueOptions::default();
        let status = |options: &SharedReceiveQueueOptions| {
            let checked = adapter().check_shared_receive_queue(options);
            checked.map_err(|error| error.status())
        };
        (options.queue_depth, options.max_request_sge) = (6, 3);
        assert_eq!(status(&options), Ok(()));
        options.max_request_sge = 4;
        assert_eq!(status(&options), Err(Status::INVALID_PARAMETER_4));
        options.queue_depth = 7;
        assert_eq!(status(&options), Err(Status::INVALID_PARAMETER_3));
    }
}

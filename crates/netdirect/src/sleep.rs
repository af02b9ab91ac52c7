//! Timers of simulated time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::{Result, SimulatedTime, SimulatedWait};

impl dyn SimulatedTime {
    /// A timer of the simulation: a future that ends when this much of the simulation's time has passed, counted from this call.
    /// It is the `sleep` of a program that runs in a simulation: the time limit of a future, or a pause. Each poll moves the
    /// simulation, as with other futures in a simulation. Dropping the future takes the timer back.
    ///
    /// A thread that waits without futures gives its wait a time limit, such as
    /// [`Overlapped::wait_timeout`](crate::Overlapped::wait_timeout).
    pub fn sleep(self: &Arc<Self>, time: Duration) -> Sleep {
        let at = self.now() + time;
        Sleep {
            alarm: self.set_alarm(at),
            time: Arc::clone(self),
            at,
            wait: SimulatedWait::new(),
        }
    }
}

/// A timer of a simulation, from [`SimulatedTime::sleep`](trait.SimulatedTime.html#method.sleep). The result is an error if the
/// polling thread may not move the simulation.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    time: Arc<dyn SimulatedTime>,
    alarm: u64,
    at: Instant,
    wait: SimulatedWait,
}

impl Future for Sleep {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        let (time, at) = (&this.time, this.at);
        this.wait
            .poll_time(&**time, cx.waker(), || time.now() >= at)
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.time.clear_alarm(self.alarm);
    }
}

//! The context and the protection domain that all identifiers of a device share, for objects for which the program names none.

use std::any::Any;
use std::sync::{Arc, Weak};

use crate::context::Context;
use crate::device::Device;
use crate::error::Result;
use crate::pd::ProtectionDomain;
use crate::process::Process;

/// A context and a protection domain, one of each for a device as long as an identifier holds them.
#[derive(Debug)]
pub struct SharedDevice {
    context: Arc<Context>,
    pd: Arc<ProtectionDomain>,
}

impl SharedDevice {
    /// The context and protection domain of a device, which is opened unless it is open for identifiers already.
    ///
    /// # Errors
    ///
    /// Those of [`Context::open`] and [`ProtectionDomain::allocate`].
    pub fn get(process: &Arc<Process>, device: &Arc<Device>) -> Result<Arc<Self>> {
        let mut all = process.shared_devices.lock();
        let known = all.get(&device.index()).and_then(Weak::upgrade);
        if let Some(Ok(known)) = known.map(Arc::downcast::<Self>) {
            return Ok(known);
        }
        let context = Context::open(process, device)?;
        let pd = ProtectionDomain::allocate(&context)?;
        let made = Arc::new(Self { context, pd });
        let weak: Weak<dyn Any + Send + Sync> = Arc::<Self>::downgrade(&made);
        all.insert(device.index(), weak);
        Ok(made)
    }

    /// The context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The protection domain.
    pub fn pd(&self) -> &Arc<ProtectionDomain> {
        &self.pd
    }
}

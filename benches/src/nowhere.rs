//! A `Memory` without any octets.

use iwarp::{
    Access, AccessError, AtomicError, AtomicOp, BindError, Crc, InvalidateError, LocalAccess,
    Memory, MessageEnd, RemoteAddress, Revoked, STag, Scope, Sge, Span, WindowBind, WindowId,
};

/// A memory that grants everything and copies nothing, so that only the engine is measured. With a CRC, the octets of the
/// destination go into the CRC instead of copied ones, so that CRCs are consistent and have their real cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl Memory for Nowhere {
    fn check(&self, at: RemoteAddress, len: u32, _: Access, _: Scope) -> Result<Span, AccessError> {
        Ok(Span::new(0, 0, 0, at.to, len))
    }

    fn check_local(&self, sge: Sge, _: LocalAccess, _: iwarp::Pd) -> Result<Span, AccessError> {
        Ok(Span::new(0, 0, 0, sge.address, sge.length))
    }

    fn place(&self, _: Span, _: &[u8], _: MessageEnd) -> Result<(), Revoked> {
        Ok(())
    }

    fn fetch(&self, _: Span, dst: &mut [u8], crc: Option<&mut Crc>) -> Result<(), Revoked> {
        if let Some(crc) = crc {
            crc.update(dst);
        }
        Ok(())
    }

    fn atomic(&self, _: Span, op: AtomicOp) -> Result<u64, AtomicError> {
        Ok(op.apply(0))
    }

    fn bind(&self, _: &WindowBind, _: Scope) -> Result<(), BindError> {
        Ok(())
    }

    fn unbind(&self, _: WindowId, _: Scope) -> Result<(), BindError> {
        Ok(())
    }

    fn invalidate_remote(&self, _: STag, _: Scope) -> Result<(), InvalidateError> {
        Ok(())
    }
}

//! Memory windows.

use std::ptr;

use conform_report::{Pass, Verdict, ensure};
use netdirect::{OpFlags, Status};
use netdirect_conform::{Check, Unopened};

use crate::call::call;
use crate::client::Client;
use crate::common::{check, status};
use crate::link::Link;
use crate::open_adapter::OpenAdapter;

pub(crate) const CHECKS: &[Check] = &[check(
    "MW-013.token",
    "makes a window by its identifier, and has the peer write with the token that version 2 gives it",
    write_through,
)
.also(&["AMB-059"])];

fn write_through(unopened: Unopened) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let link = Link::new(&near)?;
    let (active, passive) = (&link.active, &link.passive);
    let window = near.window()?;
    near.step("Bind");
    let (start, len) = (passive.buffer.as_ptr(), passive.buffer.len());
    let returned = call!(
        &passive.qp,
        bind(
            ptr::without_provenance_mut(1),
            passive.region.this(),
            window.this(),
            start.cast_const().cast(),
            len,
            OpFlags::ALLOW_WRITE.bits()
        )
    );
    status("Bind", Status::SUCCESS, returned)?;
    passive.succeeds(&near, 1)?;
    near.step("GetRemoteToken of the window");
    let token = call!(&window, get_remote_token());
    passive.receive(&near, 2)?;
    active.buffer.fill(0x77);
    near.step("Write");
    let (sge, to) = (active.sge(), passive.buffer.address());
    let returned = call!(
        &active.qp,
        write(
            ptr::without_provenance_mut(3),
            &raw const sge,
            1,
            to,
            token,
            0
        )
    );
    status("Write", Status::SUCCESS, returned)?;
    active.succeeds(&near, 3)?;
    // A message sent behind the Write arrives after it, which proves that the Write has arrived.
    active.send(&near, 4)?;
    active.succeeds(&near, 4)?;
    passive.succeeds(&near, 2)?;
    let octets = passive.buffer.to_vec();
    ensure(
        octets.iter().all(|octet| *octet == 0x77),
        "what was written through the window",
        format!("{octets:?}"),
    )?;
    Ok(Pass::Right)
}

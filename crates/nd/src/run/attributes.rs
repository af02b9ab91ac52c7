//! The files of adapters below `/sys` and `/dev`, as the kernel would write them for softnd's devices.
//!
//! The figures are those of `libibverbs`. Programs read these files in addition to calling the library: perftest, UCX, libfabric, NCCL and
//! hwloc look for the node type, the link layer, the GIDs with their types and network interfaces, and the place of the device.

use std::fmt::Write as _;

use softverbs::{Device, DeviceKind};

/// A file or a link of the tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The text of a file.
    File(String),
    /// The target of a link.
    Link(String),
}

/// Counters of a port, which softnd does not count.
const COUNTERS: [&str; 17] = [
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
];

/// The entries of the tree, with their paths relative to its root.
#[derive(Debug, Default)]
pub(super) struct Entries(pub(super) Vec<(String, Entry)>);

impl Entries {
    pub(super) fn for_devices(devices: &[impl AsRef<Device>]) -> Self {
        let mut entries = Self::default();
        entries.file("sys/class/infiniband_verbs/abi_version", "6");
        entries.link("dev/infiniband/rdma_cm", "/dev/null");
        for device in devices {
            let device = device.as_ref();
            entries.adapter(device);
            entries.verbs(device);
        }
        entries
    }

    fn file(&mut self, path: &str, line: &str) {
        let text = Entry::File(format!("{line}\n"));
        self.0.push((path.to_owned(), text));
    }

    fn link(&mut self, path: &str, to: &str) {
        self.0.push((path.to_owned(), Entry::Link(to.to_owned())));
    }

    /// The folder of a device without a bus, and the links from and to its class.
    fn device(&mut self, class: &str, name: &str) -> String {
        let folder = format!("devices/virtual/{class}/{name}");
        self.link(
            &format!("sys/class/{class}/{name}"),
            &format!("../../{folder}"),
        );
        let folder = format!("sys/{folder}");
        self.link(
            &format!("{folder}/subsystem"),
            &format!("../../../../class/{class}"),
        );
        folder
    }

    /// `/sys/class/infiniband/NAME`.
    fn adapter(&mut self, device: &Device) {
        let name = device.name();
        let folder = self.device("infiniband", name);
        let guid = groups_of(&device.guid());
        let node_type = match device.kind() {
            DeviceKind::Iwarp => "4: RNIC",
            _ => "1: CA",
        };
        for (file, line) in [
            ("node_type", node_type),
            ("node_guid", &guid),
            ("sys_image_guid", &guid),
            ("node_desc", name),
            ("fw_ver", env!("CARGO_PKG_VERSION")),
            ("hw_rev", "0x0"),
            ("hca_type", "softnd"),
            ("board_id", "softnd"),
            ("uevent", &format!("NAME={name}")),
        ] {
            self.file(&format!("{folder}/{file}"), line);
        }
        self.port(device, &format!("{folder}/ports/1"));
        let interface = &device.interface().name;
        let verbs = format!("uverbs{}", device.index());
        self.file(&format!("{folder}/device/numa_node"), "-1");
        self.link(
            &format!("{folder}/device/net/{interface}"),
            &format!("/sys/class/net/{interface}"),
        );
        self.link(
            &format!("{folder}/device/infiniband_verbs/{verbs}"),
            &format!("../../../../infiniband_verbs/{verbs}"),
        );
    }

    fn port(&mut self, device: &Device, folder: &str) {
        for (file, line) in [
            ("state", "4: ACTIVE"),
            ("phys_state", "5: LinkUp"),
            ("rate", "40 Gb/sec (4X QDR)"),
            ("link_layer", "Ethernet"),
            ("lid", "0x0"),
            ("lid_mask_count", "0"),
            ("sm_lid", "0x0"),
            ("sm_sl", "0"),
            ("cap_mask", "0x04010000"),
            ("pkeys/0", "0xffff"),
        ] {
            self.file(&format!("{folder}/{file}"), line);
        }
        let kind = match device.kind() {
            DeviceKind::Iwarp => "IB/RoCE v1",
            _ => "RoCE v2",
        };
        let interface = &device.interface().name;
        for entry in device.gids() {
            let index = entry.index;
            self.file(
                &format!("{folder}/gids/{index}"),
                &groups_of::<16>(&entry.gid),
            );
            self.file(&format!("{folder}/gid_attrs/types/{index}"), kind);
            self.file(&format!("{folder}/gid_attrs/ndevs/{index}"), interface);
        }
        for counter in COUNTERS {
            self.file(&format!("{folder}/counters/{counter}"), "0");
        }
    }

    /// `/sys/class/infiniband_verbs/uverbsN`, and the device node. Nodes lead to `/dev/null`, whose number this is: programs test for a
    /// character device that they can read and write.
    fn verbs(&mut self, device: &Device) {
        let name = format!("uverbs{}", device.index());
        let folder = self.device("infiniband_verbs", &name);
        for (file, line) in [
            ("ibdev", device.name()),
            ("abi_version", "1"),
            ("dev", "1:3"),
            (
                "uevent",
                &format!("MAJOR=1\nMINOR=3\nDEVNAME=infiniband/{name}"),
            ),
        ] {
            self.file(&format!("{folder}/{file}"), line);
        }
        let adapter = device.name();
        self.link(
            &format!("{folder}/device"),
            &format!("../../infiniband/{adapter}/device"),
        );
        self.link(&format!("dev/infiniband/{name}"), "/dev/null");
    }
}

/// Octets in groups of two, as the kernel writes GUIDs and GIDs.
fn groups_of<const LEN: usize>(octets: &[u8; LEN]) -> String {
    let mut text = String::new();
    for (index, octet) in octets.iter().enumerate() {
        if index > 0 && index % 2 == 0 {
            text.push(':');
        }
        write!(text, "{octet:02x}").expect("a String takes everything");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::groups_of;

    #[test]
    fn numbers_are_written_in_groups() {
        let guid = [2, 0x42, 0xAC, 0xFF, 0xFE, 0x11, 0, 2];
        assert_eq!(groups_of(&guid), "0242:acff:fe11:0002");
    }
}

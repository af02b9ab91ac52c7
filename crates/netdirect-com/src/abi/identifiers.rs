//! Identifiers of interfaces.

use std::fmt;

/// `GUID`, `IID`, `CLSID`: 16 octets that name an interface or a class.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Guid {
    /// `Data1`.
    pub data1: u32,
    /// `Data2`.
    pub data2: u16,
    /// `Data3`.
    pub data3: u16,
    /// `Data4`.
    pub data4: [u8; 8],
}

impl Guid {
    /// The identifier whose text form is `{data1-data2-data3-d4a-d4b}`, where `d4a` has 4 hexadecimal digits and `d4b` 12.
    pub const fn new(data1: u32, data2: u16, data3: u16, data4: u64) -> Self {
        Self {
            data1,
            data2,
            data3,
            data4: data4.to_be_bytes(),
        }
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data4 = u64::from_be_bytes(self.data4);
        write!(
            f,
            "{{{:08X}-{:04X}-{:04X}-{:04X}-{:012X}}}",
            self.data1,
            self.data2,
            self.data3,
            data4 >> 48,
            data4 & 0xFFFF_FFFF_FFFF
        )
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `IID_IUnknown`.
pub const IID_IUNKNOWN: Guid = Guid::new(0, 0, 0, 0xC000_0000_0000_0046);
/// `IID_IClassFactory`.
pub const IID_CLASS_FACTORY: Guid = Guid::new(1, 0, 0, 0xC000_0000_0000_0046);
/// `IID_IND2Provider`.
pub const IID_ND2_PROVIDER: Guid = Guid::new(0x49EA_E6C1, 0x76C4, 0x46D0, 0x8003_5C2E_AA2C_9A8E);
/// `IID_IND2Overlapped`.
pub const IID_ND2_OVERLAPPED: Guid = Guid::new(0xABF7_2719, 0xB016, 0x4A40, 0xA6F7_6227_91A7_044C);
/// `IID_IND2Adapter`.
pub const IID_ND2_ADAPTER: Guid = Guid::new(0xD89C_798C, 0x4823, 0x4D69, 0x846C_DFDC_CFF9_E5F3);
/// `IID_IND2CompletionQueue`.
pub const IID_ND2_COMPLETION_QUEUE: Guid =
    Guid::new(0x20CC_445E, 0x64A0, 0x4CBB, 0xAA75_F6A7_251F_DA9E);
/// `IID_IND2MemoryRegion`.
pub const IID_ND2_MEMORY_REGION: Guid =
    Guid::new(0x55DF_EA2F, 0xBC56, 0x4982, 0x8A45_0301_BE46_C413);
/// `IID_IND2MemoryWindow`.
pub const IID_ND2_MEMORY_WINDOW: Guid =
    Guid::new(0x070F_E1F5, 0x0AB5, 0x4361, 0x88DB_974B_A704_D4B9);
/// `IID_IND2SharedReceiveQueue`.
pub const IID_ND2_SHARED_RECEIVE_QUEUE: Guid =
    Guid::new(0xAABD_67DC, 0x459A, 0x4DB1, 0x826B_56CF_CC27_8883);
/// `IID_IND2QueuePair`.
pub const IID_ND2_QUEUE_PAIR: Guid = Guid::new(0xEEF2_F332, 0xB75D, 0x4063, 0xBCE3_3A0B_AD2D_02CE);
/// `IID_IND2Connector`.
pub const IID_ND2_CONNECTOR: Guid = Guid::new(0x7DD6_15C4, 0x6B4C, 0x4866, 0x950C_F3B1_D25A_5302);
/// `IID_IND2Listener`.
pub const IID_ND2_LISTENER: Guid = Guid::new(0x65D2_3D83, 0x3A57, 0x4E02, 0x86A4_3501_65C2_D130);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_shown_as_the_catalogue_writes_it() {
        assert_eq!(
            IID_ND2_PROVIDER.to_string(),
            "{49EAE6C1-76C4-46D0-8003-5C2EAA2C9A8E}"
        );
        assert_eq!(
            IID_IUNKNOWN.to_string(),
            "{00000000-0000-0000-C000-000000000046}"
        );
    }
}

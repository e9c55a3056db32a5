//! What was measured of a processor.

use super::bound::Ports;
use super::width::Width;

/// Measured ports, by width.
pub struct Model {
    pub(super) widths: Vec<(Width, Ports)>,
}

impl Model {
    /// What is known of registers of this width; nothing where the processor has none.
    pub fn ports(&self, width: Width) -> Option<&Ports> {
        let mut widths = self.widths.iter();
        widths.find(|(of, _)| *of == width).map(|(_, ports)| ports)
    }
}

//! QR codes of the lines of a key.

use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode, Version};

/// Lines that one code has: then codes are no wider than a terminal of 80 columns.
const LINES_OF_A_CODE: usize = 8;

/// What stands between two lines: unlike a newline it takes little room.
const LINE_END: &str = "/";

/// Codes drawn with characters. On paper these are the dark modules; on a terminal, which is dark
/// more often than light, they are the light ones.
pub fn codes(lines: &[String], on_terminal: bool) -> impl Iterator<Item = String> + '_ {
    let (dark, light) = if on_terminal {
        (Dense1x2::Light, Dense1x2::Dark)
    } else {
        (Dense1x2::Dark, Dense1x2::Light)
    };
    lines.chunks(LINES_OF_A_CODE).map(move |lines| {
        let text = lines.join(LINE_END).replace(' ', "").to_uppercase();
        let code = QrCode::with_version(text, Version::Normal(13), EcLevel::M);
        let code = code.expect("so many lines fit");
        let mut drawing = code.render::<Dense1x2>();
        drawing.dark_color(dark).light_color(light).build()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_fit_a_terminal() {
        let line = format!("{:02}: {} - ffff", 10, ["ffff"; 12].join(" "));
        let lines = vec![line; 30];
        let codes: Vec<String> = codes(&lines, true).collect();
        assert_eq!(codes.len(), 4);
        for line in codes.iter().flat_map(|code| code.lines()) {
            assert_eq!(line.chars().count(), 77);
        }
    }
}

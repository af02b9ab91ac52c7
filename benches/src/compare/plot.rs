//! The comparison as drawings: half round trips and rates of all programs over the size of messages.

use nd_perf::plot::{self, Colour, Curve, Marker, Panel, Points, SIZES, Stroke};

use super::one_machine::{SHM_ONE_WAY, SHM_PING_PONG};
use super::page::Findings;
use super::turns::{
    DEVICE_ONE_WAY, DEVICE_PING_PONG, Figure, ONE_WAY, PING_PONG, Size, UDP_ONE_WAY, UDP_PING_PONG,
};

/// The name of a file, and the drawing for it.
pub type Drawing = (String, String);

/// A drawing for each round over TCP, one of UDP, one of a device and one of shared memory, if these were measured.
#[must_use]
pub fn drawings(findings: &Findings) -> Vec<Drawing> {
    let rounds = findings.rounds.iter().map(|round| {
        let name = format!("tcp-{}", round.congestion);
        drawing(&name, &round.sizes, &PING_PONG, &ONE_WAY)
    });
    let udp = drawing("udp", &findings.udp, &UDP_PING_PONG, &UDP_ONE_WAY);
    let on_device = findings.device.iter();
    let on_device =
        on_device.map(|(_, sizes)| drawing("verbs", sizes, &DEVICE_PING_PONG, &DEVICE_ONE_WAY));
    let shm = drawing("shm", &findings.shm, &SHM_PING_PONG, &SHM_ONE_WAY);
    let parts = rounds.chain([udp]).chain(on_device).chain([shm]);
    parts.flatten().collect()
}

fn drawing(
    name: &str,
    sizes: &[Size],
    times: &[(&str, Figure)],
    rates: &[(&str, Figure)],
) -> Option<Drawing> {
    let ping_pong = Panel {
        title: "Half a round trip, median",
        unit: plot::time,
        over: SIZES,
        curves: curves(sizes, times),
    };
    let one_way = Panel {
        title: "One way, median",
        unit: plot::rate,
        over: SIZES,
        curves: curves(sizes, rates),
    };
    let svg = plot::svg(vec![ping_pong, one_way])?;
    Some((format!("compared-{name}.svg"), svg))
}

/// The curves of programs that were measured, softnd's before the others.
fn curves(sizes: &[Size], figures: &[(&str, Figure)]) -> Vec<(Curve, Points)> {
    let points = |figure: Figure| -> Points {
        let points = sizes.iter().filter_map(|size| {
            let octets = u32::try_from(size.octets).ok()?;
            let value = size.median(figure).filter(|value| *value > 0.0)?;
            Some((octets, value))
        });
        points.collect()
    };
    let curves = figures
        .iter()
        .map(|(head, figure)| (look(head), points(*figure)));
    let mut curves: Vec<_> = curves.filter(|(_, points)| !points.is_empty()).collect();
    curves.sort_by_key(|(curve, _)| !is_ours(&curve.label));
    curves
}

fn is_ours(head: &str) -> bool {
    head.starts_with("softnd")
}

/// The style of the curve with this head of a table: the colour is that of the operation, or of the program where there is but one.
fn look(head: &str) -> Curve {
    let operation = head.split(' ').next_back();
    let (colour, marker) = match (operation, head.split(' ').next()) {
        (_, Some("UCX")) => (Colour::Purple, Marker::Square),
        (_, Some("libfabric")) => (Colour::Brown, Marker::Diamond),
        (Some("Send"), _) => (Colour::Blue, Marker::Circle),
        (Some("Write"), _) => (Colour::Orange, Marker::Circle),
        (Some("Read"), _) => (Colour::Green, Marker::Circle),
        _ => (Colour::Grey, Marker::Circle),
    };
    let (colour, marker) = match head {
        "UCX cma put" => (Colour::Brown, Marker::Square),
        _ => (colour, marker),
    };
    let stroke = match (operation, colour) {
        (Some("put" | "cold"), _) => Stroke::Dotted,
        _ if head.contains("over TCP") || head.starts_with("UCX cma") => Stroke::Dashed,
        _ if head == "memcpy" => Stroke::Solid,
        (_, Colour::Purple | Colour::Brown) => Stroke::Solid,
        _ if is_ours(head) => Stroke::Solid,
        _ => Stroke::Dashed,
    };
    Curve {
        label: head.to_owned(),
        colour,
        stroke,
        marker,
        hollow: stroke != Stroke::Solid,
    }
}

#[cfg(test)]
mod tests {
    use super::super::page::Round;
    use super::super::turns::tests::sizes;
    use super::*;

    fn findings() -> Findings {
        let round = |congestion: &str| Round {
            congestion: congestion.to_owned(),
            chosen: "for this test",
            sizes: sizes(),
        };
        Findings {
            rounds: vec![round("bbr"), round("cubic")],
            udp: sizes(),
            device: Some(("siw0".to_owned(), sizes())),
            shm: sizes(),
            ..Findings::default()
        }
    }

    #[test]
    fn every_part_has_a_drawing_with_all_programs() {
        let drawings = drawings(&findings());
        let names: Vec<_> = drawings.iter().map(|(name, _)| &**name).collect();
        assert_eq!(
            names,
            [
                "compared-tcp-bbr.svg",
                "compared-tcp-cubic.svg",
                "compared-udp.svg",
                "compared-verbs.svg",
                "compared-shm.svg"
            ]
        );
        for (at, figures) in [
            (1, PING_PONG.iter().chain(&ONE_WAY)),
            (2, UDP_PING_PONG.iter().chain(&UDP_ONE_WAY)),
            (3, DEVICE_PING_PONG.iter().chain(&DEVICE_ONE_WAY)),
            (4, SHM_PING_PONG.iter().chain(&SHM_ONE_WAY)),
        ] {
            for (head, _) in figures {
                // Its own place in the legend.
                let label = format!(">{head}</text>");
                assert_eq!(drawings[at].1.matches(&label).count(), 1, "{head}");
            }
        }
    }

    #[test]
    fn no_two_programs_look_alike() {
        for figures in [
            PING_PONG.iter().chain(&ONE_WAY),
            UDP_PING_PONG.iter().chain(&UDP_ONE_WAY),
            DEVICE_PING_PONG.iter().chain(&DEVICE_ONE_WAY),
            SHM_PING_PONG.iter().chain(&SHM_ONE_WAY),
        ] {
            let mut seen: Vec<Curve> = Vec::new();
            for line in figures.map(|(head, _)| look(head)) {
                let alike =
                    |other: &&Curve| (other.colour, other.stroke) == (line.colour, line.stroke);
                let other = seen.iter().find(alike);
                assert!(
                    other.is_none_or(|other| *other == line),
                    "{line:?} {other:?}"
                );
                seen.push(line);
            }
        }
    }

    #[test]
    fn what_was_not_measured_is_not_drawn() {
        assert_eq!(drawings(&Findings::default()), []);
        let mut findings = findings();
        (findings.udp, findings.device) = (Vec::new(), None);
        findings.shm = Vec::new();
        for round in &mut findings.rounds {
            for turn in round.sizes.iter_mut().flat_map(|size| &mut size.turns) {
                turn.fabric_ping_pong = None;
            }
        }
        let drawings = drawings(&findings);
        assert_eq!(drawings.len(), 2);
        assert!(drawings.iter().all(|(_, svg)| !svg.contains("libfabric")));
    }
}

//! Checks, rows and documentation agree.

use std::collections::HashSet;

use iwarp_conform::{checks, rows};

#[test]
fn every_check_has_a_name_of_its_own() {
    let mut names = HashSet::new();
    for check in checks() {
        assert!(names.insert(check.name), "{} twice", check.name);
        assert!(check.name.contains('.'), "{}", check.name);
    }
    assert!(names.len() >= 300, "{}", names.len());
}

#[test]
fn every_row_that_a_check_names_exists() {
    let known: HashSet<&str> = rows::all().map(|row| row.id).collect();
    assert_eq!(known.len(), 360);
    for check in checks() {
        for row in check.rows() {
            assert!(known.contains(row), "{row} of {}", check.name);
        }
    }
}

#[test]
fn every_row_has_a_check_or_a_reason() {
    for row in rows::all() {
        let without = rows::checks_of(row.id).is_empty();
        if without {
            assert!(
                !rows::why_unchecked(&row).is_empty(),
                "{}: {}",
                row.id,
                row.rule
            );
        } else {
            assert!(
                rows::reason(row.id).is_none(),
                "{} has checks and a reason",
                row.id
            );
        }
    }
}

#[test]
fn checks_run_section_by_section() {
    let sections: Vec<_> = checks().map(|check| check.section).collect();
    assert!(sections.is_sorted(), "what may upset a target comes last");
}

#[test]
fn a_prefix_means_no_other_layer() {
    let meant = |text: &str| {
        checks()
            .filter(|check| check.is_meant_by(text))
            .map(|check| check.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(meant("MPA-053.sent"), ["MPA-053.sent"]);
    assert!(meant("MPA").contains(&"MPA-053.sent"));
    assert!(!meant("MPA").contains(&"MPA2-012.one"));
    assert!(meant("MPA2").contains(&"MPA2-012.one"));
    assert!(
        meant("SEC-010").contains(&"RDMAP-067.shared"),
        "by a further row"
    );
    assert!(meant("nothing").is_empty());
}

//! Checks and rows agree.

use std::collections::HashSet;

use netdirect_conform::{checks, deviations, rows};

#[test]
fn every_check_has_a_name_of_its_own() {
    let mut names = HashSet::new();
    for check in checks() {
        assert!(names.insert(check.name), "{} twice", check.name);
        assert!(check.name.contains('.'), "{}", check.name);
        assert!(!check.title.ends_with('.'), "{}", check.name);
    }
    assert!(names.len() >= 140, "{}", names.len());
}

#[test]
fn the_data_of_the_rows_is_well_formed() {
    let mut ids = HashSet::new();
    for row in rows::all() {
        assert!(ids.insert(&row.id), "{} twice", row.id);
        assert!(!row.text.is_empty(), "{}", row.id);
        assert_eq!(
            row.unproven.is_empty(),
            row.because.is_empty(),
            "{}",
            row.id
        );
    }
    assert_eq!(ids.len(), 833);
}

#[test]
fn every_row_that_a_check_names_exists_and_can_be_proven() {
    for check in checks() {
        let mut own = HashSet::new();
        for id in check.rows() {
            assert!(own.insert(id), "{} names {id} twice", check.name);
            let row = rows::find(id).unwrap_or_else(|| panic!("{id} of {}", check.name));
            assert!(
                row.unproven.is_empty(),
                "{} proves {id}, which no program can prove: {}",
                check.name,
                row.because
            );
        }
    }
}

#[test]
fn checks_run_interface_by_interface() {
    let interfaces: Vec<_> = checks().map(|check| check.interface).collect();
    assert!(interfaces.is_sorted(), "{interfaces:?}");
}

#[test]
fn deviations_may_depend_on_the_profile() {
    let one = |more: &str| {
        format!("[[deviation]]\ncheck = 'ADPT-020'\nreason = 'x'\nsource = 'y'\n{more}\n")
    };
    assert!(deviations::parse(&one("")).is_ok());
    assert!(deviations::parse(&one("profile = 'strict'")).is_ok());
    for wrong in ["profile = 'x'", "crc = 'on'"] {
        assert!(deviations::parse(&one(wrong)).is_err(), "{wrong}");
    }
    assert!(deviations::parse(&one("").replace("ADPT-020", "ADPT-999")).is_err());
}

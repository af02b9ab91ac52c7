use super::*;

/// The SHA-256 of "abc" (FIPS 180-2, B.1).
const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[test]
fn a_fingerprint_is_the_sha_256_of_the_certificate() {
    assert_eq!(Fingerprint::from_certificate(b"abc").to_string(), ABC);
    assert_eq!(format!("{:?}", Fingerprint::from_certificate(b"abc")), ABC);
    let (certificate, key) = self_signed();
    let credentials = Credentials::new(vec![certificate.clone()], key).unwrap();
    assert_eq!(
        credentials.fingerprint(),
        Fingerprint::from_certificate(&certificate)
    );
}

#[test]
fn a_fingerprint_is_read_as_it_is_printed_and_as_openssl_prints_it() {
    let expected = Ok(Fingerprint::from_certificate(b"abc"));
    let digits = ABC.strip_prefix("sha256:").unwrap();
    let octets: Vec<_> = digits.as_bytes().chunks(2).collect();
    let with_colons = str::from_utf8(&octets.join(&b':')).unwrap().to_owned();
    for text in [
        digits.to_owned(),
        digits.to_uppercase(),
        with_colons.clone(),
        with_colons.to_uppercase(),
    ] {
        assert_eq!(format!("sha256:{text}").parse(), expected, "{text}");
    }
}

#[test]
fn a_wrong_fingerprint_is_told_what_is_wrong_with_it() {
    let digits = "00".repeat(32);
    let with_colons = ["00"; 32].join(":");
    for (text, problem) in [
        (String::new(), "this text does not begin with `sha256:`"),
        (digits.clone(), "this text does not begin with `sha256:`"),
        (
            format!("SHA256:{digits}"),
            "this text does not begin with `sha256:`",
        ),
        (
            format!("sha1:{digits}"),
            "this text does not begin with `sha256:`",
        ),
        ("sha256:".to_owned(), "64 digits are missing"),
        (format!("sha256:{}", &digits[1..]), "1 digits are missing"),
        (format!("sha256:{digits}00"), "there are 2 digits too many"),
        (
            format!("sha256: {digits}"),
            "' ' is no such digit (character 8)",
        ),
        (
            format!("sha256:{}g0", &digits[2..]),
            "'g' is no such digit (character 70)",
        ),
        (
            format!("sha256:{}ö0", &digits[2..]),
            "'ö' is no such digit (character 70)",
        ),
        (
            format!("sha256:{digits}\n"),
            "'\\n' is no such digit (character 72)",
        ),
        (
            format!("sha256::{digits}"),
            "colons stand between all octets, or nowhere",
        ),
        (
            format!("sha256:{with_colons}:"),
            "colons stand between all octets, or nowhere",
        ),
        (
            format!("sha256:00:{}", &digits[2..]),
            "colons stand between all octets, or nowhere",
        ),
        (
            format!("sha256:0:0{}", &with_colons[2..]),
            "colons stand between all octets, or nowhere",
        ),
        (
            format!("sha256:0:000{}", &with_colons[5..]),
            "colons stand between all octets, or nowhere",
        ),
    ] {
        let error = text.parse::<Fingerprint>().unwrap_err();
        let expected = format!("a fingerprint is `sha256:` and 64 hexadecimal digits; {problem}");
        assert_eq!(error.to_string(), expected, "{text:?}");
    }
}

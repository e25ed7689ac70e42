//! A secret in configuration: read in plain, never written in plain.

use std::fmt;

use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What stands for the value wherever it is shown.
const HIDDEN: &str = "[hidden]";

/// A configured secret value. `Debug` and `Serialize` give `[hidden]`; it is wiped from memory when dropped.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(SecretString::from(value.into()))
    }

    /// The value itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// The value for the redaction set.
    pub fn to_secret_string(&self) -> SecretString {
        self.0.clone()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(HIDDEN)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_nothing_of_its_value() {
        let secret: Secret = serde_json::from_str(r#""canary-value""#).unwrap();
        assert_eq!(format!("{secret:?}"), "[hidden]");
        assert_eq!(serde_json::to_string(&secret).unwrap(), r#""[hidden]""#);
        assert_eq!(secret.expose(), "canary-value");
    }
}

//! Reads the files of Amazon's own tools: `~/.aws/credentials` and `~/.aws/config`.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::error::{StorageError, StorageErrorKind};

/// Keys and region of a profile, as far as the files have them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Access key and secret key.
    pub keys: Option<(String, String)>,
    /// Session token of temporary keys.
    pub token: Option<String>,
    /// Region of the buckets.
    pub region: Option<String>,
}

/// The profile that `AWS_PROFILE` names, or the default one.
///
/// # Errors
/// When the named profile has no keys.
pub fn read() -> Result<Profile, StorageError> {
    let named = std::env::var("AWS_PROFILE").ok();
    let text = |variable: &str, usual: &str| {
        let path = match std::env::var_os(variable) {
            Some(path) => PathBuf::from(path),
            None => std::env::home_dir()?.join(".aws").join(usual),
        };
        std::fs::read_to_string(path).ok()
    };
    let credentials = text("AWS_SHARED_CREDENTIALS_FILE", "credentials").unwrap_or_default();
    let config = text("AWS_CONFIG_FILE", "config").unwrap_or_default();
    let profile = parse(&credentials, &config, named.as_deref().unwrap_or("default"));
    match (named, &profile.keys) {
        (Some(name), None) => Err(StorageError::new(
            StorageErrorKind::Permanent,
            format!("profile {name:?} has no keys in ~/.aws/credentials"),
        )),
        _ => Ok(profile),
    }
}

fn parse(credentials: &str, config: &str, name: &str) -> Profile {
    let mut keys = section(credentials, name);
    // The config file says `profile` before all names but one.
    let settings = match name {
        "default" => section(config, name),
        _ => section(config, &format!("profile {name}")),
    };
    let id = keys.remove("aws_access_key_id");
    let secret = keys.remove("aws_secret_access_key");
    Profile {
        keys: id.zip(secret),
        token: keys.remove("aws_session_token"),
        region: settings.get("region").cloned(),
    }
}

/// The settings of one section.
fn section(text: &str, name: &str) -> HashMap<String, String> {
    let mut settings = HashMap::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(title) = line.strip_prefix('[') {
            inside = title.trim_end_matches(']').trim() == name;
        } else if let Some((key, value)) = line.split_once('=')
            && inside
            && !line.starts_with(['#', ';'])
        {
            settings.insert(key.trim().to_owned(), value.trim().to_owned());
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_found_by_name() {
        let credentials = "\
[default]
aws_access_key_id = ONE
aws_secret_access_key=a=b/c+

# [other]
[ other ]
aws_access_key_id=TWO
; aws_secret_access_key=no
aws_secret_access_key = two
aws_session_token = token
[half]
aws_access_key_id=THREE
";
        let config =
            "[default]\nregion=eu-west-1\n[profile other]\nregion = us-west-2\n[half]\nregion=no\n";
        let keys = |id: &str, secret: &str| Some((id.to_owned(), secret.to_owned()));
        let profile = parse(credentials, config, "default");
        assert_eq!(profile.keys, keys("ONE", "a=b/c+"));
        assert_eq!(profile.token, None);
        assert_eq!(profile.region.as_deref(), Some("eu-west-1"));
        let profile = parse(credentials, config, "other");
        assert_eq!(profile.keys, keys("TWO", "two"));
        assert_eq!(profile.token.as_deref(), Some("token"));
        assert_eq!(profile.region.as_deref(), Some("us-west-2"));
        for name in ["half", "none"] {
            assert_eq!(parse(credentials, config, name), Profile::default());
        }
    }
}

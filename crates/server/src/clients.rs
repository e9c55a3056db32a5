//! The file that lists clients: names, roles, repositories, quotas, tokens.
//!
//! ```toml
//! [[client]]
//! name = "laptop"
//! role = "append"
//! repositories = ["laptop"]
//! quota = 536870912000     # bytes
//! token = "6f3c…"     # what `tabane serve add` wrote: the BLAKE3 of the token
//!
//! [[client]]
//! name = "desktop"
//! role = "append"
//! repositories = ["desktop"]
//! certificate = "90b1…"     # the BLAKE3 of the certificate in DER
//! ```

use std::collections::HashSet;
use std::fmt::Write as _;

use constant_time_eq::constant_time_eq_32;
use toml::de::{DeTable, DeValue};

use tabane_storage::{Role, is_repository_name};

/// Random bytes of a token.
const TOKEN_LEN: usize = 32;

/// A client that the file lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its name, which a certificate has as a DNS name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The repositories that there are for it.
    pub repositories: Vec<String>,
    /// Bytes that a repository may have after the client has added to it.
    pub quota: Option<u64>,
    /// The BLAKE3 of its token.
    pub token_hash: Option<[u8; 32]>,
    /// The BLAKE3 of its certificate in DER. With neither this nor a token, every certificate with
    /// its name is its own.
    pub certificate_hash: Option<[u8; 32]>,
}

/// All clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clients(Vec<Client>);

impl Clients {
    /// Parses the file.
    ///
    /// # Errors
    /// A sentence that names the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let line = |at: usize| 1 + text[..at].matches('\n').count();
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(1, |span| line(span.start));
            format!("line {at}: {}", error.message().trim())
        })?;
        let mut clients = Vec::new();
        let mut names = HashSet::new();
        for (key, value) in table.get_ref() {
            let at = line(key.span().start);
            let (name, value) = (key.get_ref().as_ref(), value.get_ref());
            let ("client", DeValue::Array(entries)) = (name, value) else {
                return Err(format!("line {at}: {name} is none of [[client]]"));
            };
            for entry in entries {
                let at = line(entry.span().start);
                let DeValue::Table(entry) = entry.get_ref() else {
                    return Err(format!("line {at}: a client is a [[client]]"));
                };
                let client = parse_client(entry).map_err(|why| format!("line {at}: {why}"))?;
                if !names.insert(client.name.clone()) {
                    return Err(format!("line {at}: two clients are called {}", client.name));
                }
                clients.push(client);
            }
        }
        Ok(Self(clients))
    }

    /// The client with this token. All clients are compared, each in constant time.
    pub fn by_token(&self, token: &[u8]) -> Option<&Client> {
        let hash = *blake3::hash(token).as_bytes();
        let mut found = None;
        for client in &self.0 {
            let known = client.token_hash.unwrap_or_default();
            if constant_time_eq_32(&known, &hash) & client.token_hash.is_some() {
                found = Some(client);
            }
        }
        found
    }

    /// The client of this name.
    pub fn by_name(&self, name: &str) -> Option<&Client> {
        self.0.iter().find(|client| client.name == name)
    }

    /// All clients.
    pub fn iter(&self) -> impl Iterator<Item = &Client> {
        self.0.iter()
    }
}

impl Client {
    /// Checks the names of the client and of its repositories.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self) -> Result<(), String> {
        check_client_name(&self.name)?;
        if self.repositories.is_empty() {
            return Err(format!("the client {} has no repositories", self.name));
        }
        match self
            .repositories
            .iter()
            .find(|name| !is_repository_name(name))
        {
            None => Ok(()),
            Some(name) => Err(format!(
                "{name:?} is no name for a repository: use up to 64 letters, digits, '-', '_' and \
                 '.', no '.' at its front"
            )),
        }
    }

    /// Whether a certificate with the client's name is its own.
    pub fn has_certificate(&self, der: &[u8]) -> bool {
        match self.certificate_hash {
            Some(hash) => hash == *blake3::hash(der).as_bytes(),
            None => self.token_hash.is_none(),
        }
    }

    /// The entry of the file for this client.
    pub fn entry(&self) -> String {
        let repositories: Vec<String> = self
            .repositories
            .iter()
            .map(|name| format!("{name:?}"))
            .collect();
        let mut text = format!(
            "\n[[client]]\nname = {:?}\nrole = \"{}\"\nrepositories = [{}]\n",
            self.name,
            self.role,
            repositories.join(", ")
        );
        if let Some(quota) = self.quota {
            let _ = writeln!(text, "quota = {quota}");
        }
        if let Some(hash) = self.token_hash {
            let _ = writeln!(text, "token = \"{}\"", hex::encode(hash));
        }
        if let Some(hash) = self.certificate_hash {
            let _ = writeln!(text, "certificate = \"{}\"", hex::encode(hash));
        }
        text
    }
}

fn parse_client(entry: &DeTable<'_>) -> Result<Client, String> {
    let mut client = Client {
        name: String::new(),
        role: Role::Read,
        repositories: Vec::new(),
        quota: None,
        token_hash: None,
        certificate_hash: None,
    };
    let mut has_role = false;
    for (key, value) in entry {
        let value = value.get_ref();
        match (key.get_ref().as_ref(), value) {
            ("name", DeValue::String(name)) => client.name = name.to_string(),
            ("role", DeValue::String(role)) => {
                client.role = role.parse()?;
                has_role = true;
            }
            ("repositories", DeValue::Array(names)) => {
                for name in names {
                    match name.get_ref() {
                        DeValue::String(name) => client.repositories.push(name.to_string()),
                        _ => return Err("repositories are to be names".to_owned()),
                    }
                }
            }
            ("quota", DeValue::Integer(quota)) if quota.radix() == 10 => {
                let bytes = quota.as_str().parse();
                client.quota = Some(bytes.map_err(|_| "a quota is a number of bytes".to_owned())?);
            }
            ("token", DeValue::String(hash)) => {
                client.token_hash = Some(parse_hash("token", hash)?);
            }
            ("certificate", DeValue::String(hash)) => {
                client.certificate_hash = Some(parse_hash("certificate", hash)?);
            }
            (key, _) => {
                return Err(format!(
                    "{key} is no setting of a client, or has no such value"
                ));
            }
        }
    }
    if !has_role {
        return Err(format!("the client {} has no role", client.name));
    }
    client.check()?;
    Ok(client)
}

fn parse_hash(of: &str, text: &str) -> Result<[u8; 32], String> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes).map_err(|_| {
        format!("the {of} is to be its BLAKE3 in 64 hexadecimal digits, not itself")
    })?;
    Ok(bytes)
}

/// Checks a client's name: up to 63 small letters, digits and hyphens, as in a DNS name.
fn check_client_name(name: &str) -> Result<(), String> {
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = (1..=63).contains(&name.len())
        && name.bytes().all(is_good)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if is_name {
        Ok(())
    } else {
        Err(format!(
            "{name:?} is no name for a client: use up to 63 small letters, digits and hyphens"
        ))
    }
}

/// A new token, and its BLAKE3 for the file.
pub fn new_token() -> (String, [u8; 32]) {
    let token = hex::encode(tabane_storage::random::<TOKEN_LEN>());
    let hash = *blake3::hash(token.as_bytes()).as_bytes();
    (token, hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_written_is_read() {
        let (token, hash) = new_token();
        let laptop = Client {
            name: "laptop".to_owned(),
            role: Role::Append,
            repositories: vec!["laptop".to_owned(), "shared".to_owned()],
            quota: Some(500 << 30),
            token_hash: Some(hash),
            certificate_hash: None,
        };
        let admin = Client {
            name: "admin".to_owned(),
            role: Role::Admin,
            repositories: vec!["laptop".to_owned()],
            quota: None,
            token_hash: None,
            certificate_hash: Some([7; 32]),
        };
        let text = format!("# Clients.\n{}{}", laptop.entry(), admin.entry());
        let clients = Clients::parse(&text).unwrap();
        assert_eq!(clients.0, [laptop.clone(), admin.clone()]);
        assert_eq!(clients.by_token(token.as_bytes()), Some(&laptop));
        for wrong in [
            "",
            "x",
            &token[1..],
            &token.to_uppercase(),
            &hex::encode(hash),
        ] {
            assert_eq!(clients.by_token(wrong.as_bytes()), None);
        }
        // Nobody's token is the one whose hash is all zeros.
        assert_eq!(clients.by_name("admin"), Some(&admin));
        assert_eq!(Clients::parse("").unwrap(), Clients::default());
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let client = |rest: &str| {
            format!("\n[[client]]\nname = \"a\"\nrole = \"read\"\nrepositories = [\"a\"]\n{rest}")
        };
        for (text, says) in [
            ("client = 5".to_owned(), "line 1: client"),
            ("\nx = [".to_owned(), "line 2"),
            ("[[user]]\nname = \"a\"".to_owned(), "line 1: user"),
            (client("qota = 5"), "line 2: qota"),
            (client("quota = \"5 GB\""), "quota is no setting"),
            (client("quota = -5"), "number of bytes"),
            (client("token = \"secret\""), "not itself"),
            (client(&client("")), "two clients are called a"),
            ("[[client]]\nname = \"a\"".to_owned(), "has no role"),
            (
                "[[client]]\nname = \"a\"\nrole = \"root\"".to_owned(),
                "no role \"root\"",
            ),
            (
                "[[client]]\nname = \"a\"\nrole = \"read\"".to_owned(),
                "no repositories",
            ),
            (
                "[[client]]\nrole = \"read\"".to_owned(),
                "no name for a client",
            ),
            (
                "[[client]]\nname = \"A B\"\nrole = \"read\"".to_owned(),
                "no name for a client",
            ),
            (
                "[[client]]\nname = \"a\"\nrole = \"read\"\nrepositories = [\"../x\"]".to_owned(),
                "no name for a repository",
            ),
        ] {
            let error = Clients::parse(&text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}

//! `tabane cluster client`, `renew`, `withdraw` and `certificates`

use std::path::Path;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::json;
use tabane_node::authority;
use tabane_storage::{Role, StorageErrorKind};
use tabane_striped::cluster;
use tabane_striped::cluster::file::ClusterFile;

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, Table, print_json};

/// Makes the file of another client.
pub fn add(global: &Global, name: &str, role: Role, valid: Duration) -> Result<Exit> {
    let file = global.cluster()?;
    let path =
        authority::add_client(&file, name, role, valid).map_err(|error| match error.kind() {
            StorageErrorKind::AlreadyExists => Failure::Other(format!(
                "{error}: `tabane cluster renew {name}` makes a new certificate, `tabane cluster \
                 withdraw {name}` ends the one that is there"
            )),
            _ => error.into(),
        })?;
    say(
        global,
        name,
        format!(
            "wrote {}: give it to client {name}, whose role is {role}",
            path.display()
        ),
    )?;
    Ok(Exit::Success)
}

/// Makes a new certificate.
pub fn renew(global: &Global, name: &str, valid: Duration) -> Result<Exit> {
    let path = authority::renew(&global.cluster()?, name, valid)?;
    say(
        global,
        name,
        format!(
            "wrote {} with a new certificate: put it where {name} runs; a node is served again \
             with it",
            path.display()
        ),
    )?;
    Ok(Exit::Success)
}

/// Withdraws certificates, and tells all nodes.
pub fn withdraw(global: &Global, name: &str) -> Result<Exit> {
    let file = global.cluster()?;
    if ClusterFile::read(&file)?
        .nodes
        .iter()
        .any(|node| node.name == name)
    {
        return Err(Failure::Other(format!(
            "{name} is a node: `tabane cluster replace` puts another in its place, and nobody \
             uses it from then on"
        )));
    }
    authority::withdraw(&file, name)?;
    let missing = tell_nodes(&file)?;
    let text = match missing.len() {
        0 => format!("the certificates of {name} are withdrawn, and all nodes know it"),
        _ => format!(
            "the certificates of {name} are withdrawn; these nodes do not know it yet, and hear of \
             it from the next `tabane cluster heal`: {}",
            missing.join("; ")
        ),
    };
    say(global, name, text)?;
    Ok(if missing.is_empty() {
        Exit::Success
    } else {
        Exit::Failure
    })
}

/// Tells all nodes which certificates are withdrawn; returns those that could not be told, and why.
pub fn tell_nodes(file: &Path) -> Result<Vec<String>> {
    let list = ClusterFile::read(file)?.withdrawn;
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let nodes = cluster::nodes(file)?;
    let told = nodes.iter().map(|node| node.withdraw(&list));
    Ok(told
        .filter_map(|told| Some(told.err()?.to_string()))
        .collect())
}

/// Shows who has a certificate.
pub fn certificates(global: &Global) -> Result<Exit> {
    let holders = authority::holders(&global.cluster()?)?;
    if global.json {
        print_json(&json!({"message_type": "cluster_certificates", "holders": holders}))?;
        return Ok(Exit::Success);
    }
    let mut output = Output::new();
    let mut table = Table::new(&["Name", "Role", "Valid until", "State"]);
    let now = SystemTime::now();
    for holder in holders {
        let until = SystemTime::UNIX_EPOCH + Duration::from_secs(holder.until);
        let state = if holder.is_withdrawn {
            "withdrawn"
        } else if until < now {
            "ended"
        } else {
            "valid"
        };
        let role = holder.role.map_or("node", Role::name);
        table.row(vec![
            holder.name,
            role.to_owned(),
            format::local_time(
                Timestamp::from_second(holder.until as i64).unwrap_or(Timestamp::MAX),
            ),
            state.to_owned(),
        ]);
    }
    table.print(&mut output)?;
    output.finish()?;
    Ok(Exit::Success)
}

fn say(global: &Global, name: &str, text: String) -> Result<()> {
    if global.json {
        return print_json(&json!({"message_type": "cluster_changed", "name": name, "text": text}));
    }
    let mut output = Output::new();
    output.line(text)?;
    output.finish()
}

//! The options that all commands take, and how they lead to a repository.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use clap::builder::FalseyValueParser;
use tabane_store::storage::{LocalStorage, Name, Storage};
use tabane_store::{Error, InitOptions, Repository};

use crate::config;
use crate::exit::{Failure, Result};
use crate::password;

/// Options that may stand before or behind the name of the command.
#[derive(Args, Clone, Debug)]
pub struct Global {
    /// Where the repository is, or @NAME for one of the configuration file
    #[arg(
        short,
        long,
        global = true,
        value_name = "PATH|@NAME",
        env = "TABANE_REPOSITORY"
    )]
    #[arg(help_heading = "Global options", hide_env_values = true)]
    pub repo: Option<PathBuf>,
    /// Read the password from this file [env: TABANE_PASSWORD_FILE]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        conflicts_with = "password_command"
    )]
    #[arg(help_heading = "Global options")]
    pub password_file: Option<PathBuf>,
    /// Read the password from what this command prints [env: TABANE_PASSWORD_COMMAND]
    #[arg(
        long,
        global = true,
        value_name = "COMMAND",
        help_heading = "Global options"
    )]
    pub password_command: Option<OsString>,
    /// Take options from this profile of the configuration file
    #[arg(
        short = 'P',
        long,
        global = true,
        value_name = "NAME",
        env = "TABANE_PROFILE"
    )]
    #[arg(help_heading = "Global options", hide_env_values = true)]
    pub profile: Option<String>,
    /// The configuration file [default: ~/.config/tabane/config.toml]
    #[arg(long, global = true, value_name = "FILE", env = "TABANE_CONFIG")]
    #[arg(help_heading = "Global options", hide_env_values = true)]
    pub config: Option<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long, global = true, env = "TABANE_JSON", hide_env_values = true)]
    #[arg(value_parser = FalseyValueParser::new(), help_heading = "Global options")]
    pub json: bool,
    /// Print nothing but errors and what was asked for
    #[arg(
        short,
        long,
        global = true,
        env = "TABANE_QUIET",
        hide_env_values = true
    )]
    #[arg(conflicts_with = "verbose", value_parser = FalseyValueParser::new(), help_heading = "Global options")]
    pub quiet: bool,
    /// Print more; -vv even more
    #[arg(
        short,
        long,
        global = true,
        env = "TABANE_VERBOSE",
        hide_env_values = true
    )]
    #[arg(action = clap::ArgAction::Count, help_heading = "Global options")]
    pub verbose: u8,
}

/// What is done when there is no repository yet.
#[derive(Clone, Copy)]
enum Absent {
    Fail,
    Create,
}

impl Global {
    /// These options, with the name of a repository replaced by what the configuration file says of it.
    fn resolve_name(&self) -> Result<Self> {
        let name = self
            .repo
            .as_ref()
            .and_then(|repo| repo.to_str()?.strip_prefix('@'));
        let Some(name) = name else {
            return Ok(self.clone());
        };
        let named = config::repository(self.config.as_ref(), name)?;
        let mut resolved = self.clone();
        resolved.repo = Some(named.url.into());
        if self.password_file.is_none() && self.password_command.is_none() {
            resolved.password_file = named.password_file;
            resolved.password_command = named.password_command;
        }
        Ok(resolved)
    }

    /// The storage that `--repo` names.
    fn storage(&self) -> Result<Arc<dyn Storage>> {
        match &self.repo {
            Some(path) if !path.as_os_str().is_empty() => Ok(Arc::new(LocalStorage::new(path))),
            _ => Err(Failure::Usage(
                "no repository given: use --repo PATH, or set TABANE_REPOSITORY".to_owned(),
            )),
        }
    }

    /// Opens the repository, asking for its password if need be.
    pub fn open(&self) -> Result<Arc<Repository>> {
        Ok(self.open_with(Absent::Fail)?.0)
    }

    /// Opens the repository, or makes it; says whether it is new.
    pub fn open_or_init(&self) -> Result<(Arc<Repository>, bool)> {
        self.open_with(Absent::Create)
    }

    /// Makes a repository, asking for its password if need be.
    pub fn init(&self, options: InitOptions) -> Result<Arc<Repository>> {
        let this = self.resolve_name()?;
        let storage = this.storage()?;
        // What cannot work anyway should not ask for a password first.
        if exists(&*storage)? {
            return Err(Error::RepositoryExists(storage.location()).into());
        }
        options.chunking.validate()?;
        let password = password::new(&this, "new repository")?;
        Ok(Arc::new(Repository::init(storage, &password, options)?))
    }

    fn open_with(&self, absent: Absent) -> Result<(Arc<Repository>, bool)> {
        let this = self.resolve_name()?;
        let storage = this.storage()?;
        if !exists(&*storage)? {
            return match absent {
                Absent::Fail => Err(Error::NoRepository(storage.location()).into()),
                Absent::Create => match self.init(InitOptions::default()) {
                    // Somebody else has just made it.
                    Err(Failure::Store(Error::RepositoryExists(_))) => self.open_with(Absent::Fail),
                    made => Ok((made?, true)),
                },
            };
        }
        let mut attempts = 1;
        loop {
            let (password, typed) = password::existing(&this)?;
            match Repository::open(Arc::clone(&storage), &password) {
                Err(error @ Error::WrongPassword(_)) if typed && attempts < password::ATTEMPTS => {
                    eprintln!("tabane: {error}: try again");
                    attempts += 1;
                }
                result => return Ok((Arc::new(result?), false)),
            }
        }
    }
}

/// Whether there is a repository.
fn exists(storage: &dyn Storage) -> Result<bool> {
    match storage.stat(Name::CONFIG) {
        Ok(_) => Ok(true),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(false),
            _ => Err(Error::storage("read", Name::CONFIG)(error).into()),
        },
    }
}

//! Which extended attributes come back.

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::operations::restore::RestoreOptions;
use tabane_format::entry::Entry;
use tabane_format::{Error, Result};

/// Chooses extended attributes by name.
#[derive(Debug, Default)]
pub struct XattrFilter {
    /// Attributes that come back; all if there is none.
    include: Option<GlobSet>,
    /// Of these, the ones that do not.
    exclude: Option<GlobSet>,
}

impl XattrFilter {
    /// What the options choose.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a pattern that cannot be used.
    pub fn new(options: &RestoreOptions) -> Result<Self> {
        Ok(Self {
            include: globs(&options.include_xattrs)?,
            exclude: globs(&options.exclude_xattrs)?,
        })
    }

    /// Takes away the attributes of an entry that do not come back.
    pub fn apply(&self, entry: &mut Entry) {
        if self.include.is_none() && self.exclude.is_none() {
            return;
        }
        entry.xattrs.retain(|xattr| {
            let name = String::from_utf8_lossy(&xattr.name);
            let is_in = |globs: &GlobSet| globs.is_match(name.as_ref());
            self.include.as_ref().is_none_or(is_in) && !self.exclude.as_ref().is_some_and(is_in)
        });
    }
}

fn globs(patterns: &[String]) -> Result<Option<GlobSet>> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let unusable = |error: globset::Error| {
            let why = error.kind();
            Error::Invalid(format!("the pattern {pattern:?} cannot be used: {why}"))
        };
        set.add(Glob::new(pattern).map_err(unusable)?);
    }
    let built = set
        .build()
        .map_err(|error| Error::Invalid(error.to_string()))?;
    Ok(Some(built))
}

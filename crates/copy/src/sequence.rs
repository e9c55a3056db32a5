//! The steps of a copy, in their order.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use tabane_files::write;

use crate::claim::Claim;
use crate::manifest::{self, Manifest};
use crate::operand::Target;
use crate::options::{Options, Verify};
use crate::problem::{Action, Problem};
use crate::progress::Progress;
use crate::reread;
use crate::run::Run;
use crate::summary::Summary;
use crate::walk;

/// Copies.
///
/// Failures are reported and counted in [`Summary::errors`], and all other files are copied
/// nevertheless, until the disk is full.
///
/// # Errors
/// When nothing can be copied: the target or the manifest is unusable.
pub fn copy(options: Options, progress: Arc<dyn Progress>) -> Result<Summary, Problem> {
    let mut target = Target::find(&options)?;
    let failed = |action, path: &PathBuf| {
        let path = path.clone();
        move |error| Problem::System {
            action,
            path,
            error,
        }
    };
    if let Some(path) = &options.manifest {
        manifest::check(path, &options, &target).map_err(failed(Action::Manifest, path))?;
    }
    let dead = std::mem::take(&mut target.dead);
    let purpose = std::mem::take(&mut target.purpose);
    let claim = Claim::make(target.home.clone(), dead, purpose, options.sync)
        .map_err(failed(Action::UseTarget, &options.target))?;
    let manifest = match &options.manifest {
        Some(path) => {
            let begun = Manifest::begin(path, options.algorithm, &target);
            Some(begun.map_err(failed(Action::Manifest, path))?)
        }
        None => None,
    };
    let home_path = std::mem::take(&mut target.home_path);
    let run = Arc::new(Run::new(options, progress, claim, home_path, manifest));
    run.will_sync(&target.home.directory)
        .and_then(|()| run.claim.clean(&target.home.directory))
        .map_err(failed(Action::UseTarget, &run.options.target))?;
    walk::copy_all(&run, &target);
    if (run.options.sync || run.options.verify == Verify::Reread)
        && !run.is_cancelled()
        && let Err(error) = run.sync()
    {
        run.problem(&failed(Action::Sync, &run.options.target)(error));
    }
    if run.options.verify == Verify::Reread {
        let records = run.take_records();
        reread::check_all(&run, records);
    }
    let interrupted = run.is_cancelled();
    if let Some(manifest) = &run.manifest {
        let finished = if interrupted {
            let kept = manifest.interrupt();
            kept.map(|kept| kept.iter().for_each(|path| run.progress.kept(path)))
        } else {
            manifest.finish(run.options.sync)
        };
        if let Err(error) = finished {
            run.problem(&failed(Action::Manifest, manifest.path())(error));
        }
    }
    run.set_flags();
    let summary = run.counters.summary(interrupted);
    let home_node = run.take_home();
    let Run {
        options,
        progress,
        claim,
        ..
    } = Arc::into_inner(run).expect("all workers are gone");
    let released = if interrupted {
        let may_be_lost = options.sync && summary.copied_bytes > 0;
        let kept = claim.interrupt(may_be_lost);
        kept.map(|kept| kept.iter().for_each(|path| progress.kept(path)))
    } else {
        claim.release()
    };
    released.map_err(failed(Action::UseTarget, &options.target))?;
    // Removing the claim has changed its times.
    if let Some(entry) = home_node {
        write::apply(target.home.directory.as_fd(), &entry);
        write::apply_flags(target.home.directory.as_fd(), OsStr::new("."), &entry);
    }
    Ok(summary)
}

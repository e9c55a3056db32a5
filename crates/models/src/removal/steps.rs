//! The steps of removal, by the names that mark them in the store's sources.

/// Declares the steps and their names.
macro_rules! steps {
    ($($step:ident = $name:literal,)*) => {
        /// A step: one operation of the storage, as the comment `// model: removal/NAME` marks it
        /// in `crates/store/src`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Step {
            $(#[doc = concat!("`", $name, "`")] $step,)*
        }

        impl Step {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$step,)*];

            /// The name that stands in the sources.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$step => $name,)*
                }
            }
        }
    };
}

steps! {
    IndexListRemovals = "index/list-removals",
    IndexListUnverified = "index/list-unverified",
    IndexListObjects = "index/list-objects",
    IndexListPacks = "index/list-packs",
    WriterPutPack = "writer/put-pack",
    WriterListRemovals = "writer/list-removals",
    WriterReadRemovals = "writer/read-removals",
    WriterFindPack = "writer/find-pack",
    WriterPutIndex = "writer/put-index",
    WriterPutRest = "writer/put-rest",
    WriterDeleteIndex = "writer/delete-index",
    RepackReadPacks = "repack/read-packs",
    CommitLook = "commit/look",
    CommitPutPending = "commit/put-pending",
    CommitListRemovals = "commit/list-removals",
    CommitPutSnapshot = "commit/put-snapshot",
    CommitConfirm = "commit/confirm",
    CommitDeleteSnapshot = "commit/delete-snapshot",
    CommitDeletePending = "commit/delete-pending",
    ForgetDeleteSnapshot = "forget/delete-snapshot",
    ViewListRemovals = "view/list-removals",
    ViewListPending = "view/list-pending",
    ViewListSnapshots = "view/list-snapshots",
    ViewListUnverified = "view/list-unverified",
    ViewListObjects = "view/list-objects",
    ViewListPacks = "view/list-packs",
    VerifyListRemovals = "verify/list-removals",
    VerifyPutIndex = "verify/put-index",
    VerifyListObjects = "verify/list-objects",
    VerifyDeleteUnverified = "verify/delete-unverified",
    PruneDeletePack = "prune/delete-pack",
    PrunePutRemoval = "prune/put-removal",
    RewriteListRemovals = "rewrite/list-removals",
    RewritePutIndex = "rewrite/put-index",
    RewriteConfirm = "rewrite/confirm",
    RewriteDeleteNew = "rewrite/delete-new",
    RewriteDeleteOld = "rewrite/delete-old",
    TidyDeleteRemoval = "tidy/delete-removal",
    TidyDeleteSnapshot = "tidy/delete-snapshot",
    TidyDeletePending = "tidy/delete-pending",
}
